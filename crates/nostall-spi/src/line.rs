//! The line: waiters and stored messages, in the order in which they came.

use core::task::Waker;

use nostall_io::Nanos;

use crate::sync::{array_of, constant};

/// The number of a device on its bus. It is free again when the device is dropped.
pub(crate) type DeviceNumber = u8;

/// The number of a context that has no device.
pub(crate) const NO_DEVICE: DeviceNumber = u8::MAX;

/// State of a place in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    /// A stored message is being copied in.
    Filling,
    /// In line, asleep.
    Waiting,
    /// In line, and woken to look: it takes the bus, waits again or leaves.
    Notified,
    /// In line, and overtaken for long enough: the next owner hands over the bus.
    Owed,
    /// A waiter that was given the bus and has not come yet.
    Granted,
    /// A stored message that the owner runs.
    Running,
    /// The same, and its handle was dropped.
    Dropped,
    /// A stored message that was run, until its handle is dropped.
    Done,
}

/// A place in the line: 32 bytes on a 64-bit CPU.
#[derive(Debug)]
pub(crate) struct Place {
    /// Wakes the context that waits here.
    pub(crate) waker: Option<Waker>,
    /// Time at which it joined, was notified, or was granted the bus.
    pub(crate) since: Nanos,
    /// Position in the order of arrival.
    pub(crate) ticket: u32,
    pub(crate) device: DeviceNumber,
    pub(crate) state: State,
}

impl Place {
    pub(crate) const FREE: Self = Self {
        waker: None,
        since: Nanos::ZERO,
        ticket: 0,
        device: 0,
        state: State::Free,
    };

    const fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting | State::Owed)
    }

    /// Woken, or given the bus, and expected to act.
    pub(crate) const fn is_awake(&self) -> bool {
        matches!(self.state, State::Notified | State::Granted)
    }

    /// Stored and not begun.
    pub(crate) const fn is_queued(&self) -> bool {
        matches!(self.state, State::Waiting | State::Notified)
    }

    /// Returns the waker, for the caller to wake outside of the critical section.
    pub(crate) const fn notify(&mut self, now: Nanos) -> Option<Waker> {
        self.state = State::Notified;
        self.since = now;
        self.waker.take()
    }
}

/// Names a waiter: a later one in the same place has another ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) index: usize,
    pub(crate) ticket: u32,
}

/// The line of a bus with `W` places for waiters and `S` for stored messages.
#[derive(Debug)]
pub(crate) struct Line<const W: usize, const S: usize> {
    pub(crate) waiters: [Place; W],
    pub(crate) stored: [Place; S],
    pub(crate) tickets: u32,
    /// A bit for each number that a device has.
    pub(crate) devices: u64,
    /// The owner has not let go for `lock_timeout`.
    pub(crate) abandoned: bool,
    /// The worker was called, and has not come yet.
    pub(crate) called: bool,
}

/// A release of the bus has to check the line.
pub(crate) const LOOK: u32 = 2;

/// The bit of the gate that says: a message of this device may be in the line.
pub(crate) const fn device_bit(device: DeviceNumber) -> u32 {
    1 << (8 + device % 24)
}

/// The bit of a number among 64; 0 if there is no such number.
const fn number_bit(device: DeviceNumber) -> u64 {
    match 1_u64.checked_shl(device as u32) {
        Some(bit) => bit,
        None => 0,
    }
}

impl<const W: usize, const S: usize> Line<W, S> {
    constant! {
        pub(crate) fn new() -> Self {
            Self {
                waiters: array_of!(Place::FREE),
                stored: array_of!(Place::FREE),
                tickets: 0,
                devices: 0,
                abandoned: false,
                called: false,
            }
        }
    }

    /// The gate's bits for this line.
    pub(crate) fn bits(&self) -> u32 {
        let mut bits = 0;
        let (mut waiting, mut look) = (false, self.abandoned);
        for place in &self.waiters {
            if place.is_waiting() || place.is_awake() {
                bits |= device_bit(place.device);
                waiting |= place.is_waiting();
                look |= place.state == State::Owed;
            }
        }
        for place in self.stored.iter().filter(|place| place.is_queued()) {
            bits |= device_bit(place.device);
            look = true;
        }
        if look || waiting && !self.is_watched() {
            bits |= LOOK;
        }
        bits
    }

    /// Whether a context is awake that will look at the line.
    pub(crate) fn is_watched(&self) -> bool {
        self.places().any(Place::is_awake)
    }

