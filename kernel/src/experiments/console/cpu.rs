//! A CPU of the flood: its clock, its timer, and its idle time.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use nostall_io::{Clock, Nanos, Processor};
use nostall_work::console::{self, Hold};

use super::state::STATE;
use crate::arch::{self, Cpu, MachineClock};
use crate::cpu;

/// Period of the tick, as in Linux kernels of distributions.
pub const TICK: Nanos = Nanos::from_millis(4);

/// Limit for stopping the other CPUs. Without an NMI, a CPU may never stop. After this time the
/// panic continues, as on Linux.
const STOP: Nanos = Nanos::from_secs(1);

/// The current CPU.
pub struct ThisCpu<'a> {
    clock: &'a MachineClock,
    cpus: u16,
}

impl<'a> ThisCpu<'a> {
    /// Creates the interface to the current CPU, one of `cpus`.
    pub const fn new(clock: &'a MachineClock, cpus: u16) -> Self {
        Self { clock, cpus }
    }

    /// Runs an interrupt handler, and counts its time. This time does not count as the task's
    /// sleep.
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

    /// Sleeps together with the task. A CPU that ran a second task meanwhile would keep other CPUs
    /// from running, if the machine has more CPUs than the host.
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

    /// Stops all other CPUs. Without an NMI, a CPU with masked interrupts continues.
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
