//! A machine with all its CPUs up.

use nostall_io::{Clock, Nanos, Processor};
use nostall_work::{Event, Timer};

use crate::arch::{self, Cpu, MAX_CPUS, MachineClock};
use crate::cpu;

/// Longer than any CPU takes to start and tick, on a busy host too.
const START: Nanos = Nanos::from_secs(5);

/// A machine with all its CPUs up.
pub struct BootedMachine {
    cpus: u16,
    clock: MachineClock,
    /// 0 if it is not used.
    timer_hz: u64,
}

impl BootedMachine {
    /// Finds a clock and starts all `cpus` CPUs, each with its timer, if there is one.
    ///
    /// Panics if they are not there, or do not all run and tick in time.
    pub fn start(cpus: u16, timer: Timer) -> Self {
        assert!(
            (1..=MAX_CPUS).contains(&cpus.into()),
            "{cpus} CPUs: must be 1 to {MAX_CPUS}"
        );
        let clock = MachineClock::find();
        cpu::set_clock(clock);
        let (cpus, timer_hz) = match timer {
            Timer::PerCpu => {
                let timer_hz = arch::start_cpus(cpus, &clock);
                cpu::start_ticking();
                (await_ticks(cpus, &clock), timer_hz)
            }
            // Nothing would end its sleep: this CPU never sleeps, and is alone.
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
    let deadline = clock.now() + START;
    while cpu::ticking() < cpus.into() {
        assert!(
            clock.now() < deadline,
            "only {} of {cpus} CPUs run and tick after {START}",
            cpu::ticking()
        );
        Cpu.relax();
    }
    cpu::ticking() as u16
}
