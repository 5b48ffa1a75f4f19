//! Images behind the SPI controllers of QEMU's sifive_u: a flash, and a card that is only read.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::time::Duration;

use crate::common::qemu_for;
use nostall_vm::process::MemoryFile;
use nostall_vm::qemu::{Drive, Error, Guest, Limits, Qemu, QemuBoard};
use nostall_vm::{Ending, Machine as _};

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
    drives: &[],
    qemu_args: &[],
};

fn fails(qemu: &Qemu, guest: &Guest<'_>) -> Error {
    qemu.run(guest, &LIMITS, Ending::Done, &mut |_| {})
        .unwrap_err()
}

/// Returns a card's image, with a length that no card has.
fn odd_image() -> File {
    let mut image = tempfile::tempfile().unwrap();
    image.write_all(&[0x5a; 1_500_000]).unwrap();
    image
}

/// A new flash: all ones, as after a chip erase.
fn erased_flash() -> std::io::Result<MemoryFile> {
    MemoryFile::new(&vec![0xff; Drive::FLASH_BYTES as usize])
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
        drives: &[Drive::Flash(&flash)],
        ..GUEST
    };
    qemu.run(&guest, &LIMITS, Ending::Done, &mut |_| {})
        .unwrap();
    let content = flash.read_from(0, Drive::FLASH_BYTES).unwrap();
    let written = content.iter().filter(|byte| **byte != 0xff).count();
    assert!((1..=1 << 20).contains(&written), "{written} bytes");
}

/// Applies commands of QEMU's monitor to the card. Returns its last output, if any.
fn monitored(qemu: &Qemu, card: &File, commands: &[&str]) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let io = commands.iter().map(|io| format!("qemu-io sd0 \"{io}\"\n"));
    let io = io.collect::<String>() + "quit\n";
    fs::write(dir.path().join("monitor.in"), io).unwrap();
    fs::write(dir.path().join("monitor.out"), "").unwrap();
    let pipe = dir.path().join("monitor");
    let monitor = format!("pipe,id=monitor,path={}", pipe.display());
    let qemu_args = ["-S", "-chardev", &monitor, "-mon", "chardev=monitor"].map(OsString::from);
    let guest = Guest {
        drives: &[Drive::SdCard(card)],
        qemu_args: &qemu_args,
        ..GUEST
    };
    // The monitor ends the machine. The guest itself sends nothing.
    match fails(qemu, &guest) {
        Error::Reset => None, // no output but warnings
        Error::Qemu { status, said } if status.success() => Some(said),
        error => panic!("{error}"),
    }
}

#[test]
fn a_cards_image_is_never_written_and_reads_as_zeros_behind_its_end() {
    let Some(qemu) = qemu_for("a_cards_image_is_never_written", QemuBoard::SifiveU) else {
        return;
    };
    let mut image = odd_image();
    let said = monitored(
        &qemu,
        &image,
        &[
            "read -q -P 0x5a 0 1499648",
            "read -q -P 0 1500160 596992", // up to 2 MiB
            "write -q -P 0x33 0 4096",
            "read -q -P 0x33 0 4096",
            "read -q -P 0x5a 4096 4096",
        ],
    );
    assert_eq!(said, None);
    let mut now = Vec::new();
    image.seek(SeekFrom::Start(0)).unwrap();
    image.read_to_end(&mut now).unwrap();
    assert!(now == [0x5a; 1_500_000]);

    for wrong in ["read -q -P 0x33 0 512", "read -q -P 0 2097152 512"] {
        let said = monitored(&qemu, &image, &[wrong]);
        assert!(said.is_some(), "{wrong}");
    }
}

#[test]
fn an_image_in_memory_is_as_good_as_a_file_and_a_large_one_as_a_small_one() {
    let Some(qemu) = qemu_for("an_image_in_memory", QemuBoard::SifiveU) else {
        return;
    };
    let image = MemoryFile::new(&[0x5a; 4096]).unwrap();
    image.resize(20 << 30).unwrap(); // zeros, which take no room
    let image = image.share().unwrap();
    let said = monitored(
        &qemu,
        &image,
        &[
            "read -q -P 0x5a 0 4096",
            "read -q -P 0 34359737344 1024", // up to 32 GiB
            "write -q -P 0x33 34359737856 512",
            "read -q -P 0x33 34359737856 512",
        ],
    );
    assert_eq!(said, None);
    let flash = erased_flash().unwrap();
    let guest = Guest {
        drives: &[Drive::SdCard(&image), Drive::Flash(&flash)],
        ..GUEST
    };
    qemu.run(&guest, &LIMITS, Ending::Done, &mut |_| {})
        .unwrap();
}

#[test]
fn an_image_that_no_card_can_hold_is_refused_in_one_line() {
    let Some(qemu) = qemu_for("an_image_that_no_card_can_hold", QemuBoard::SifiveU) else {
        return;
    };
    let empty = tempfile::tempfile().unwrap();
    let guest = Guest {
        drives: &[Drive::SdCard(&empty)],
        ..GUEST
    };
    let error = fails(&qemu, &guest).to_string();
    assert!(error.contains("the SD card's image has 0 bytes"), "{error}");
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn a_machine_without_such_a_bus_says_so() {
    let Some(qemu) = qemu_for("a_machine_without_such_a_bus", QemuBoard::Virt) else {
        return;
    };
    let flash = erased_flash().unwrap();
    let guest = Guest {
        drives: &[Drive::Flash(&flash)],
        ..GUEST
    };
    let error = fails(&qemu, &guest);
    assert!(matches!(error, Error::Qemu { .. }), "{error}");
    assert!(error.to_string().contains("if=mtd"), "{error}");
}
