//! Slots of a bus: the only part of it whose type has sizes.

use crate::cold::Cold;
use crate::line::{Line, Slot};
use crate::stored::Body;
use crate::sync::{Critical, Lock, array_of, constant};

/// Slots of a [`Bus`](crate::Bus): for up to `WAITERS` contexts that wait for the bus, and for
/// `STORED` submitted messages of `BYTES` bytes at most.
///
/// Only the declaration of a bus names them.
pub struct Slots<const WAITERS: usize = 8, const STORED: usize = 8, const BYTES: usize = 64> {
    queue: Critical<Queue<SlotArrays<WAITERS, STORED>>>,
    bodies: [Lock<Body<[u8; BYTES]>>; STORED],
}

/// Slots of any number and size: [`Slots`].
///
/// A function for every bus of a controller and a platform takes `&Bus<C, P, dyn AnySlots>`.
pub trait AnySlots: Storage {}

impl<const W: usize, const S: usize, const B: usize> AnySlots for Slots<W, S, B> {}

/// Access to slots of any size. Only for this crate.
pub trait Storage: Send + Sync {
    /// Returns the line.
    fn queue(&self) -> &Critical<Queue<dyn Split>>;

    /// Returns the message in a slot.
    fn body(&self, index: usize) -> &Lock<Body<[u8]>>;

    /// Returns the number of slots for messages.
    fn bodies(&self) -> usize;

    /// Returns the largest number of bytes of a message.
    fn room(&self) -> usize;

    /// Frees every slot, and drops the wakers in them.
    fn reset(&mut self);
}

impl dyn AnySlots + '_ {
    /// Calls `act` with the bus's cold state, in the critical section of the line.
    pub(crate) fn cold<R>(&self, act: impl FnOnce(&mut Cold) -> R) -> R {
        self.queue().with(|queue| act(&mut queue.cold))
    }
}

/// State in the critical section of a bus.
#[derive(Debug)]
pub struct Queue<T: ?Sized> {
    cold: Cold,
    slots: T,
}

#[derive(Debug)]
struct SlotArrays<const W: usize, const S: usize> {
    waiters: [Slot; W],
    stored: [Slot; S],
}

/// Slots of any number.
pub trait Split: Send {
    /// Returns the slots of waiters, and of stored messages.
    fn split(&mut self) -> (&mut [Slot], &mut [Slot]);
}

impl<const W: usize, const S: usize> Split for SlotArrays<W, S> {
    fn split(&mut self) -> (&mut [Slot], &mut [Slot]) {
        (&mut self.waiters, &mut self.stored)
    }
}

impl Queue<dyn Split> {
    pub(crate) fn line(&mut self) -> Line<'_> {
        let (waiters, stored) = self.slots.split();
        Line {
            order: &mut self.cold,
            waiters,
            stored,
        }
    }
}

impl<const W: usize, const S: usize, const B: usize> Slots<W, S, B> {
    constant! {
        fn empty() -> Critical<Queue<SlotArrays<W, S>>> {
            let slots = SlotArrays {
                waiters: array_of!(Slot::FREE),
                stored: array_of!(Slot::FREE),
            };
            Critical::new(Queue { cold: Cold::NEW, slots })
        }
    }

    constant! {
        pub(crate) fn new() -> Self {
            Self {
                queue: Self::empty(),
                bodies: array_of!(Lock::new(Body::new())),
            }
        }
    }
}

impl<const W: usize, const S: usize, const B: usize> Storage for Slots<W, S, B> {
    fn queue(&self) -> &Critical<Queue<dyn Split>> {
        &self.queue
    }

    fn body(&self, index: usize) -> &Lock<Body<[u8]>> {
        &self.bodies[index]
    }

    fn bodies(&self) -> usize {
        S
    }

    fn room(&self) -> usize {
        B
    }

    fn reset(&mut self) {
        self.queue = Self::empty();
    }
}
