//! CPUs asleep and awake: one mechanism for all work.
//!
//! A CPU [parks](park) until something is ready or a time has come. Another CPU that makes it
//! ready [unparks](unpark) it. Each CPU's timer [ticks](start_ticking), ends parks in time, and
//! serves one [alarm](set_alarm) of an experiment.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use nostall_io::{Clock, Nanos, Processor};
use spin::Once;

use crate::arch::{self, Cpu, MAX_CPUS, MachineClock};

/// Period of the tick, unless an experiment has its own.
pub const TICK: Nanos = Nanos::from_millis(10);

/// A time that does not come.
pub const NEVER: Nanos = Nanos(u64::MAX);

/// The clock that all CPUs share.
static CLOCK: Once<MachineClock> = Once::new();

/// The experiment that takes part in interrupts.
static HANDLERS: Once<Handlers> = Once::new();

/// State of one CPU's timer and sleep. Times in nanoseconds; zeros before its start.
struct State {
    period: AtomicU64,
    next_tick: AtomicU64,
    alarm: AtomicU64,
    /// End of its park.
    park_ends: AtomicU64,
    /// Time at which the hardware interrupts it.
    armed: AtomicU64,
    ticks: AtomicU64,
    /// It sleeps, or is about to: only an interrupt ends that.
    parked: AtomicBool,
    /// Parks in which it slept.
    sleeps: AtomicU64,
    /// Its timer's interrupts are the experiment's.
    takes_part: AtomicBool,
}

static STATES: [State; MAX_CPUS] = [const {
    State {
        period: AtomicU64::new(0),
        next_tick: AtomicU64::new(0),
        alarm: AtomicU64::new(0),
        park_ends: AtomicU64::new(0),
        armed: AtomicU64::new(0),
        ticks: AtomicU64::new(0),
        parked: AtomicBool::new(false),
        sleeps: AtomicU64::new(0),
        takes_part: AtomicBool::new(false),
    }
}; MAX_CPUS];

/// Events of a timer interrupt.
pub struct Due {
    /// A tick came; the number of ticks before it that did not come.
    pub tick: Option<u64>,
    /// The alarm came.
    pub alarm: bool,
}

/// Interrupt handlers of an experiment.
pub struct Handlers {
    /// Handles a timer interrupt of a CPU that [takes part](take_part).
    pub timer: fn(&Due),
    /// Handles an interrupt from another CPU, sent by [`arch::call_others`].
    pub call: fn(),
}

/// Sets the clock. To be done before any CPU starts its timer.
pub fn set_clock(clock: MachineClock) {
    CLOCK.call_once(|| clock);
}

/// Returns the clock, once it is set.
pub fn clock() -> Option<&'static MachineClock> {
    CLOCK.get()
}

/// Sets the handlers, once a boot.
pub fn set_handlers(handlers: Handlers) {
    HANDLERS.call_once(|| handlers);
}

/// Starts this CPU's tick, and lets interrupts through. To be called on each CPU, once.
pub fn start_ticking() {
    let this = &STATES[Cpu.id()];
    for time in [&this.alarm, &this.park_ends, &this.armed] {
        time.store(NEVER.0, Ordering::Relaxed);
    }
    this.tick(now() + TICK, TICK);
    arch::enable_interrupts();
}

/// Returns how many CPUs tick.
pub fn ticking() -> usize {
    let ticks = STATES.iter().map(|cpu| cpu.ticks.load(Ordering::Relaxed));
    ticks.filter(|&ticks| ticks > 0).count()
}

/// Returns how often CPUs went to sleep.
#[allow(
    dead_code,
    reason = "not every architecture has an experiment that counts them"
)]
pub fn sleeps() -> u64 {
    STATES
        .iter()
        .map(|cpu| cpu.sleeps.load(Ordering::Relaxed))
        .sum()
}

/// Makes this CPU's timer interrupts the experiment's, with ticks from `first` on.
pub fn take_part(first: Nanos, period: Nanos) {
    let this = &STATES[Cpu.id()];
    Cpu.without_interrupts(|| {
        this.takes_part.store(true, Ordering::Relaxed);
        this.tick(first, period);
    });
}

/// Ends that, and restores the tick.
pub fn leave() {
    let this = &STATES[Cpu.id()];
    Cpu.without_interrupts(|| {
        this.takes_part.store(false, Ordering::Relaxed);
        this.tick(now() + TICK, TICK);
    });
}