    /// Number of contexts and stored messages in line.
    pub(crate) fn len(&self) -> usize {
        let stored = self.stored.iter().filter(|place| place.is_queued());
        let waiters = self.waiters.iter();
        waiters.filter(|place| place.state != State::Free).count() + stored.count()
    }

    /// Takes a number for a new device: not that of a dropped one of which a leaked future
    /// is in line, or a message is run.
    pub(crate) fn add_device(&mut self) -> Option<DeviceNumber> {
        let places = self
            .places()
            .filter(|place| !matches!(place.state, State::Free | State::Done));
        let used = places.fold(self.devices, |bits, place| bits | number_bit(place.device));
        let number = used.trailing_ones() as DeviceNumber;
        self.devices |= number_bit(number);
        (number_bit(number) != 0).then_some(number)
    }

    pub(crate) const fn has_device(&self, number: DeviceNumber) -> bool {
        self.devices & number_bit(number) != 0
    }

    pub(crate) const fn remove_device(&mut self, number: DeviceNumber) {
        self.devices &= !number_bit(number);
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        self.waiters.iter().chain(&self.stored)
    }

    fn age(&self, place: &Place) -> u32 {
        self.tickets.wrapping_sub(place.ticket)
    }

    /// Gives `place` the next ticket.
    pub(crate) const fn next_ticket(&mut self) -> u32 {
        let ticket = self.tickets;
        self.tickets = ticket.wrapping_add(1);
        ticket
    }

    /// Whether a waiter of `device` came before `ticket`.
    pub(crate) fn has_waiter_before(&self, device: DeviceNumber, ticket: u32) -> bool {
        let age = self.tickets.wrapping_sub(ticket);
        self.waiters.iter().any(|place| {
            (place.is_waiting() || place.is_awake())
                && place.device == device
                && self.age(place) > age
        })
    }

    /// The oldest stored message that no earlier waiter of its own device forbids: of all,
    /// or of those of one device that came before a ticket.
    pub(crate) fn runnable(&self, only: Option<(DeviceNumber, u32)>) -> Option<usize> {
        let due = |place: &&(usize, &Place)| {
            let (_, place) = **place;
            let wanted = only.is_none_or(|(device, before)| {
                place.device == device && self.age(place) > self.tickets.wrapping_sub(before)
            });
            place.is_queued() && wanted && !self.has_waiter_before(place.device, place.ticket)
        };
        let oldest = { self.stored.iter().enumerate() }
            .filter(|place| due(&place))
            .max_by_key(|(_, place)| self.age(place));
        oldest.map(|(index, _)| index)
    }

    /// The oldest context in line that can be woken to drive the bus.
    pub(crate) fn oldest(&mut self) -> Option<&mut Place> {
        let tickets = self.tickets;
        let waiters = self.waiters.iter_mut().filter(|place| place.is_waiting());
        let stored = self.stored.iter_mut();
        let stored = stored.filter(|place| place.is_queued() && place.waker.is_some());
        waiters
            .chain(stored)
            .max_by_key(|place| tickets.wrapping_sub(place.ticket))
    }

    /// The oldest waiter that is owed the bus.
    pub(crate) fn owed(&mut self) -> Option<&mut Place> {
        let tickets = self.tickets;
        let owed = { self.waiters.iter_mut() }.filter(|place| place.state == State::Owed);
        owed.max_by_key(|place| tickets.wrapping_sub(place.ticket))
    }

    /// A context that sleeps in line and has not checked for `timeout`.
    pub(crate) fn late(&mut self, now: Nanos, timeout: Nanos) -> Option<&mut Place> {
        let mut places = self.waiters.iter_mut().chain(&mut self.stored);
        places.find(|place| {
            place.is_waiting() && place.waker.is_some() && now - place.since >= timeout
        })
    }

    /// When a context in line was not seen for `timeout`: the earliest of those that were
    /// woken. One that sleeps may be woken just now.
    pub(crate) fn next_expiry(&self, now: Nanos, timeout: Nanos) -> Option<Nanos> {
        let waiters = { self.waiters.iter() }.filter(|place| place.state != State::Free);
        let woken = { self.stored.iter() }.filter(|place| place.state == State::Notified);
        let since = waiters.chain(woken).map(|place| match place.is_awake() {
            true => place.since,
            false => now,
        });
        since.min().map(|since| since + timeout)
    }

    /// The place of a waiter, unless it was forfeited.
    pub(crate) fn waiter(&mut self, waiter: Waiter) -> Option<&mut Place> {
        let place = self.waiters.get_mut(waiter.index)?;
        (place.state != State::Free && place.ticket == waiter.ticket).then_some(place)
    }
}
