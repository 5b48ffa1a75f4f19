//! Stalls that a bus reports, compared with the time for which the model's CPU is occupied.

use std::cell::Cell;
use std::task::Waker;

use crate::common::*;
use nostall_devices::{Stalls, VirtualClock};
use nostall_io::{Clock, Counter, Nanos, StallCondition};
use nostall_spi::{Bus, Config, Error, Platform, Settings, Slots};

/// Returns the result of `run`, the time for which the CPU is occupied in it, and the reported
/// stalls.
fn held<T>(clock: &VirtualClock, run: impl FnOnce() -> T) -> (T, Nanos, Stalls) {
    let (start, slept) = (clock.now(), clock.slept());
    let (result, stalls) = Stalls::during(clock, run);
    let held = (clock.now() - start) - (clock.slept() - slept);
    (result, held, stalls)
}

#[test]
fn short_transfers_and_pauses_occupy_the_cpu_and_long_ones_do_not() {
    let us = Nanos::from_micros;
    for (takes, pause, expected) in [
        (us(20), us(0), vec![(StallCondition::SpiTransfer, us(20))]),
        (
            us(20),
            us(7),
            vec![
                (StallCondition::SpiTransfer, us(20)),
                (StallCondition::SpiPause, us(7)),
            ],
        ),
        (us(900), us(600), vec![]),
    ] {
        let (bus, probe, clock) = bus(Config::DEFAULT);
        let settings = Settings {
            hold: pause,
            ..device(0)
        };
        let device = bus.device(settings).unwrap();
        probe.next(&[Act::Takes(takes)]);
        let (result, held, stalls) = held(&clock, || device.write(&[1, 2, 3]));
        assert_eq!(result, Ok(()));
        assert_eq!(stalls.sum(), held);
        let mut long = stalls.stalls.clone();
        long.retain(|&(_, duration)| duration > Nanos::ZERO);
        assert_eq!(long, expected);
        assert_eq!(stalls.counted(Counter::SpiBytes), 3);
        assert_eq!(stalls.counted(Counter::SpiMessages), 1);
    }
}

#[test]
fn a_controller_that_requests_immediate_calls_occupies_the_cpu_in_one_stall_until_the_limit() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let device = bus.device(device(0)).unwrap();
    probe.next(&[Act::NeverAtOnce]);
    let (result, held, stalls) = held(&clock, || device.write(&[1]));
    assert_eq!(result, Err(Error::Timeout { transfer: 0 }));
    assert_eq!(stalls.stalls, [(StallCondition::SpiTransfer, held)]);
}

/// A task that spins while the bus is busy. Each read of its clock takes a microsecond.
struct Spinning {
    clock: VirtualClock,
    reads: Cell<u64>,
}

impl Clock for Spinning {
    fn now(&self) -> Nanos {
        self.reads.set(self.reads.get() + 1);
        self.clock.advance(Nanos::from_micros(1));
        self.clock.now()
    }
    fn sleep_until(&self, deadline: Nanos) {
        self.clock.sleep_until(deadline);
    }
}

impl Platform for Spinning {
    fn current(&self) -> Option<Waker> {
        Some(Waker::noop().clone())
    }
    fn block(&self, until: Nanos) {
        self.sleep_until(until);
    }
    fn spin_time(&self) -> Nanos {
        Nanos::from_micros(10)
    }
}

#[test]
fn spinning_for_a_bus_with_an_owner_is_a_stall() {
    let (probe, clock) = (Probe::default(), VirtualClock::new());
    let platform = Spinning {
        clock: clock.clone(),
        reads: Cell::new(0),
    };
    let bus: Bus<_, _, Slots<4, 4, 16>> = Bus::sized(controller(&probe), platform);
    let [owner, other] = [0, 1].map(|line| bus.device(device(line)).unwrap());
    let locked = owner.lock().unwrap();
    let (result, _, stalls) = held(&clock, || other.write(&[1]));
    drop(locked);
    assert!(result.is_err());
    // One clock read for the end of the spin, and ten until that time.
    let spin = (StallCondition::BusOwner, Nanos::from_micros(11));
    assert!(!stalls.stalls.is_empty());
    assert!(
        stalls.stalls.iter().all(|stall| *stall == spin),
        "{stalls:?}"
    );
}
