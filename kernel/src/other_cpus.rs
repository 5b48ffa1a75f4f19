//! Work for the other CPUs: each CPU receives an errand, runs it, and idles again.

use core::mem;
use core::sync::atomic::{AtomicU16, Ordering};

use nostall_io::{Clock, Nanos, Processor};
use spin::Mutex;

use crate::arch::{Cpu, MAX_CPUS};
use crate::cpu::{self, NEVER};

/// Work of a CPU, called with the CPU's number.
type Errand<'a> = &'a (dyn Fn(usize) + Sync);

static ERRANDS: [Mutex<Option<Errand<'static>>>; MAX_CPUS] = [const { Mutex::new(None) }; MAX_CPUS];

/// Number of CPUs that have not finished their errands.
static BUSY: AtomicU16 = AtomicU16::new(0);

/// Runs `errand` on the first `cpus` CPUs at the same time. The caller must be the first of them.
///
/// Panics if another CPU is still busy `bound` after this CPU has finished.
pub fn together(cpus: u16, errand: Errand<'_>, clock: &impl Clock, bound: Nanos) {
    // SAFETY: only the lifetime changes. This function returns only when BUSY is 0: then no other
    // CPU uses the reference. If BUSY never becomes 0, it panics, which ends the machine and leaves
    // the caller's stack intact.
    let errand = unsafe { mem::transmute::<Errand<'_>, Errand<'static>>(errand) };
    BUSY.store(cpus - 1, Ordering::Relaxed);
    let others = 1..usize::from(cpus);
    for other in &ERRANDS[others.clone()] {
        *other.lock() = Some(errand);
    }
    cpu::unpark(others);
    errand(0);
    // The last CPU wakes this one. Polling instead could keep other CPUs off a shared host CPU.
    let all_done = cpu::park(clock.now() + bound, || {
        (BUSY.load(Ordering::Acquire) == 0).then_some(())
    });
    let busy = BUSY.load(Ordering::Acquire);
    assert!(all_done.is_some(), "{busy} CPUs are busy for {bound}");
}

/// Runs an errand each time that this CPU is given one, and sleeps otherwise.
pub fn idle() -> ! {
    loop {
        let errand = cpu::park(NEVER, || ERRANDS[Cpu.id()].lock().take());
        if let Some(errand) = errand {
            errand(Cpu.id());
            if BUSY.fetch_sub(1, Ordering::Release) == 1 {
                cpu::unpark([0]);
            }
        }
    }
}
