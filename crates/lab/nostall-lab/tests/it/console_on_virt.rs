//! `nostall-lab run console --machine virt` and `nostall postmortem` of that machine, as their user
//! sees them. A RISC-V machine cannot interrupt a CPU that has masked interrupts, and its
//! firmware has used the only port before.

use crate::common::flood;

use std::fs;
use std::path::Path;

use crate::common::qemu_for;
use nostall_vm::qemu::QemuBoard;
use nostall_work::FIRMWARE_DONE;

static KERNEL: &[u8] = include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_RISCV64"));

#[test]
fn a_guest_loses_nothing_sends_nothing_twice_and_brings_its_panic_without_an_nmi() {
    if qemu_for("a_guest_loses_nothing", QemuBoard::Virt).is_none() {
        return;
    }
    // `--machine virt` implies QEMU.
    let out = flood::replayed(QemuBoard::Virt, "--machine virt");
    assert!(
        out.contains("\nThis machine has no NMI. A CPU that prints with interrupts masked panics")
    );
}

#[test]
fn whichever_way_a_kernel_dies_its_log_is_in_persistent_ram() {
    if let Some(qemu) = qemu_for("whichever_way_a_kernel_dies", QemuBoard::Virt) {
        flood::dies_in_every_way(&qemu, KERNEL);
    }
}

#[test]
fn the_kernels_own_console_prints_from_timer_interrupts_and_in_a_panic() {
    if let Some(qemu) = qemu_for("the_kernels_own_console", QemuBoard::Virt) {
        flood::prints_its_own_log(&qemu, KERNEL);
    }
}

/// Returns the bytes on the line after those of the firmware.
fn of_the_kernel(serial: &Path) -> Vec<u8> {
    let all = fs::read(serial).unwrap_or_default();
    let done = FIRMWARE_DONE.as_bytes();
    let at = all.windows(done.len()).position(|window| window == done);
    at.map_or_else(Vec::new, |at| all[at + done.len()..].to_vec())
}

#[test]
fn the_ring_of_a_machine_killed_in_mid_flood_has_the_lines_not_yet_printed() {
    if qemu_for("the_ring_of_a_machine_killed_in_mid_flood", QemuBoard::Virt).is_some() {
        flood::killed_in_mid_flood(QemuBoard::Virt, of_the_kernel);
    }
}
