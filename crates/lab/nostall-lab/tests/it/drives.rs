//! A flash behind an SPI controller of QEMU's sifive_u.

use std::time::Duration;

use crate::common::qemu_for;
use nostall_vm::process::MemoryFile;
use nostall_vm::qemu::{Error, Guest, Limits, QemuBoard};
use nostall_vm::{Ending, FLASH_BYTES, Machine as _};

const LIMITS: Limits = Limits {
    start: Duration::from_secs(30),
    silence: Duration::from_secs(20),
    total: Duration::from_secs(60),
    serial_bytes: 0,
    report_bytes: 10_000,
    qemu_bytes: 1 << 20,
};

const GUEST: Guest<'_> = Guest {
    kernel: include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_RISCV64")),
    cpus: 1,
    work: &[],
    repeat: 1,
    input: &[],
    ram: None,
    flash: None,
    qemu_args: &[],
};

/// A new flash: all ones, as after a chip erase.
fn erased_flash() -> std::io::Result<MemoryFile> {
    MemoryFile::new(&vec![0xff; FLASH_BYTES as usize])
}

#[test]
fn a_flash_keeps_what_is_written() {
    let Some(qemu) = qemu_for("a_flash_keeps_what_is_written", QemuBoard::SifiveU) else {
        return;
    };
    let flash = erased_flash().unwrap();
    let work = [nostall_work::spi::Job::Flash.into()];
    let guest = Guest {
        work: &work,
        flash: Some(&flash),
        ..GUEST
    };
    qemu.run(&guest, &LIMITS, Ending::Done, &mut |_| {})
        .unwrap();
    let content = flash.read_from(0, FLASH_BYTES).unwrap();
    let written = content.iter().filter(|byte| **byte != 0xff).count();
    assert!((1..=1 << 20).contains(&written), "{written} bytes");
}

#[test]
fn a_machine_without_such_a_bus_says_so() {
    let Some(qemu) = qemu_for("a_machine_without_such_a_bus", QemuBoard::Virt) else {
        return;
    };
    let flash = erased_flash().unwrap();
    let guest = Guest {
        flash: Some(&flash),
        ..GUEST
    };
    let error = qemu.run(&guest, &LIMITS, Ending::Done, &mut |_| {});
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Qemu { .. }), "{error}");
    assert!(error.to_string().contains("if=mtd"), "{error}");
}
