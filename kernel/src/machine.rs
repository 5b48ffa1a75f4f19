//! Start of a machine with all its CPUs.

use nostall_io::{Clock, Nanos, Processor};
use nostall_work::{Event, Timer};

use crate::arch::{self, Cpu, MAX_CPUS, MachineClock};
use crate::cpu;

/// More than the time in which any CPU starts and ticks, even on a busy host.
const START: Nanos = Nanos::from_secs(5);

/// A machine on which all CPUs run.
pub struct BootedMachine {
    cpus: u16,
    clock: MachineClock,
    /// Rate of the timers in hertz; 0 without timers.
    timer_hz: u64,
}

impl BootedMachine {
    /// Finds a clock and starts `cpus` CPUs, with their timers if `timer` selects them.
    ///
    /// Panics if there are too few CPUs, or if one does not run and tick in time.
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
            // Without a timer, no sleep would end. Therefore, there is only this CPU, which never
            // sleeps.
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

    /// Returns the clock that all CPUs share.
    pub const fn clock(&self) -> &MachineClock {
        &self.clock
    }

    /// Returns the report that the machine is ready.
    pub const fn ready(&self) -> Event {
        Event::Ready {
            cpus: self.cpus,
            clock_hz: self.clock.hz(),
            timer_hz: self.timer_hz,
        }
    }
}

/// Waits until `cpus` CPUs tick, and returns the number that do. Polls instead of sleeping, because
/// this CPU's own timer may be broken.
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
