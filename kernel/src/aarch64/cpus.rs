//! The current CPU: its number, its interrupts, its sleep.

use core::arch::asm;
use core::sync::atomic::{AtomicUsize, Ordering};

use nostall_io::Processor;

use super::registers::{read, write};
use super::timer;

/// Number of CPUs for which stacks exist.
pub const MAX_CPUS: usize = 64;

/// The four affinity fields of `MPIDR_EL1`, which identify a CPU to PSCI and to the GIC.
const AFFINITY: usize = 0xff_00ff_ffff;

/// Identifier of each CPU.
static IDS: [AtomicUsize; MAX_CPUS] = [const { AtomicUsize::new(0) }; MAX_CPUS];

/// Stores the identifier of the first CPU.
pub fn init_first() {
    IDS[0].store(read!("mpidr_el1") as usize & AFFINITY, Ordering::Relaxed);
}

/// Stores the identifier of a CPU that is about to start.
pub fn set_id(cpu: usize, id: usize) {
    IDS[cpu].store(id, Ordering::Relaxed);
    // SAFETY: only orders memory accesses: the identifier is visible before the CPU starts.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
}

/// Returns the identifier of a started CPU.
pub fn id_of(cpu: usize) -> usize {
    IDS[cpu].load(Ordering::Relaxed)
}

/// The current CPU.
pub struct Cpu;

impl Processor for Cpu {
    // Inlined, because the recorder of all functions calls it.
    #[inline(always)]
    fn id(&self) -> usize {
        let number: usize;
        // SAFETY: boot.s puts the CPU's number there.
        unsafe {
            asm!("mrs {}, tpidr_el1", out(reg) number, options(nomem, nostack, preserves_flags));
        }
        number
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        let before = read!("daif");
        mask_interrupts();
        let result = critical();
        // SAFETY: the state before.
        unsafe { write!("daif", before) };
        result
    }
}

fn mask_interrupts() {
    // SAFETY: only delays interrupts.
    unsafe { asm!("msr daifset, #2", options(nostack, preserves_flags)) };
}

/// Unmasks this CPU's interrupts.
pub fn unmask_interrupts() {
    // SAFETY: traps.rs handles them.
    unsafe { asm!("msr daifclr, #2", options(nostack, preserves_flags)) };
}

/// Makes this CPU see code that was changed. [`with_writable_code`](super::with_writable_code) has
/// made the caches coherent.
// Inlined, because the start of a function may be the new code.
#[inline(always)]
pub fn see_new_code() {
    // SAFETY: discards fetched instructions.
    unsafe { asm!("isb", options(nostack, preserves_flags)) };
}

/// Stops this CPU forever.
pub fn hang() -> ! {
    mask_interrupts();
    timer::stop(); // a pending interrupt ends each wait
    loop {
        wait_for_interrupt();
    }
}

/// Executes `wfi` after all earlier writes.
fn wait_for_interrupt() {
    // SAFETY: the instruction only waits.
    unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) };
}

/// Sleeps until the next interrupt, unless there is work already.
///
/// Work is checked with interrupts masked. A wake-up in between is not lost, because a masked
/// interrupt also ends the instruction (Arm ARM, DDI 0487, section D1.6.2, "Wait for Interrupt").
pub fn sleep_unless<T>(something: impl FnOnce() -> Option<T>) -> Option<T> {
    mask_interrupts();
    let something = something();
    if something.is_none() {
        wait_for_interrupt();
    }
    unmask_interrupts();
    something
}
