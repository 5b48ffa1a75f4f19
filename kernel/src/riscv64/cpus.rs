//! The CPUs: numbers, harts, start, timers.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nostall_io::{Nanos, Processor};
use riscv::interrupt::supervisor as interrupts;
use riscv::register::{sie, sip, sscratch};
use sbi_rt::HartMask;

use super::{MachineClock, harts};

/// CPUs that there are stacks for.
pub const MAX_CPUS: usize = 64;

/// What each CPU has for itself.
struct PerCpu {
    /// Interrupts so far, and those of them that another CPU has sent.
    interrupts: AtomicU64,
    wakes: AtomicU64,
}

static PER_CPU: [PerCpu; MAX_CPUS] = [const {
    PerCpu {
        interrupts: AtomicU64::new(0),
        wakes: AtomicU64::new(0),
    }
}; MAX_CPUS];

/// What is no hart's id, as far as we know.
const NO_HART: usize = usize::MAX;

/// By which id the hardware and the firmware know each CPU. Where boot.s finds the CPU's
/// number, and so not cleared with what is zero.
#[unsafe(no_mangle)]
static HARTS: [AtomicUsize; MAX_CPUS] = [const { AtomicUsize::new(NO_HART) }; MAX_CPUS];

/// CPUs that have been started.
static STARTED: AtomicUsize = AtomicUsize::new(1);

/// The first CPU is this hart.
pub fn init_first(hart: usize) {
    HARTS[0].store(hart, Ordering::Relaxed);
}

/// The hart that is the first CPU.
pub fn first_hart() -> usize {
    HARTS[0].load(Ordering::Relaxed)
}

/// The CPU that runs this.
pub struct Cpu;

impl Processor for Cpu {
    fn id(&self) -> usize {
        let number: usize;
        // SAFETY: boot.s puts the CPU's number into the thread pointer, which nothing
        // else uses: there are no threads.
        unsafe {
            asm!("mv {}, tp", out(reg) number, options(nomem, nostack, preserves_flags));
        }
        number
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        interrupts::free(critical)
    }
}

/// Has this CPU's timer interrupt it at `at`, once. With interrupts masked.
pub fn set_timer(clock: &MachineClock, at: Nanos) {
    sbi_rt::set_timer(clock.steps_at(at));
}

/// This CPU has been interrupted.
pub fn count_interrupt() {
    PER_CPU[Cpu.id()].interrupts.fetch_add(1, Ordering::Relaxed);
}

/// Interrupts of all CPUs so far, and those of them that came from another CPU.
pub fn interrupts() -> (u64, u64) {
    PER_CPU.iter().fold((0, 0), |(all, wakes), cpu| {
        (
            all + cpu.interrupts.load(Ordering::Relaxed),
            wakes + cpu.wakes.load(Ordering::Relaxed),
        )
    })
}

/// Whether this CPU is dealing with an interrupt: traps.s leaves 0 there meanwhile.
pub fn in_interrupt() -> bool {
    sscratch::read() == 0
}

/// Another CPU has woken this one: that was all.
pub fn on_wake() {
    // SAFETY: whoever sleeps looks again for what there is to do.
    unsafe { sip::clear_ssoft() };
    // And does so after that: whoever has something after the look sends another one. A
    // look at memory is not by itself behind a write to a CSR (unprivileged specification,
    // "CSR Access Ordering").
    riscv::asm::fence();
    PER_CPU[Cpu.id()].wakes.fetch_add(1, Ordering::Relaxed);
}

/// Does nothing more, for ever.
pub fn hang() -> ! {
    interrupts::disable();
    loop {
        // SAFETY: nothing is lost, for nothing goes on.
        unsafe { asm!("csrw sie, zero", options(nostack)) };
        wait_for_interrupt();
    }
}

/// `wfi`, behind all that was written before: what `riscv` has lets the compiler put it
/// off, the release of a lock among it.
fn wait_for_interrupt() {
    // SAFETY: it waits, or does not.
    unsafe { asm!("wfi", options(nostack, preserves_flags)) };
}

/// Sleeps until the next interrupt, unless there is something to do already.
/// What is there to do is looked for with interrupts masked: a wake-up in between is not
/// lost, because the instruction ends for a masked interrupt, too (privileged
/// specification 3.3.3).
pub fn sleep_unless<T>(something: impl FnOnce() -> Option<T>) -> Option<T> {
    interrupts::disable();
    let something = something();
    if something.is_none() {
        wait_for_interrupt();
    }
    // SAFETY: whoever calls this can be interrupted.
    unsafe { interrupts::enable() };
    something
}

/// Interrupts all other CPUs, as soon as they take interrupts: there are no NMIs here.
pub fn call_others() {
    wake((0..STARTED.load(Ordering::Relaxed)).filter(|&cpu| cpu != Cpu.id()));
}

/// Ends the sleep of these CPUs.
pub fn wake(cpus: impl IntoIterator<Item = usize>) {
    let others = cpus.into_iter();
    let mut harts = others.map(|cpu| HARTS[cpu].load(Ordering::Relaxed));
    let mut next = harts.next();
    // What they are to find is there before they are woken.
    riscv::asm::fence();
    while let Some(base) = next {
        // As many in one call as its mask has room for.
        let mut mask = HartMask::from_mask_base(1, base);
        next = harts.find(|&hart| mask.insert(hart).is_err());
        let sent = sbi_rt::send_ipi(mask); // SBI 2.0, 7.1
        assert!(sent.is_ok(), "harts cannot be woken: {sent:?}");
    }
}

/// Lets this CPU's interrupts through: the timer's, and those from other CPUs.
pub fn enable_interrupts() {
    // SAFETY: traps.rs deals with both.
    unsafe {
        sie::set_stimer();
        sie::set_ssoft();
        interrupts::enable();
    }
}

/// Starts the others of `cpus` CPUs, and returns the timers' rate in hertz.
///
/// Panics if they are not there.
pub fn start_cpus(cpus: u16, clock: &MachineClock) -> u64 {
    start_others(cpus.into());
    clock.hz()
}

/// Starts as many harts as are needed, this one counted (SBI 2.0, chapter 9).
fn start_others(cpus: usize) {
    unsafe extern "C" {
        safe static start: u8;
    }
    let first = first_hart();
    let others = harts::ids().filter(|&hart| hart != first);
    for (number, hart) in (1..cpus).zip(others) {
        // What it is to find is there before it starts.
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
