//! Line of waiters and stored messages, in the order of arrival.

use core::task::Waker;

use nostall_io::Nanos;

use crate::cold::{Cold, seen};

/// Number of a device on its bus. It becomes free when the device is dropped.
pub type DeviceNumber = u8;

/// Largest number of devices of a bus.
pub(crate) const DEVICES: DeviceNumber = 64;

/// Number of a context that has no device.
pub(crate) const NO_DEVICE: DeviceNumber = u8::MAX;

/// State of a slot in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    Free,
    /// A stored message is being copied into the slot.
    Filling,
    /// In line, asleep.
    Waiting,
    /// In line, and woken to check: it takes the bus, waits again or leaves.
    Notified,
    /// In line, and overtaken for long enough: the next release grants it the bus.
    Owed,
    /// A waiter that was granted the bus and has not responded yet.
    Granted,
    /// A stored message that the owner runs.
    Running,
    /// A stored message that the owner runs, and whose handle was dropped.
    Dropped,
    /// A stored message that was run and whose handle still exists.
    Done,
}

/// Slot in the line. It takes 32 bytes on 64-bit CPUs.
#[derive(Debug)]
pub struct Slot {
    /// Wakes the context that waits here.
    pub(crate) waker: Option<Waker>,
    /// Time at which the context joined, was notified, or was granted the bus.
    pub(crate) since: Nanos,
    /// Position in the order of arrival.
    pub(crate) ticket: u32,
    pub(crate) device: DeviceNumber,
    pub(crate) state: SlotState,
}

impl Slot {
    pub(crate) const FREE: Self = Self {
        waker: None,
        since: Nanos::ZERO,
        ticket: 0,
        device: 0,
        state: SlotState::Free,
    };

    const fn is_waiting(&self) -> bool {
        matches!(self.state, SlotState::Waiting | SlotState::Owed)
    }

    /// Returns whether the context was woken or granted the bus, and is expected to act.
    pub(crate) const fn is_awake(&self) -> bool {
        matches!(self.state, SlotState::Notified | SlotState::Granted)
    }

    /// Returns whether a context sleeps here: in line, or while its stored message is run.
    const fn is_asleep(&self) -> bool {
        let waits = self.is_waiting() || matches!(self.state, SlotState::Running);
        waits && self.waker.is_some()
    }

    /// Returns whether the message is stored and not begun.
    pub(crate) const fn is_queued(&self) -> bool {
        matches!(self.state, SlotState::Waiting | SlotState::Notified)
    }

    /// Returns the waker. The caller wakes it outside of the critical section.
    pub(crate) const fn notify(&mut self, now: Nanos) -> Option<Waker> {
        if self.is_waiting() {
            self.state = SlotState::Notified;
        }
        self.since = now;
        self.waker.take()
    }
}

/// Identity of a waiter. A later waiter in the same slot has another ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) index: usize,
    pub(crate) ticket: u32,
}

/// Line of a bus.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) order: &'a mut Cold,
    pub(crate) waiters: &'a mut [Slot],
    pub(crate) stored: &'a mut [Slot],
}

/// Gate bit: a release of the bus must check the line.
pub(crate) const CHECK_LINE: u32 = 2;

/// Returns the gate bit of a device: a message of it may be in line.
pub(crate) const fn device_bit(device: DeviceNumber) -> u32 {
    1 << (8 + device % 24)
}

/// Returns the bit of a device number; 0 for numbers above 63.
const fn number_bit(device: DeviceNumber) -> u64 {
    match 1_u64.checked_shl(device as u32) {
        Some(bit) => bit,
        None => 0,
    }
}

