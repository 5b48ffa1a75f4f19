//! The queue: a few places, each with a state of its own, and a ticket for the order.
//!
//! There is no lock around it: an interrupt handler may queue while it interrupts
//! whoever queues, takes or cancels. A place goes
//!
//! ```text
//! Free -> Claimed -> Queued -> Running -> Finishing -> Done -> Free
//! ```
//!
//! and each arrow is taken by one context, by compare-and-exchange where two may want
//! to. Whoever gives a message up that is running makes it `Abandoned`, and whoever
//! runs it frees the place. A turn goes from `Queued` to `Granted`, and then the bus
//! is the waiter's.

use core::array;

use nostall_io::Nanos;

use crate::error::Error;
use crate::run::time_of_message;
use crate::settings::Settings;
use crate::slot::{Body, Completion, Content, Stowed, Wake};
use crate::sync::{AtomicU32, Lock, Ordering};
use crate::transfer::Outline;

/// What happens to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum State {
    /// Nobody uses it.
    Free,
    /// Somebody fills or clears it.
    Claimed,
    /// It waits for its turn.
    Queued,
    /// Whoever has the bus runs it.
    Running,
    /// It is through, and who is to be told is being looked up.
    Finishing,
    /// It is through, and whoever waited has it.
    Done,
    /// Nobody wants it any more, but somebody is running it.
    Abandoned,
    /// A turn whose waiter has the bus.
    Granted,
}

impl State {
    const ALL: [Self; 8] = [
        Self::Free,
        Self::Claimed,
        Self::Queued,
        Self::Running,
        Self::Finishing,
        Self::Done,
        Self::Abandoned,
        Self::Granted,
    ];

    const fn of(word: u32) -> Self {
        Self::ALL[(word & STATE) as usize]
    }
}

/// The bits of a place's word that are its state.
const STATE: u32 = 7;

/// A ticket has the other bits.
const TICKETS: u32 = u32::MAX >> 3;

/// After so many others were queued behind it, times the number of places, a message
/// goes first whatever the others' priority.
const PASSED_OVER: u32 = 4;

/// A place for one message.
#[derive(Debug)]
pub(crate) struct Slot<T, const BYTES: usize> {
    /// Its [`State`] and, above, its ticket: its number in the order of queueing. In
    /// one word, so that who saw one message waiting cannot take the next one that
    /// waits in the same place.
    word: AtomicU32,
    /// Whose. This and the next are set before it is queued, and do not change
    /// before it is free.
    device: AtomicU32,
    priority: AtomicU32,
    /// Bytes on the wire.
    bytes: AtomicU32,
    /// Nanoseconds that it will take, by its clocks and delays.
    time: AtomicU32,
    pub(crate) body: Lock<Body<BYTES>>,
    completion: Lock<Completion<T>>,
}

impl<T, const BYTES: usize> Slot<T, BYTES> {
    fn new() -> Self {
        Self {
            word: AtomicU32::new(State::Free as u32),
            device: AtomicU32::new(0),
            priority: AtomicU32::new(0),
            bytes: AtomicU32::new(0),
            time: AtomicU32::new(0),
            body: Lock::new(Body::new()),
            completion: Lock::new(Completion::Kept),
        }
    }

    pub(crate) fn state(&self) -> State {
        State::of(self.word.load(Ordering::Acquire))
    }