/// Sets the time of this CPU's alarm, in place of the one before.
pub fn set_alarm(at: Nanos) {
    let this = &STATES[Cpu.id()];
    Cpu.without_interrupts(|| {
        this.alarm.store(at.0, Ordering::Relaxed);
        this.arm();
    });
}

/// Parks this CPU until `ready` returns a value or `until` has come.
///
/// `ready` is called with interrupts masked: first before the CPU sleeps, and again after each
/// interrupt. A value that another CPU makes ready before [`unpark`] is never missed.
pub fn park<T>(until: Nanos, ready: impl Fn() -> Option<T>) -> Option<T> {
    let this = &STATES[Cpu.id()];
    this.parked.store(true, Ordering::Relaxed);
    // Before `ready` reads: the fence in `unpark` lies between the other CPU's write and its
    // look at `parked`. One of the two CPUs sees the other's write.
    fence(Ordering::SeqCst);
    let mut sleeps = 0;
    let result = loop {
        let over = arch::sleep_unless(|| {
            let ready = ready();
            if ready.is_some() || (until != NEVER && now() >= until) {
                return Some(ready);
            }
            this.park_ends.store(until.0, Ordering::Relaxed);
            this.arm();
            sleeps = 1;
            None
        });
        if let Some(ready) = over {
            break ready;
        }
    };
    this.park_ends.store(NEVER.0, Ordering::Relaxed);
    this.parked.store(false, Ordering::Relaxed);
    this.sleeps.fetch_add(sleeps, Ordering::Relaxed);
    result
}

/// Wakes those of `cpus` that are parked, so that they see all writes before this call.
pub fn unpark(cpus: impl IntoIterator<Item = usize>) {
    fence(Ordering::SeqCst);
    let is_parked = |cpu: &usize| STATES[*cpu].parked.load(Ordering::Relaxed);
    arch::wake(
        cpus.into_iter()
            .filter(|cpu| *cpu != Cpu.id() && is_parked(cpu)),
    );
}

/// Handles an interrupt of this CPU's timer.
pub fn on_timer() {
    let this = &STATES[Cpu.id()];
    this.armed.store(NEVER.0, Ordering::Relaxed);
    let due = this.due(now());
    if let Some(handlers) = HANDLERS.get()
        && this.takes_part.load(Ordering::Relaxed)
    {
        (handlers.timer)(&due);
    }
    this.arm();
}

/// Handles an interrupt that another CPU has sent with [`arch::call_others`]; `false` if no
/// experiment takes part.
pub fn on_call() -> bool {
    let handlers = HANDLERS.get();
    if let Some(handlers) = handlers {
        (handlers.call)();
    }
    handlers.is_some()
}

fn now() -> Nanos {
    clock().map_or(Nanos::ZERO, Clock::now)
}

impl State {
    fn tick(&self, first: Nanos, period: Nanos) {
        self.period.store(period.0, Ordering::Relaxed);
        self.next_tick.store(first.0, Ordering::Relaxed);
        self.arm();
    }

    /// Takes what has come by `now`. A missed tick is not made up for.
    fn due(&self, now: Nanos) -> Due {
        let next = self.next_tick.load(Ordering::Relaxed);
        let period = self.period.load(Ordering::Relaxed).max(1);
        let tick = now.0.checked_sub(next).map(|late| late / period);
        if let Some(missed) = tick {
            self.ticks.fetch_add(1, Ordering::Relaxed);
            self.next_tick
                .store(next + (missed + 1) * period, Ordering::Relaxed);
        }
        let came = |at: &AtomicU64| {
            let came = at.load(Ordering::Relaxed) <= now.0;
            if came {
                at.store(NEVER.0, Ordering::Relaxed);
            }
            came
        };
        came(&self.park_ends);
        let alarm = came(&self.alarm);
        Due { tick, alarm }
    }

    /// Has this CPU interrupted when the next is due, if it would be later. With interrupts
    /// masked.
    fn arm(&self) {
        let times = [&self.next_tick, &self.alarm, &self.park_ends];
        let times = times.map(|at| at.load(Ordering::Relaxed));
        let next = times.into_iter().fold(NEVER.0, u64::min);
        if let Some(clock) = clock()
            && next < self.armed.load(Ordering::Relaxed)
        {
            self.armed.store(next, Ordering::Relaxed);
            arch::set_timer(clock, Nanos(next));
        }
    }
}