impl Line<'_> {
    /// Returns the gate's bits for this line.
    pub(crate) fn bits(&self) -> u32 {
        let mut bits = 0;
        let (mut waiting, mut check) = (false, self.order.abandoned.is_some());
        for slot in self.waiters.iter() {
            if slot.is_waiting() || slot.is_awake() {
                bits |= device_bit(slot.device);
                waiting |= slot.is_waiting();
                check |= slot.state == SlotState::Owed;
            }
        }
        for slot in self.stored.iter().filter(|slot| slot.is_queued()) {
            bits |= device_bit(slot.device);
            check = true;
        }
        if check || waiting && !self.is_watched() {
            bits |= CHECK_LINE;
        }
        bits
    }

    /// Returns whether a context is awake that will check the line.
    pub(crate) fn is_watched(&self) -> bool {
        self.slots().any(Slot::is_awake)
    }

    /// Returns whether the owner is gone. An owner that has run messages since then is not.
    pub(crate) fn is_abandoned(&mut self, messages: u32) -> bool {
        self.order.abandoned = self.order.abandoned.filter(|gone| *gone == seen(messages));
        self.order.abandoned.is_some()
    }

    /// Returns the number of contexts and stored messages in line.
    pub(crate) fn len(&self) -> usize {
        let stored = self.stored.iter().filter(|slot| slot.is_queued());
        let waiters = self.waiters.iter();
        waiters.filter(|slot| slot.state != SlotState::Free).count() + stored.count()
    }

    /// Takes a number for a new device. Skips the number of a dropped device while a leaked future
    /// of it is in line or its message is being run.
    pub(crate) fn add_device(&mut self) -> Option<DeviceNumber> {
        let slots = self
            .slots()
            .filter(|slot| !matches!(slot.state, SlotState::Free | SlotState::Done));
        let used = slots.fold(self.order.devices, |bits, slot| {
            bits | number_bit(slot.device)
        });
        let number = used.trailing_ones() as DeviceNumber;
        self.order.devices |= number_bit(number);
        (number_bit(number) != 0).then_some(number)
    }

    pub(crate) const fn has_device(&self, number: DeviceNumber) -> bool {
        self.order.devices & number_bit(number) != 0
    }

    pub(crate) const fn remove_device(&mut self, number: DeviceNumber) {
        self.order.devices &= !number_bit(number);
    }

    fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.waiters.iter().chain(self.stored.iter())
    }

    fn age(&self, slot: &Slot) -> u32 {
        self.order.tickets.wrapping_sub(slot.ticket)
    }

    /// Returns the next ticket.
    pub(crate) const fn next_ticket(&mut self) -> u32 {
        let ticket = self.order.tickets;
        self.order.tickets = ticket.wrapping_add(1);
        ticket
    }

    /// Returns whether a waiter of `device` joined before `ticket`.
    pub(crate) fn has_waiter_before(&self, device: DeviceNumber, ticket: u32) -> bool {
        let age = self.order.tickets.wrapping_sub(ticket);
        self.waiters.iter().any(|slot| {
            (slot.is_waiting() || slot.is_awake()) && slot.device == device && self.age(slot) > age
        })
    }

    /// Returns the oldest stored message that has no earlier waiter of its own device. It is one of
    /// all messages, or of those of one device before a ticket.
    pub(crate) fn runnable(&self, only: Option<(DeviceNumber, u32)>) -> Option<usize> {
        let due = |slot: &&(usize, &Slot)| {
            let (_, slot) = **slot;
            let wanted = only.is_none_or(|(device, before)| {
                slot.device == device && self.age(slot) > self.order.tickets.wrapping_sub(before)
            });
            slot.is_queued() && wanted && !self.has_waiter_before(slot.device, slot.ticket)
        };
        let oldest = { self.stored.iter().enumerate() }
            .filter(|slot| due(&slot))
            .max_by_key(|(_, slot)| self.age(slot));
        oldest.map(|(index, _)| index)
    }

    /// Returns the owner's next stored message. A waiter that is owed the bus goes before messages
    /// that were stored after it joined.
    pub(crate) fn next(&self) -> Option<usize> {
        let index = self.runnable(None)?;
        let age = self.age(&self.stored[index]);
        let mut waiters = self.waiters.iter();
        let goes_first = |slot: &Slot| slot.state == SlotState::Owed && self.age(slot) > age;
        (!waiters.any(goes_first)).then_some(index)
    }

    /// Returns the oldest context in line that can be woken to drive the bus.
    pub(crate) fn oldest(&mut self) -> Option<&mut Slot> {
        let tickets = self.order.tickets;
        let waiters = self.waiters.iter_mut().filter(|slot| slot.is_waiting());
        let stored = self.stored.iter_mut();
        let stored = stored.filter(|slot| slot.is_queued() && slot.waker.is_some());
        waiters
            .chain(stored)
            .max_by_key(|slot| tickets.wrapping_sub(slot.ticket))
    }

    /// Returns the oldest waiter that is owed the bus.
    pub(crate) fn owed(&mut self) -> Option<&mut Slot> {
        let tickets = self.order.tickets;
        let owed = { self.waiters.iter_mut() }.filter(|slot| slot.state == SlotState::Owed);
        owed.max_by_key(|slot| tickets.wrapping_sub(slot.ticket))
    }

    /// Returns a context that sleeps and has not checked for `timeout`.
    pub(crate) fn late(&mut self, now: Nanos, timeout: Nanos) -> Option<&mut Slot> {
        let mut slots = self.waiters.iter_mut().chain(self.stored.iter_mut());
        slots.find(|slot| slot.is_asleep() && now - slot.since >= timeout)
    }

    /// Returns the time at which a context has slept, or has not responded, for `timeout`.
    pub(crate) fn next_expiry(&self, now: Nanos, timeout: Nanos) -> Option<Nanos> {
        let slots = self
            .slots()
            .filter(|slot| slot.is_asleep() || slot.is_awake());
        let end = slots.map(|slot| slot.since + timeout).min();
        end.map(|end| end.max(now))
    }

    /// Returns the slot of a waiter, unless it was forfeited.
    pub(crate) fn waiter(&mut self, waiter: Waiter) -> Option<&mut Slot> {
        let slot = self.waiters.get_mut(waiter.index)?;
        (slot.state != SlotState::Free && slot.ticket == waiter.ticket).then_some(slot)
    }
}
