//! The trace of all functions, in a kernel that is built with it (`make traced-kernel`).
//!
//! In every other build there are no sites, and this module has no effect.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nostall_io::{Clock, Nanos, Processor};
use nostall_trace::functions::{self, Calls, Patched, Sites};
use nostall_trace::{Entered, Recorder};

use crate::arch::{self, Cpu, MAX_CPUS, Ticks};
use crate::cpu;

/// Records of all CPUs: scopes, and all functions in a kernel that is built with this trace.
pub static RECORDER: Recorder<'static, Ticks, Cpu> = Recorder::new(Ticks, Cpu);

static CALLS: [Calls; MAX_CPUS] = [const { Calls::new() }; MAX_CPUS];

/// Set while code changes: the other CPUs stay in [`on_call`].
static HELD: AtomicBool = AtomicBool::new(false);

/// Number of CPUs that wait in [`on_call`] for the new code.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// More than the time in which a CPU takes an interrupt, even on a busy host.
const BOUND: Nanos = Nanos::from_secs(5);

struct Recorded;

impl functions::Kernel for Recorded {
    #[inline(always)]
    fn calls() -> &'static Calls {
        // The remainder avoids a panic path in the recorder.
        &CALLS[Cpu.id() % MAX_CPUS]
    }

    fn entered(function: usize) -> Entered {
        RECORDER.enter(function as u64)
    }

    fn left(entered: Entered) {
        RECORDER.exit(entered);
    }
}

/// Returns the functions that can be recorded.
pub fn sites() -> Sites {
    unsafe extern "C" {
        static __sites_start: usize;
        static __sites_end: usize;
    }
    // SAFETY: the linker script puts the addresses of the sites between the two symbols.
    unsafe { Sites::new(&raw const __sites_start, &raw const __sites_end) }
}

/// Runs the handler of an interrupt or exception. Its functions are recorded even if it interrupted
/// the recorder.
#[inline(always)]
pub fn nested<T>(handler: impl FnOnce() -> T) -> T {
    <Recorded as functions::Kernel>::calls().nested(handler)
}

/// Runs a part of the recorder. Its functions are not recorded.
#[inline(always)]
pub fn unrecorded<T>(work: impl FnOnce() -> T) -> T {
    <Recorded as functions::Kernel>::calls().unrecorded(work)
}

/// Records the functions whose addresses `wanted` accepts, and no others, on all CPUs.
///
/// Panics if a CPU does not stop in time.
pub fn record(wanted: impl Fn(usize) -> bool) -> Patched {
    unrecorded(|| {
        Cpu.without_interrupts(|| {
            let others = cpu::ticking().saturating_sub(1);
            HELD.store(true, Ordering::Release);
            if others > 0 {
                arch::call_others();
                await_waiting(others);
            }
            // SAFETY: all other CPUs wait, and this one takes no interrupts.
            let patched = unsafe {
                arch::with_writable_code(|distance| {
                    functions::patch::<Recorded>(sites(), wanted, |site| {
                        site.wrapping_add(distance) as *mut u8
                    })
                })
            };
            arch::see_new_code();
            HELD.store(false, Ordering::Release);
            await_waiting(0);
            patched
        })
    })
}

fn await_waiting(count: usize) {
    let Some(clock) = cpu::clock() else { return };
    let deadline = clock.now() + BOUND;
    while WAITING.load(Ordering::Acquire) != count {
        assert!(
            clock.now() < deadline,
            "{} CPUs wait for new code, expected {count}",
            WAITING.load(Ordering::Acquire)
        );
        Cpu.relax();
    }
}

/// Handles an interrupt from another CPU: waits while code changes. Returns `false` if no code
/// changes.
pub fn on_call() -> bool {
    if !HELD.load(Ordering::Acquire) {
        return false;
    }
    WAITING.fetch_add(1, Ordering::AcqRel);
    // No function is called here, because its code may be the code that changes.
    while HELD.load(Ordering::Acquire) {
        core::hint::spin_loop();
    }
    arch::see_new_code();
    arch::resume_at(|pc| sites().resume(pc));
    WAITING.fetch_sub(1, Ordering::AcqRel);
    true
}
