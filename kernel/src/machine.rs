//! A machine with all its CPUs up.

use core::sync::atomic::{AtomicU64, Ordering};

use nostall_io::{Clock, Nanos, Processor};
use nostall_work::{Event, Timer};

use crate::arch::{self, Cpu, MAX_CPUS, MachineClock};

/// Longer than any CPU takes to start and tick, on a busy host too.
const START: Nanos = Nanos::from_secs(5);

/// How often each CPU's timer has ticked.
static TICKS: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// This CPU's timer has ticked.
pub fn tick() {
    TICKS[Cpu.id()].fetch_add(1, Ordering::Relaxed);
}

/// A machine with all its CPUs up.
pub struct Machine {
    cpus: u16,
    clock: MachineClock,
    /// 0 if it is not used.
    timer_hz: u64,
}

impl Machine {
    /// Finds a clock and starts all `cpus` CPUs, each with its timer, if there is one.
    ///
    /// Panics if they are not there, or do not all run and tick in time.
    pub fn start(cpus: u16, timer: Timer) -> Self {
        assert!(
            (1..=MAX_CPUS).contains(&cpus.into()),
            "{cpus} CPUs: must be 1 to {MAX_CPUS}"
        );
        let clock = MachineClock::find();
        let (cpus, timer_hz) = match timer {
            Timer::PerCpu => {
                let timer_hz = arch::start_cpus(cpus, &clock);
                (await_ticks(cpus, &clock), timer_hz)
            }
            // Whoever sleeps would not be woken: this CPU never does, and is alone.
            Timer::None => {
                assert!(cpus == 1, "{cpus} CPUs without a timer: must be 1");
                (cpus, 0)
            }
        };
        Self {
            cpus,
            clock,
            timer_hz,
        }
    }

    /// The clock that all CPUs share.
    pub const fn clock(&self) -> &MachineClock {
        &self.clock
    }

    /// What there is to say of it.
    pub const fn ready(&self) -> Event {
        Event::Ready {
            cpus: self.cpus,
            clock_hz: self.clock.hz(),
            timer_hz: self.timer_hz,
        }
    }
}

/// Waits until `cpus` CPUs tick, and returns how many do. Not asleep, for it may be this
/// one's timer that does not.
fn await_ticks(cpus: u16, clock: &MachineClock) -> u16 {
    let ticking = || {
        let ticks = TICKS.iter().map(|ticks| ticks.load(Ordering::Relaxed));
        ticks.filter(|&ticks| ticks > 0).count()
    };
    let deadline = clock.now() + START;
    while ticking() < cpus.into() {
        assert!(
            clock.now() < deadline,
            "only {} of {cpus} CPUs run and tick after {START}",
            ticking()
        );
        Cpu.relax();
    }
    ticking() as u16
}
