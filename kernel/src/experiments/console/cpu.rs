//! A CPU of the flood: its clock, its timer, and the time that it gives away.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use nostall_io::{Clock, Nanos, Processor};
use nostall_work::console::{self, Hold};

use super::state::STATE;
use crate::arch::{self, Cpu, MachineClock};
use crate::cpu;

/// Period of the tick: Linux's, as distributions build it.
pub const TICK: Nanos = Nanos::from_millis(4);

/// Bound on the time that CPUs take to stop, if they are not stopped themselves. Without an NMI
/// some may take for ever: a panic goes on after this, as on Linux.
const STOP: Nanos = Nanos::from_secs(1);

/// The CPU that runs this.
pub struct ThisCpu<'a> {
    clock: &'a MachineClock,
    cpus: u16,
}

impl<'a> ThisCpu<'a> {
    /// One of `cpus`.
    pub const fn new(clock: &'a MachineClock, cpus: u16) -> Self {
        Self { clock, cpus }
    }

    /// Runs this CPU's interrupt handler: a task that sleeps does not sleep meanwhile.
    pub fn handle(&self, handler: impl FnOnce()) {
        let from = self.clock.now();
        handler();
        let took = self.clock.now() - from;
        let handled = &STATE.times[self.id()].handled;
        handled.fetch_add(took.0, Ordering::Relaxed);
    }
}

impl Clock for ThisCpu<'_> {
    fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// The CPU sleeps with its task: one that ran a second task, and the host's CPUs
    /// with it, would keep other CPUs of a machine that has more of them than the host.
    fn sleep_until(&self, deadline: Nanos) {
        let times = &STATE.times[self.id()];
        let last_look = Cell::new(None);
        cpu::park(deadline, || {
            let (now, handled) = (self.now(), Nanos(times.handled.load(Ordering::Relaxed)));
            if let Some((from, before)) = last_look.replace(Some((now, handled))) {
                let slept = now - from - (handled - before);
                times.given_away.fetch_add(slept.0, Ordering::Relaxed);
            }
            None::<()>
        });
    }
}

impl Processor for ThisCpu<'_> {
    fn id(&self) -> usize {
        Cpu.id()
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        Cpu.without_interrupts(critical)
    }
}

impl console::Cpu for ThisCpu<'_> {
    fn call_at(&self, at: Nanos) {
        cpu::set_alarm(at);
    }

    /// Stops all other CPUs, wherever they are; or those of them that can be interrupted.
    fn stop_others(&self) {
        STATE.stopping.store(true, Ordering::Release);
        arch::call_others();
        let deadline = self.now() + STOP;
        while STATE.stopped.load(Ordering::Acquire) + 1 < self.cpus.into() && self.now() < deadline
        {
            self.relax();
        }
    }

    fn held(&self, hold: Hold) {
        STATE.keep_hold(self.id(), hold);
    }
}
