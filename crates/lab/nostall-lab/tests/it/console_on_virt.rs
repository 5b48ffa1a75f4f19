//! `nostall-lab run console --machine virt` and `arm-virt`, and `nostall postmortem` of those
//! machines, as their user sees them. They cannot interrupt a CPU that has masked interrupts.
//! RISC-V's firmware has used the only port before.

use crate::common::flood;

use std::fs;
use std::path::Path;

use crate::common::qemu_for;
use nostall_vm::qemu::QemuBoard;
use nostall_work::FIRMWARE_DONE;

const BOARDS: [(QemuBoard, &[u8]); 2] = [
    (
        QemuBoard::Virt,
        include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_RISCV64")),
    ),
    (
        QemuBoard::ArmVirt,
        include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_AARCH64")),
    ),
];

#[test]
fn a_guest_loses_nothing_sends_nothing_twice_and_brings_its_panic_without_an_nmi() {
    for (board, _) in BOARDS {
        if qemu_for("a_guest_loses_nothing", board).is_none() {
            continue;
        }
        // The machine implies QEMU.
        let out = flood::replayed(board, &format!("--machine {board}"));
        let says = "\nThis machine has no NMI. A CPU that prints with interrupts masked panics";
        assert!(out.contains(says));
    }
}

#[test]
fn whichever_way_a_kernel_dies_its_log_is_in_persistent_ram() {
    for (board, kernel) in BOARDS {
        if let Some(qemu) = qemu_for("whichever_way_a_kernel_dies", board) {
            flood::dies_in_every_way(&qemu, kernel);
        }
    }
}

#[test]
fn the_kernels_own_console_prints_from_timer_interrupts_and_in_a_panic() {
    for (board, kernel) in BOARDS {
        if let Some(qemu) = qemu_for("the_kernels_own_console", board) {
            flood::prints_its_own_log(&qemu, kernel);
        }
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
    if qemu_for(
        "the_ring_of_a_machine_killed_in_mid_flood",
        QemuBoard::ArmVirt,
    )
    .is_some()
    {
        let all = |serial: &Path| fs::read(serial).unwrap_or_default();
        flood::killed_in_mid_flood(QemuBoard::ArmVirt, all);
    }
}
