//! `nostall run console --machine virt` and `nostall postmortem` of that machine, as a user
//! meets them: a RISC-V machine has nothing that interrupts a CPU that has masked
//! interrupts, and no port of its own that the firmware has not used before.

mod common;
#[path = "common/flood.rs"]
mod flood;
#[path = "common/frozen.rs"]
mod frozen;

use std::fs;
use std::path::Path;

use common::qemu_for;
use nostall_vm::qemu::QemuBoard;
use nostall_work::FIRMWARE_DONE;

static KERNEL: &[u8] = include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_RISCV64"));

#[test]
fn a_guest_loses_nothing_sends_nothing_twice_and_brings_its_panic_without_an_nmi() {
    if qemu_for("a_guest_loses_nothing", QemuBoard::Virt).is_none() {
        return;
    }
    // The machine is QEMU's, which need not be said.
    let out = flood::replayed(QemuBoard::Virt, "--machine virt");
    assert!(out.contains("\nNothing here interrupts a CPU that has masked interrupts"));
}

#[test]
fn whichever_way_a_kernel_dies_its_log_is_in_persistent_ram() {
    if let Some(qemu) = qemu_for("whichever_way_a_kernel_dies", QemuBoard::Virt) {
        flood::dies_in_every_way(&qemu, KERNEL);
    }
}

/// What has come over the line since the firmware was done with it.
fn of_the_kernel(serial: &Path) -> Vec<u8> {
    let all = fs::read(serial).unwrap_or_default();
    let done = FIRMWARE_DONE.as_bytes();
    let at = all.windows(done.len()).position(|window| window == done);
    at.map_or_else(Vec::new, |at| all[at + done.len()..].to_vec())
}

#[test]
fn what_a_machine_killed_in_mid_flood_had_not_printed_is_in_its_ring() {
    if qemu_for("what_a_machine_killed_in_mid_flood", QemuBoard::Virt).is_some() {
        flood::killed_in_mid_flood(QemuBoard::Virt, of_the_kernel);
    }
}
