//! When a VMM collects transmit writes.

use std::time::Duration;

use super::Transmit;
use crate::Credit;

/// Price of a start and the stop after it, in accesses.
///
/// Each change makes the host's kernel wait for the readers of its device list (Linux:
/// `synchronize_srcu` in `kvm_io_bus_unregister_dev`). The wait takes as long as hundreds of exits:
/// milliseconds on some hosts. A terminal toggles the transmit interrupt for every write to it, and
/// must not wait each time.
const PRICE: u32 = 1_000;

/// Ticks without an access after which collection stops: a second.
const IDLE: u32 = 100;

/// Decides when a VMM collects the transmit writes of a port that [offers](super::Offer) it.
///
/// Collected writes wait until the VMM drains them: at each exit, before the exit is handled, and at
/// each [`TICK`](Self::TICK) of a timer. The timer runs only while writes are collected.
///
/// # Example
///
/// ```
/// use nostall_devices::uart::{Collecting, Collection, Transmit};
///
/// let mut collection = Collection::default();
/// assert_eq!(collection.follow(Transmit::Collect), Some(Collecting::Starts));
/// assert_eq!(collection.follow(Transmit::Collect), None);
/// // The guest enables the transmit interrupt, and expects an answer to each byte.
/// assert_eq!(collection.follow(Transmit::Trap), Some(Collecting::Stops));
/// ```
#[derive(Clone, Debug)]
pub struct Collection {
    collects: bool,
    credit: Credit,
    idle: u32,
}

/// A change that a VMM makes before its guest goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collecting {
    /// Start the timer and collect writes.
    Starts,
    /// Stop both, then drain the writes that are left.
    Stops,
}

impl Default for Collection {
    /// Returns a collection that has not started. Four starts are free: a driver that opens its
    /// port tests loopback and interrupts before its first write.
    fn default() -> Self {
        Self {
            collects: false,
            credit: Credit::full(4 * PRICE),
            idle: 0,
        }
    }
}

impl Collection {
    /// Longest time that a collected byte waits.
    pub const TICK: Duration = Duration::from_millis(10);

    /// Follows the port's [`Offer::transmit`](super::Offer::transmit). Call it after each access
    /// that the port handled, collected writes included: accesses pay for starts.
    pub fn follow(&mut self, transmit: Transmit) -> Option<Collecting> {
        self.credit.earn(1);
        self.idle = 0;
        let collects = transmit == Transmit::Collect;
        (collects != self.collects && (!collects || self.credit.spend(PRICE)))
            .then(|| self.change(collects))
    }

    /// Counts a tick. Call it after the drain at each tick. Without an access for a second, the
    /// collection stops, and its timer with it.
    pub fn tick(&mut self) -> Option<Collecting> {
        self.idle += 1;
        (self.collects && self.idle >= IDLE).then(|| self.change(false))
    }

    const fn change(&mut self, collects: bool) -> Collecting {
        self.collects = collects;
        self.idle = 0;
        match collects {
            true => Collecting::Starts,
            false => Collecting::Stops,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_toggles_pays_a_thousand_accesses_for_each_start() {
        let mut collection = Collection::default();
        let mut starts = 0;
        for _ in 0..50_000 {
            let started = collection.follow(Transmit::Collect).is_some();
            starts += u32::from(started);
            let stops = collection.follow(Transmit::Trap);
            assert_eq!(stops, started.then_some(Collecting::Stops));
        }
        assert_eq!(starts, 103); // the first starts are free, up to the fourth
    }

    #[test]
    fn collection_stops_after_a_second_without_an_access() {
        let mut collection = Collection::default();
        assert_eq!(collection.tick(), None);
        collection.follow(Transmit::Collect);
        assert_eq!((0..99).find_map(|_| collection.tick()), None);
        assert_eq!(collection.tick(), Some(Collecting::Stops));
        assert_eq!((0..1_000).find_map(|_| collection.tick()), None);
        let starts = collection.follow(Transmit::Collect);
        assert_eq!(starts, Some(Collecting::Starts));
        // A driver that reads the status after its bytes leaves nothing for the ticks.
        for _ in 0..20 {
            assert_eq!((0..50).find_map(|_| collection.tick()), None);
            assert_eq!(collection.follow(Transmit::Collect), None);
        }
    }
}
