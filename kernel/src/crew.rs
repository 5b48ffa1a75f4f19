//! Errands for the other CPUs: each is given one, does it, and idles again.

use core::mem;
use core::sync::atomic::{AtomicU16, Ordering};

use nostall_io::{Clock, Nanos, Processor};
use spin::Mutex;

use crate::arch::{Cpu, MAX_CPUS};
use crate::cpu::{self, NEVER};

/// What a CPU is to do; it is told its number.
type Errand<'a> = &'a (dyn Fn(usize) + Sync);

static ERRANDS: [Mutex<Option<Errand<'static>>>; MAX_CPUS] = [const { Mutex::new(None) }; MAX_CPUS];

/// Those that have not done theirs.
static BUSY: AtomicU16 = AtomicU16::new(0);

/// Has the first `cpus` CPUs do `errand`, all at once, this one among them,
/// which must be the first.
///
/// Panics if the others take longer than this one and `bound`.
pub fn together(cpus: u16, errand: Errand<'_>, clock: &impl Clock, bound: Nanos) {
    // SAFETY: only the lifetime is changed. The others are done with it when BUSY
    // is 0; until then this does not return. If they never are, it panics, which
    // ends the machine and leaves our caller's stack as it is.
    let errand = unsafe { mem::transmute::<Errand<'_>, Errand<'static>>(errand) };
    BUSY.store(cpus - 1, Ordering::Relaxed);
    let others = 1..usize::from(cpus);
    for other in &ERRANDS[others.clone()] {
        *other.lock() = Some(errand);
    }
    cpu::unpark(others);
    errand(0);
    // The last one wakes this CPU, which would keep others of a host's CPU meanwhile.
    let all_done = cpu::park(clock.now() + bound, || {
        (BUSY.load(Ordering::Acquire) == 0).then_some(())
    });
    let busy = BUSY.load(Ordering::Acquire);
    assert!(all_done.is_some(), "{busy} CPUs are busy for {bound}");
}

/// Does this CPU's errand, if it has one, each time that it is woken.
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
