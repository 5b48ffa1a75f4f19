//! The measurement of the CAN job.

use core::fmt;
use core::sync::atomic::Ordering;

use nostall_io::{Clock, Nanos};
use nostall_spi::{Bus, Error, Invalid, Select, Settings};
use spin::Mutex;

use super::CLOCK;
use super::machine::{CanBus, CanMachine};
use super::pump::{Chip, IDLE_TIMEOUT, config};
use super::receive::{Seen, TaskProgress, receive, set_up};
use super::transmit::transmit;
use super::wired::Wired;
use crate::spi::job::BusStrategy;
use crate::spi::job_result::SpiMeasured;

/// Upper bound for the time until a woken worker runs; far less than the idle timeout.
const SOON: Nanos = Nanos::from_millis(250);

/// Reason why the measurement failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The controller does not support the device's settings.
    Refused(Invalid),
    /// A message failed.
    Bus(Error),
    /// The bus still has an owner at the end.
    Held,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "CAN controller: {why}"),
            Self::Bus(error) => write!(f, "CAN controller: {error}"),
            Self::Held => f.write_str("CAN controller: its bus is not released"),
        }
    }
}

impl core::error::Error for Failed {}

impl BusStrategy {
    /// Returns the time to wait at the end. The worker then has put the hardware to sleep on a busy
    /// machine.
    const fn rest(self) -> Nanos {
        match self {
            Self::Pump => Nanos::from_secs(1),
            // The worker finds the bus idle after at most twice the idle timeout.
            Self::Caller => Nanos(4 * IDLE_TIMEOUT.0),
        }
    }
}

/// Receives `frames` frames on `machine`, and measures the cost.
///
/// # Errors
///
/// [`Failed`] if a message fails or the controller is unsuitable.
pub fn can<M: CanMachine>(
    machine: &M,
    strategy: BusStrategy,
    frames: u32,
) -> Result<SpiMeasured, Failed> {
    let wired = Wired::new(machine.controller(), frames);
    let bus: CanBus<M> = Bus::sized(wired, machine.platform()).with_config(config(strategy));
    let chip = bus
        .device(Settings::new(CLOCK, 0).select(Select::None))
        .map_err(Failed::Refused)?;
    let chip = Chip::new(chip, strategy);
    let clock = bus.platform();

    let shared = TaskProgress::default();
    let start = Mutex::new(Nanos::ZERO);
    let seen = Mutex::new(Ok(Seen::default()));
    let submitted = Mutex::new(Ok(0));
    let wakeups_meanwhile = Mutex::new(0);
    let receiver = || {
        *start.lock() = clock.now();
        let ended =
            set_up(&chip).and_then(|()| receive(&chip, clock, frames, IDLE_TIMEOUT, &shared));
        *seen.lock() = ended;
        shared.ended.store(true, Ordering::Release);
        *wakeups_meanwhile.lock() = u64::from(bus.statistics().wakeups);
    };
    let rest = || {
        clock.sleep_until(clock.now() + SOON);
        let wakeups = u64::from(bus.statistics().wakeups);
        // After a long pause of the machine, the later figures are omitted.
        if let Ok(seen) = *seen.lock()
            && clock.now() - seen.end < IDLE_TIMEOUT
        {
            *wakeups_meanwhile.lock() = wakeups;
        }
        clock.sleep_until(clock.now() + strategy.rest());
    };
    let transmitter = || *submitted.lock() = transmit(&chip, clock, &shared);
    let counted = machine.run(&bus, [&receiver, &transmitter], &rest);

    let start = *start.lock();
    let seen = (*seen.lock()).map_err(Failed::Bus)?;
    let submitted = (*submitted.lock()).map_err(Failed::Bus)?;
    // Statistics are read first, because reading the controller acquires the bus.
    let statistics = bus.statistics();
    let far = bus.with_controller(|wired| (wired.far.sent, wired.far.overflows()));
    let (sent, overflows) = far.ok_or(Failed::Held)?;
    Ok(SpiMeasured {
        strategy,
        received: seen.received,
        wrong: seen.wrong,
        overflows,
        submitted,
        sent,
        messages: statistics.messages.into(),
        sync: statistics.sync.into(),
        sync_immediate: statistics.sync_immediate.into(),
        asynchronous: statistics.asynchronous.into(),
        by_worker: statistics.by_worker.into(),
        errors: statistics.errors.into(),
        wakeups_meanwhile: *wakeups_meanwhile.lock(),
        wakeups: statistics.wakeups.into(),
        preparations: statistics.preparations.into(),
        teardowns: statistics.teardowns.into(),
        pauses: seen.pauses,
        ns: (seen.end - start).0,
        worker_ns: counted.worker.0,
        switches: counted.switches,
        cross_cpu: counted.cross_cpu,
        interrupts: counted.interrupts,
    })
}