    /// Goes from one state to the next, if nobody else took it elsewhere.
    pub(crate) fn go(&self, from: State, to: State) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        State::of(word) == from && self.go_from(word, to)
    }

    /// From just this state of just this message.
    fn go_from(&self, word: u32, to: State) -> bool {
        let (got, not) = (Ordering::AcqRel, Ordering::Relaxed);
        let then = word & !STATE | to as u32;
        self.word.compare_exchange(word, then, got, not).is_ok()
    }

    /// From `Finishing` to `Done`: its word then. Nothing if it was given up.
    pub(crate) fn done(&self) -> Option<u32> {
        let word = self.word.load(Ordering::Relaxed);
        let finishing = State::of(word) == State::Finishing;
        let done = word & !STATE | State::Done as u32;
        (finishing && self.go_from(word, State::Done)).then_some(done)
    }

    pub(crate) fn word(&self) -> u32 {
        self.word.load(Ordering::Acquire)
    }

    /// For whoever alone may: he who claimed it, or for whom it is done.
    pub(crate) fn free(&self) {
        self.word.store(State::Free as u32, Ordering::Release);
    }

    /// Who is to be told, when it is `Finishing`. Nothing if the waiter is changing
    /// it just now: then he looks at the state afterwards.
    pub(crate) fn take_completion(&self) -> Completion<T> {
        let there = self.completion.try_enter();
        there.map_or(Completion::Kept, |mut completion| {
            core::mem::replace(&mut *completion, Completion::Kept)
        })
    }

    /// The same, for whoever finishes it without having the bus: for the moment that
    /// others look there, he waits.
    pub(crate) fn await_completion(&self) -> Completion<T> {
        core::mem::replace(&mut *self.completion.enter_soon(), Completion::Kept)
    }

    /// Has the waiter told by `wake`; the state after that. `Finishing` says that
    /// it may have come too late: look again in a moment.
    pub(crate) fn wait_by(&self, wake: Wake<T>) -> State {
        let told = self.completion.try_enter().map(|mut completion| {
            *completion = Completion::Wake(wake);
        });
        // Not a load: this and the finisher's exchange have an order. Either ours is
        // first, and he finds the lock free and `wake` in it; or we see his.
        match State::of(self.word.fetch_or(0, Ordering::AcqRel)) {
            State::Queued | State::Running if told.is_none() => State::Finishing,
            state => state,
        }
    }

    /// Whoever waits for it.
    fn waiter(&self) -> Option<Wake<T>>
    where
        T: Clone,
    {
        match &*self.completion.try_enter()? {
            Completion::Wake(wake) => Some(wake.clone()),
            Completion::Kept | Completion::Call(..) => None,
        }
    }

    pub(crate) fn bytes(&self) -> u32 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn time(&self) -> Nanos {
        Nanos(self.time.load(Ordering::Relaxed).into())
    }
}

/// Whose message it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    pub(crate) device: u32,
    pub(crate) settings: &'a Settings,
}

/// The places, and the tickets.
#[derive(Debug)]
pub(crate) struct Queue<T, const SLOTS: usize, const BYTES: usize> {
    slots: [Slot<T, BYTES>; SLOTS],
    /// The next.
    tickets: AtomicU32,
}

impl<T: Clone, const SLOTS: usize, const BYTES: usize> Queue<T, SLOTS, BYTES> {
    pub(crate) fn new() -> Self {
        Self {
            slots: array::from_fn(|_| Slot::new()),
            tickets: AtomicU32::new(0),
        }
    }

    pub(crate) fn slots(&self) -> &[Slot<T, BYTES>] {
        &self.slots
    }

    /// A place of the caller's own, with who is to be told; none if all are taken.
    fn claim(&self, completion: Completion<T>) -> Result<usize, Error> {
        for (index, slot) in self.slots.iter().enumerate() {
            if !slot.go(State::Free, State::Claimed) {
                continue;
            }
            // Somebody may be looking there still for who waited before.
            if let Some(mut there) = slot.completion.try_enter() {
                *there = completion;
                return Ok(index);
            }
            slot.free();
        }
        Err(Error::QueueFull)
    }

