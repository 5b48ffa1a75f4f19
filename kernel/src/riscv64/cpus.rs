//! The CPUs: numbers, harts, start, timers.

use core::arch::asm;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nostall_io::{Nanos, Processor};
use riscv::interrupt::supervisor as interrupts;
use riscv::register::{sie, sip, sscratch};
use sbi_rt::HartMask;

use super::{MachineClock, harts};

/// Number of CPUs for which stacks exist.
pub const MAX_CPUS: usize = 64;

/// State of each CPU.
struct PerCpu {
    /// Number of interrupts so far. `wakes` counts those that another CPU sent.
    interrupts: AtomicU64,
    wakes: AtomicU64,
}

static PER_CPU: [PerCpu; MAX_CPUS] = [const {
    PerCpu {
        interrupts: AtomicU64::new(0),
        wakes: AtomicU64::new(0),
    }
}; MAX_CPUS];

/// A value that is not the id of any known hart.
const NO_HART: usize = usize::MAX;

/// Hart id of each CPU. boot.s looks up the CPU's number here, so this is not in zeroed memory.
#[unsafe(no_mangle)]
static HARTS: [AtomicUsize; MAX_CPUS] = [const { AtomicUsize::new(NO_HART) }; MAX_CPUS];

/// Number of started CPUs.
static STARTED: AtomicUsize = AtomicUsize::new(1);

/// Sets the hart of the first CPU.
pub fn init_first(hart: usize) {
    HARTS[0].store(hart, Ordering::Relaxed);
}

/// Returns the hart of the first CPU.
pub fn first_hart() -> usize {
    HARTS[0].load(Ordering::Relaxed)
}

/// The current CPU.
pub struct Cpu;

impl Processor for Cpu {
    // Inlined, because the recorder of all functions calls it.
    #[inline(always)]
    fn id(&self) -> usize {
        let number: usize;
        // SAFETY: boot.s puts the CPU's number into the thread pointer, which is free because there
        // are no threads.
        unsafe {
            asm!("mv {}, tp", out(reg) number, options(nomem, nostack, preserves_flags));
        }
        number
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        interrupts::free(critical)
    }
}

/// Makes this CPU see code that was changed (unprivileged specification, "Zifencei").
// Inlined, because the start of a function may be the new code.
#[inline(always)]
pub fn see_new_code() {
    riscv::asm::fence_i();
}

/// Returns 0, the number of cleaned cache lines: QEMU's machine keeps the caches in a reset.
///
/// # Safety
///
/// None is needed. Other architectures access the bytes.
pub const unsafe fn clean(_: NonNull<u8>, _: usize) -> usize {
    0
}

/// Sets this CPU's timer to interrupt it once, at `at`. Interrupts must be masked.
pub fn set_timer(clock: &MachineClock, at: Nanos) {
    sbi_rt::set_timer(clock.steps_at(at));
}

/// Counts an interrupt of this CPU.
pub fn count_interrupt() {
    PER_CPU[Cpu.id()].interrupts.fetch_add(1, Ordering::Relaxed);
}

/// Returns the number of interrupts of all CPUs so far, and how many of them another CPU sent.
pub fn interrupts() -> (u64, u64) {
    PER_CPU.iter().fold((0, 0), |(all, wakes), cpu| {
        (
            all + cpu.interrupts.load(Ordering::Relaxed),
            wakes + cpu.wakes.load(Ordering::Relaxed),
        )
    })
}

/// Returns whether this CPU is handling an interrupt: meanwhile traps.s stores 0 in `sscratch`.
pub fn in_interrupt() -> bool {
    sscratch::read() == 0
}

/// Handles a wake-up from another CPU, which needs no further action.
pub fn on_wake() {
    // SAFETY: a sleeping task checks for work again.
    unsafe { sip::clear_ssoft() };
    // The fence orders the clear before the task's check. Memory reads are not ordered after a CSR
    // write by themselves (unprivileged specification, "CSR Access Ordering"). Work that comes
    // after the check sends another wake-up.
    riscv::asm::fence();
    PER_CPU[Cpu.id()].wakes.fetch_add(1, Ordering::Relaxed);
}

/// Stops this CPU forever.
pub fn hang() -> ! {
    interrupts::disable();
    loop {
        // SAFETY: no code of this CPU runs after it.
        unsafe { asm!("csrw sie, zero", options(nostack)) };
        wait_for_interrupt();
    }
}

/// Executes `wfi` after all earlier writes. With `riscv`'s function, the compiler may move writes
/// behind it, including the release of a lock.
fn wait_for_interrupt() {
    // SAFETY: the instruction only waits.
    unsafe { asm!("wfi", options(nostack, preserves_flags)) };
}

/// Sleeps until the next interrupt, unless there is work already.
///
/// Work is checked with interrupts masked. A wake-up in between is not lost, because a masked
/// interrupt also ends the instruction (privileged specification, section 3.3.3).
pub fn sleep_unless<T>(something: impl FnOnce() -> Option<T>) -> Option<T> {
    interrupts::disable();
    let something = something();
    if something.is_none() {
        wait_for_interrupt();
    }
    // SAFETY: callers run with interrupts enabled.
    unsafe { interrupts::enable() };
    something
}

/// Interrupts all other CPUs. Without NMIs, a CPU with masked interrupts is interrupted later.
pub fn call_others() {
    wake((0..STARTED.load(Ordering::Relaxed)).filter(|&cpu| cpu != Cpu.id()));
}

/// Ends the sleep of these CPUs.
pub fn wake(cpus: impl IntoIterator<Item = usize>) {
    let others = cpus.into_iter();
    let mut harts = others.map(|cpu| HARTS[cpu].load(Ordering::Relaxed));
    let mut next = harts.next();
    // The work must be visible before the CPUs are woken.
    riscv::asm::fence();
    while let Some(base) = next {
        // Each call wakes as many harts as its mask has bits.
        let mut mask = HartMask::from_mask_base(1, base);
        next = harts.find(|&hart| mask.insert(hart).is_err());
        let sent = sbi_rt::send_ipi(mask); // SBI 2.0, 7.1
        assert!(sent.is_ok(), "harts cannot be woken: {sent:?}");
    }
}

/// Enables this CPU's interrupts from the timer and from other CPUs.
pub fn enable_interrupts() {
    // SAFETY: traps.rs handles both.
    unsafe {
        sie::set_stimer();
        sie::set_ssoft();
        interrupts::enable();
    }
}

/// Starts the other CPUs, up to `cpus` in total. Returns the timers' rate in hertz.
///
/// Panics if there are too few.
pub fn start_cpus(cpus: u16, clock: &MachineClock) -> u64 {
    start_others(cpus.into());
    clock.hz()
}

/// Starts harts until `cpus` are running, including this one (SBI 2.0, chapter 9).
fn start_others(cpus: usize) {
    unsafe extern "C" {
        safe static start: u8;
    }
    let first = first_hart();
    let others = harts::ids().filter(|&hart| hart != first);
    for (number, hart) in (1..cpus).zip(others) {
        // The hart's number must be visible before it starts.
        HARTS[number].store(hart, Ordering::Release);
        riscv::asm::fence();
        let started = sbi_rt::hart_start(hart, (&raw const start).addr(), 0);
        assert!(
            started.is_ok(),
            "hart {hart} cannot be started: {started:?}"
        );
        STARTED.store(number + 1, Ordering::Relaxed);
    }
    let started = STARTED.load(Ordering::Relaxed);
    assert!(
        started == cpus,
        "only {started} of {cpus} CPUs are there: the device tree has no more harts that \
         can run a kernel"
    );
}
