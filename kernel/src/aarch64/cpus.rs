//! The CPUs: numbers, start, sleep, calls.

use core::arch::asm;
use core::sync::atomic::{AtomicUsize, Ordering};

use dtoolkit::standard::{NodeStandard, Status};
use nostall_io::Processor;

use super::registers::{read, write};
use super::{MachineClock, gic, psci, timer};
use crate::device_tree::cpus;

/// Number of CPUs for which stacks exist.
pub const MAX_CPUS: usize = 64;

/// The four affinity fields of `MPIDR_EL1`, which identify a CPU to PSCI and to the GIC.
const AFFINITY: usize = 0xff_00ff_ffff;

/// Identifier of each CPU.
static IDS: [AtomicUsize; MAX_CPUS] = [const { AtomicUsize::new(0) }; MAX_CPUS];

/// Number of started CPUs.
static STARTED: AtomicUsize = AtomicUsize::new(1);

/// Stores the identifier of the first CPU.
pub fn init_first() {
    IDS[0].store(read!("mpidr_el1") as usize & AFFINITY, Ordering::Relaxed);
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

fn unmask_interrupts() {
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

/// Interrupts all other CPUs. Without NMIs, a CPU with masked interrupts is interrupted later.
pub fn call_others() {
    wake((0..STARTED.load(Ordering::Relaxed)).filter(|&cpu| cpu != Cpu.id()));
}

/// Ends the sleep of these CPUs.
pub fn wake(cpus: impl IntoIterator<Item = usize>) {
    cpus.into_iter().for_each(gic::call);
}

/// Enables this CPU's interrupts from the timer and from other CPUs.
pub fn enable_interrupts() {
    gic::enable();
    unmask_interrupts();
}

/// Starts the other CPUs, up to `cpus` in total. Returns the timers' rate in hertz.
///
/// Panics if there are too few, or if one cannot be started.
pub fn start_cpus(cpus: u16, clock: &MachineClock) -> u64 {
    gic::init();
    start_others(cpus.into());
    clock.hz()
}

fn start_others(cpus: usize) {
    unsafe extern "C" {
        safe static start_other: u8;
    }
    let enabled = cpus::nodes().filter(|cpu| cpu.status() == Ok(Status::Okay));
    let others = enabled
        .filter_map(|cpu| cpus::id(&cpu))
        .filter(|&id| id != id_of(0));
    for (number, id) in (1..cpus).zip(others) {
        IDS[number].store(id, Ordering::Relaxed);
        // The identifier must be visible before the CPU starts.
        // SAFETY: only orders memory accesses.
        unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
        let started = psci::cpu_on(id, (&raw const start_other).addr(), number);
        assert!(
            started.is_ok(),
            "CPU {id:#x} cannot be started: {started:?}"
        );
        STARTED.store(number + 1, Ordering::Relaxed);
    }
    let started = STARTED.load(Ordering::Relaxed);
    assert!(
        started == cpus,
        "only {started} of {cpus} CPUs are there: the device tree has no more"
    );
}