    /// Queues a message, of which a copy is kept.
    pub(crate) fn put<M: Outline + ?Sized>(
        &self,
        sender: Sender<'_>,
        message: &M,
        completion: Completion<T>,
    ) -> Result<usize, Error> {
        Stowed::<BYTES>::fits(message)?;
        let index = self.claim(completion)?;
        let slot = &self.slots[index];
        slot.body
            .enter()
            .message
            .fill(message, sender.settings.fill);
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        slot.bytes.store(number(message.bytes()), Ordering::Relaxed);
        let time = time_of_message(sender.settings, message).0;
        slot.time
            .store(u32::try_from(time).unwrap_or(u32::MAX), Ordering::Relaxed);
        self.publish(index, sender, Content::Message);
        Ok(index)
    }

    /// Queues for a turn.
    pub(crate) fn put_turn(
        &self,
        sender: Sender<'_>,
        completion: Completion<T>,
    ) -> Result<usize, Error> {
        let index = self.claim(completion)?;
        self.slots[index].bytes.store(0, Ordering::Relaxed);
        self.slots[index].time.store(0, Ordering::Relaxed);
        self.publish(index, sender, Content::Turn);
        Ok(index)
    }

    fn publish(&self, index: usize, sender: Sender<'_>, content: Content) {
        let slot = &self.slots[index];
        {
            let mut body = slot.body.enter();
            body.settings = *sender.settings;
            body.content = content;
            body.result = Ok(());
        }
        slot.device.store(sender.device, Ordering::Relaxed);
        let priority = sender.settings.priority.into();
        slot.priority.store(priority, Ordering::Relaxed);
        let ticket = self.tickets.fetch_add(1, Ordering::AcqRel) & TICKETS;
        let word = ticket << STATE.count_ones() | State::Queued as u32;
        slot.word.store(word, Ordering::Release);
    }

    /// Whose turn it is. It is still queued, and may be cancelled meanwhile.
    ///
    /// What is queued while this looks may be overlooked; its sender says so at the
    /// gate afterwards. It must not be found, either: it might be found before an
    /// earlier one of the same device that was just missed. So only tickets count
    /// that were given out before.
    pub(crate) fn next(&self) -> Option<Next> {
        let now = self.tickets.load(Ordering::Acquire);
        let mut best = None;
        for (index, slot) in self.slots.iter().enumerate() {
            let word = slot.word.load(Ordering::Acquire);
            let age = now.wrapping_sub(word >> STATE.count_ones()) & TICKETS;
            if State::of(word) != State::Queued || age == 0 || age > TICKETS / 2 {
                continue;
            }
            let starved = age > PASSED_OVER * SLOTS as u32;
            let priority = match starved {
                true => u32::MAX,
                false => slot.priority.load(Ordering::Relaxed),
            };
            let key = (priority, age);
            if best.is_none_or(|(than, _)| key > than) {
                best = Some((key, Next { index, word }));
            }
        }
        best.map(|(_, next)| next)
    }

    /// Begins with it, if it was not cancelled meanwhile.
    pub(crate) fn start(&self, next: Next) -> bool {
        self.slots[next.index].go_from(next.word, State::Running)
    }

    /// Somebody who waits for his message in the queue, or for the one that was left
    /// under way, other than at `own`. Only for whoever has the bus: a finisher must not
    /// find the lock taken.
    pub(crate) fn waiter(&self, own: Option<usize>) -> Option<Wake<T>> {
        self.slots
            .iter()
            .enumerate()
            .filter(|(index, _)| Some(*index) != own)
            .filter(|(_, slot)| matches!(slot.state(), State::Queued | State::Running))
            .find_map(|(_, slot)| slot.waiter())
    }

    /// Takes one message of `device` out of the queue. It is the caller's then, and
    /// `Claimed`.
    pub(crate) fn withdraw(&self, device: u32) -> Option<usize> {
        self.slots.iter().position(|slot| {
            let word = slot.word.load(Ordering::Acquire);
            State::of(word) == State::Queued
                && slot.device.load(Ordering::Relaxed) == device
                && slot.go_from(word, State::Claimed)
        })
    }
}

/// A message whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    pub(crate) index: usize,
    word: u32,
}
