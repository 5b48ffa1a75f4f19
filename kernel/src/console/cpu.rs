//! A CPU that takes part: its timer, and what it gives away.

use core::sync::atomic::{AtomicU64, Ordering};

use nostall_io::{Clock, Nanos, Processor};
use nostall_work::console::{self, Hold};

use super::{outcome, stop_others};
use crate::arch::{self, Cpu, MAX_CPUS, MachineClock};

/// Of the timer tick: Linux's, as distributions build it.
pub const TICK: Nanos = Nanos::from_millis(4);

/// A time that does not come.
const NEVER: u64 = u64::MAX;

/// A CPU's timer, which ticks and can be set besides; and what is left of its time.
pub struct Timer {
    /// Never, if it is off.
    next_tick: AtomicU64,
    alarm: AtomicU64,
    /// When the task goes on that sleeps on this CPU.
    wakes_at: AtomicU64,
    /// Nanoseconds spent in [`handle`](Self::handle).
    handled: AtomicU64,
    /// Nanoseconds slept.
    given_away: AtomicU64,
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
        wakes_at: AtomicU64::new(NEVER),
        handled: AtomicU64::new(0),
        given_away: AtomicU64::new(0),
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
        let came = |at: &AtomicU64| {
            let came = at.load(Ordering::Relaxed) <= now.0;
            if came {
                at.store(NEVER, Ordering::Relaxed);
            }
            came
        };
        came(&self.wakes_at);
        let alarm = came(&self.alarm);
        Due { tick, alarm }
    }

    /// Runs this CPU's interrupt handler: a task that sleeps does not sleep meanwhile.
    pub fn handle(&self, clock: &MachineClock, handler: impl FnOnce()) {
        let from = clock.now();
        handler();
        let took = clock.now() - from;
        self.handled.fetch_add(took.0, Ordering::Relaxed);
    }

    /// For how long this CPU's task has slept: what a second one could have had of it.
    pub fn given_away(&self) -> Nanos {
        Nanos(self.given_away.load(Ordering::Relaxed))
    }

    /// The task sleeps. The CPU does, too: one that ran a second task, and the host's CPUs
    /// with it, would keep other CPUs of a machine that has more of them than the host.
    fn sleep_until(&self, clock: &MachineClock, deadline: Nanos) {
        let handled = || self.handled.load(Ordering::Relaxed);
        loop {
            let mut from = (Nanos::ZERO, 0);
            let awake = arch::sleep_unless(|| {
                from = (clock.now(), handled());
                if from.0 >= deadline {
                    return Some(());
                }
                self.wakes_at.store(deadline.0, Ordering::Relaxed);
                self.set(clock);
                None
            });
            if awake.is_some() {
                return;
            }
            let slept = clock.now() - from.0 - Nanos(handled() - from.1);
            self.given_away.fetch_add(slept.0, Ordering::Relaxed);
        }
    }

    /// Has this CPU interrupted when the next is due.
    pub fn set(&self, clock: &MachineClock) {
        let times = [&self.next_tick, &self.alarm, &self.wakes_at];
        let next = times.map(|at| at.load(Ordering::Relaxed)).into_iter().min();
        arch::set_timer(clock, Nanos(next.unwrap_or(NEVER)));
    }
}

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
}

impl Clock for ThisCpu<'_> {
    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn sleep_until(&self, deadline: Nanos) {
        TIMERS[self.id()].sleep_until(self.clock, deadline);
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
