//! The generic timer of each CPU: its virtual one (Arm ARM, DDI 0487, section D12.2.4).

use nostall_io::Nanos;

use super::MachineClock;
use super::counter::COMPATIBLE;
use super::registers::write;
use crate::device_tree::{cells, node};

/// Cells of an interrupt in the GIC's binding: type, number, flags. The node's interrupts are those
/// of the secure and the non-secure physical timer, then the virtual one's.
const CELLS: usize = 3;

/// Type of interrupts that each CPU has of its own, and the GIC's first number of them.
const PER_CPU: u32 = 1;
const FIRST_PER_CPU: u32 = 16;

/// `CNTV_CTL_EL0`: the timer is on.
const ENABLE: u64 = 1;

/// Returns the number of the timer's interrupt.
///
/// Panics if the device tree does not have it.
pub fn interrupt() -> u32 {
    let number = node(COMPATIBLE).and_then(|node| {
        let mut of_virtual = cells(&node, "interrupts").skip(2 * CELLS);
        (of_virtual.next()? == PER_CPU).then(|| of_virtual.next())?
    });
    match number {
        Some(number) if number < 32 - FIRST_PER_CPU => FIRST_PER_CPU + number,
        _ => panic!("the device tree has no {COMPATIBLE} with an interrupt of its virtual timer"),
    }
}

/// Sets this CPU's timer to interrupt it once, at `at`. Interrupts must be masked.
pub fn set(clock: &MachineClock, at: Nanos) {
    // SAFETY: traps.rs handles the interrupt.
    unsafe {
        write!("cntv_cval_el0", clock.steps_at(at));
        write!("cntv_ctl_el0", ENABLE);
    }
}

/// Stops this CPU's timer, which withdraws its interrupt.
pub fn stop() {
    // SAFETY: the timer has no effect but its interrupt. The barrier completes the write before the
    // interrupt's end.
    unsafe {
        write!("cntv_ctl_el0", 0);
        core::arch::asm!("isb", options(nostack, preserves_flags));
    }
}
