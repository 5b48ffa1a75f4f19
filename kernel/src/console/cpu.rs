//! A CPU that takes part: its timer, and what it gives away.

use core::sync::atomic::{AtomicU64, Ordering};

use nostall_io::{Clock, Nanos, Processor};
use nostall_work::console::{self, Hold};

use super::{outcome, stop_others};
use crate::arch::{self, Cpu, MAX_CPUS, MachineClock};
use crate::second::SecondTask;

/// Of the timer tick: Linux's, as distributions build it.
pub const TICK: Nanos = Nanos::from_millis(4);

/// A time that does not come.
const NEVER: u64 = u64::MAX;

/// A CPU's timer, which ticks and can be set besides.
pub struct Timer {
    /// Never, if it is off.
    next_tick: AtomicU64,
    alarm: AtomicU64,
}

/// What has come.
pub struct Due {
    /// A tick, and so many before it that did not.
    pub tick: Option<u64>,
    /// What it was set to.
    pub alarm: bool,
}

pub static TIMERS: [Timer; MAX_CPUS] = [const {
    Timer {
        next_tick: AtomicU64::new(NEVER),
        alarm: AtomicU64::new(NEVER),
    }
}; MAX_CPUS];

impl Timer {
    /// This CPU's ticks from `first` on.
    pub fn start(&self, clock: &MachineClock, first: Nanos) {
        Cpu.without_interrupts(|| {
            self.next_tick.store(first.0, Ordering::Relaxed);
            self.set(clock);
        });
    }

    /// This CPU's ticks as it did before.
    pub fn stop(&self) {
        Cpu.without_interrupts(|| {
            self.next_tick.store(NEVER, Ordering::Relaxed);
            arch::tick_again();
        });
    }

    pub fn is_on(&self) -> bool {
        self.next_tick.load(Ordering::Relaxed) != NEVER
    }

    /// Of ticks that were missed, none is made up for.
    pub fn due(&self, now: Nanos) -> Due {
        let next = self.next_tick.load(Ordering::Relaxed);
        let tick = now.0.checked_sub(next).map(|late| late / TICK.0);
        if let Some(missed) = tick {
            self.next_tick
                .store(next + (missed + 1) * TICK.0, Ordering::Relaxed);
        }
        let alarm = self.alarm.load(Ordering::Relaxed) <= now.0;
        if alarm {
            self.alarm.store(NEVER, Ordering::Relaxed);
        }
        Due { tick, alarm }
    }

    /// Has this CPU interrupted when the next is due.
    pub fn set(&self, clock: &MachineClock) {
        let alarm = self.alarm.load(Ordering::Relaxed);
        let next = self.next_tick.load(Ordering::Relaxed).min(alarm);
        arch::set_timer(clock, Nanos(next));
    }
}

/// The CPU that runs this.
pub struct ThisCpu<'a> {
    clock: &'a MachineClock,
    cpus: u16,
    /// In a task: the other one.
    second: Option<&'a SecondTask<MachineClock>>,
}

impl<'a> ThisCpu<'a> {
    /// One of `cpus`.
    pub const fn new(
        clock: &'a MachineClock,
        cpus: u16,
        second: Option<&'a SecondTask<MachineClock>>,
    ) -> Self {
        Self {
            clock,
            cpus,
            second,
        }
    }
}

impl Clock for ThisCpu<'_> {
    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn sleep_until(&self, deadline: Nanos) {
        match self.second {
            Some(second) => second.sleep_until(deadline),
            None => self.wait_until(deadline),
        }
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
        Cpu.without_interrupts(|| {
            let timer = &TIMERS[self.id()];
            timer.alarm.store(at.0, Ordering::Relaxed);
            if timer.is_on() {
                timer.set(self.clock);
            }
        });
    }

    fn stop_others(&self) {
        stop_others(self.clock, self.cpus);
    }

    fn held(&self, hold: Hold) {
        outcome::keep_hold(self.id(), hold);
    }
}
