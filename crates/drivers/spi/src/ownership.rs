//! Ownership protocol: the context that has the bus, and the next one.
//!
//! One word, the *gate*, decides which context owns the bus. It is 0 while the bus is idle.
//! Otherwise it mirrors the line. [`CHECK_LINE`] makes the next release check the line. One bit for each
//! device makes that device's callers check the line first. The line is accessed only in a critical
//! section, and each section leaves the gate equal to the line's bits. So a context that finds
//! neither bit needs only one atomic exchange.
//!
//! Invariants:
//!
//! 1. At most one [`Token`] exists. `OWNED` is set while it does, or while a waiter is
//!    [granted](SlotState::Granted) the bus.
//! 2. While waiters sleep in line, `CHECK_LINE` and `OWNED` are set, so that the owner's release checks
//!    the line. Or a context in line is [notified](SlotState::Notified) or granted, and must take the
//!    bus, wait again, or leave.
//! 3. No context runs a message while an earlier one of the same device is in line.
//! 4. [`Owed`](SlotState::Owed) is set only while the bus is owned: that owner hands the bus over.

use core::task::Waker;

use nostall_io::Nanos;

use crate::cold::seen;
use crate::line::{CHECK_LINE, DeviceNumber, Line, Slot, SlotState, Waiter, device_bit};
use crate::slots::AnySlots;
use crate::sync::{AtomicU32, Ordering, constant};

const OWNED: u32 = 1;

/// Proof that the caller owns the bus, and the obligation to free it. A token dropped without
/// [`Ownership::release`] leaves the bus owned forever.
#[derive(Debug)]
#[must_use = "the bus is kept until the token is released"]
pub(crate) struct Token(());

/// Answer to a context that requests the bus.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// The caller owns the bus. Stored messages of its device with earlier tickets go first.
    Ours(Token, u32),
    /// The caller is in line, and is woken for its next check.
    InLine(Waiter),
    /// The bus is owned, and the caller does not wait.
    Busy,
    /// Every slot in the line is taken.
    Full,
    /// The owner is gone.
    Abandoned,
    /// The slot was forfeited.
    Forfeited,
}

/// Answer to the handle of a stored message.
#[derive(Debug)]
pub(crate) enum Watched {
    /// It was run.
    Done,
    /// The caller owns the bus, and must run the message.
    Ours(Token),
    /// The handle is woken for its next check.
    Wait,
    /// The owner is gone.
    Abandoned,
}

/// Result of a release.
#[derive(Debug)]
pub(crate) enum Released {
    /// The caller still owns the bus, and must run this stored message.
    Run(Token, usize),
    /// The bus is free, or granted. The caller must wake the waker.
    Free {
        wake: Option<Waker>,
        /// Stored messages are left for the worker.
        left: bool,
    },
}

/// Wakers that left a critical section: one to wake, two to drop.
#[derive(Debug, Default)]
#[must_use = "its waker must be woken"]
pub(crate) struct Wakers {
    pub(crate) wake: Option<Waker>,
    /// Removed from the line.
    pub(crate) unused: Option<Waker>,
    /// Not stored in the line.
    pub(crate) fresh: Option<Waker>,
}

/// Word that decides which context owns the bus.
#[derive(Debug)]
pub(crate) struct Gate(AtomicU32);

impl Gate {
    constant! {
        pub(crate) fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// Returns the word, for `Debug`.
    pub(crate) fn word(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Gate and line of a bus.
#[derive(Clone, Copy)]
pub(crate) struct Ownership<'b> {
    gate: &'b AtomicU32,
    slots: &'b dyn AnySlots,
}

/// Fast path.
impl<'b> Ownership<'b> {
    #[inline]
    pub(crate) fn new(gate: &'b Gate, slots: &'b dyn AnySlots) -> Self {
        Self {
            gate: &gate.0,
            slots,
        }
    }

    /// Takes an idle bus with one atomic exchange.
    #[inline]
    pub(crate) fn take(&self, device: DeviceNumber) -> Option<Token> {
        let (got, not) = (Ordering::Acquire, Ordering::Relaxed);
        match self.gate.compare_exchange(0, OWNED, got, not) {
            Ok(_) => Some(Token(())),
            Err(was) => self.overtake(device, was),
        }
    }

    /// Takes a free bus before the contexts in line, if none of these is of this device.
    #[cold]
    fn overtake(&self, device: DeviceNumber, mut was: u32) -> Option<Token> {
        loop {
            if was & (OWNED | device_bit(device)) != 0 {
                return None;
            }
            let (got, not) = (Ordering::Acquire, Ordering::Relaxed);
            match self.gate.compare_exchange(was, was | OWNED, got, not) {
                Ok(_) => return Some(Token(())),
                Err(is) => was = is,
            }
        }
    }

    /// Returns whether the bus is owned; it may be free by now. If not, the effects of its last
    /// owner are visible.
    #[inline]
    pub(crate) fn is_owned(&self) -> bool {
        self.gate.load(Ordering::Acquire) & OWNED != 0
    }

    /// Frees the bus. Without contexts in line, this is one atomic exchange.
    ///
    /// With `run`, the owner takes the next runnable stored message instead, if any.
    #[inline]
    pub(crate) fn release(&self, token: Token, run: bool, now: impl FnOnce() -> Nanos) -> Released {
        let (got, not) = (Ordering::Release, Ordering::Relaxed);
        match self.gate.compare_exchange(OWNED, 0, got, not) {
            Ok(_) => Released::Free {
                wake: None,
                left: false,
            },
            Err(was) => self.release_in_line(token, run, was, now),
        }
    }

    #[cold]
    fn release_in_line(
        &self,
        token: Token,
        run: bool,
        mut was: u32,
        now: impl FnOnce() -> Nanos,
    ) -> Released {
        while was & CHECK_LINE == 0 {
            let (got, not) = (Ordering::Release, Ordering::Relaxed);
            match self.gate.compare_exchange(was, was & !OWNED, got, not) {
                Ok(_) => {
                    return Released::Free {
                        wake: None,
                        left: false,
                    };
                }
                Err(is) => was = is,
            }
        }
        // Outside of the critical section: the clock is foreign code, and may be slow.
        let now = now();
        self.with(|line| {
            if run && let Some(index) = line.next() {
                self.begin(line, index);
                return Released::Run(token, index);
            }
            line.order.abandoned = None;
            if let Some(slot) = line.owed() {
                slot.state = SlotState::Granted;
                slot.since = now;
                let wake = slot.waker.take();
                self.gate.swap(OWNED | line.bits(), Ordering::AcqRel);
                // The new owner runs the stored messages.
                return Released::Free { wake, left: false };
            }
            let left = line.runnable(None).is_some();
            let wake = match line.is_watched() {
                true => None,
                false => line.oldest().and_then(|slot| slot.notify(now)),
            };
            self.gate.swap(line.bits(), Ordering::AcqRel);
            Released::Free { wake, left }
        })
    }
}

/// Functions for use in the critical section.
impl Ownership<'_> {
    /// Calls `act` with the line, in a critical section.
    fn with<R>(&self, act: impl FnOnce(&mut Line<'_>) -> R) -> R {
        self.slots.queue().with(|queue| act(&mut queue.line()))
    }

    /// Takes the bus if it is free.
    fn take_free(&self) -> Option<Token> {
        let mut was = self.gate.load(Ordering::Relaxed);
        while was & OWNED == 0 {
            let (got, not) = (Ordering::AcqRel, Ordering::Relaxed);
            match self.gate.compare_exchange(was, was | OWNED, got, not) {
                Ok(_) => return Some(Token(())),
                Err(is) => was = is,
            }
        }
        None
    }

    /// Mirrors the line while the caller owns the bus.
    fn mirror_owned(&self, line: &Line<'_>) {
        self.gate.swap(OWNED | line.bits(), Ordering::AcqRel);
    }

    /// Mirrors the line if the bus is owned. Otherwise its owner has released it without a check.
    fn mirror_if_owned(&self, line: &Line<'_>) -> bool {
        let bits = OWNED | line.bits();
        let mut was = self.gate.load(Ordering::Relaxed);
        while was & OWNED != 0 {
            let (got, not) = (Ordering::AcqRel, Ordering::Relaxed);
            match self.gate.compare_exchange(was, bits, got, not) {
                Ok(_) => return true,
                Err(is) => was = is,
            }
        }
        false
    }

    /// Mirrors the line, and restores invariant 2 after a context has joined or left it. Returns
    /// the waker of the context that must check.
    fn settle(&self, line: &mut Line<'_>, now: Nanos) -> Option<Waker> {
        if self.mirror_if_owned(line) {
            return None;
        }
        let wake = match line.is_watched() {
            true => None,
            false => line.oldest().and_then(|slot| slot.notify(now)),
        };
        let bits = line.bits();
        let mut was = self.gate.load(Ordering::Relaxed);
        loop {
            // A caller may have overtaken meanwhile.
            let then = was & OWNED | bits;
            let (got, not) = (Ordering::AcqRel, Ordering::Relaxed);
            match self.gate.compare_exchange(was, then, got, not) {
                Ok(_) => return wake,
                Err(is) => was = is,
            }
        }
    }

    /// Begins a stored message.
    fn begin(&self, line: &mut Line<'_>, index: usize) {
        line.stored[index].state = SlotState::Running;
        self.mirror_owned(line);
    }

    /// Removes waiters that were woken and have not responded for `timeout`, except `own`.
    fn forfeit(&self, line: &mut Line<'_>, own: Option<Waiter>, now: Nanos, timeout: Nanos) {
        for (index, slot) in line.waiters.iter_mut().enumerate() {
            let its_own = own.is_some_and(|own| own.index == index);
            if its_own || !slot.is_awake() || now - slot.since < timeout {
                continue;
            }
            if slot.state == SlotState::Granted {
                self.gate.fetch_and(!OWNED, Ordering::AcqRel);
            }
            // The waker was taken when it was woken.
            slot.state = SlotState::Free;
        }
        // A handle loses its duty to check; its message stays.
        for slot in line.stored.iter_mut() {
            if slot.state == SlotState::Notified && now - slot.since >= timeout {
                slot.state = SlotState::Waiting;
            }
        }
    }
}

/// Functions for waiters.
impl Ownership<'_> {
    /// Takes the bus for `device`, or joins the line with `waker`.
    pub(crate) fn join(
        &self,
        device: DeviceNumber,
        waker: Option<&Waker>,
        now: Nanos,
        timeout: Nanos,
        messages: u32,
    ) -> (Wanted, Wakers) {
        // The clone comes before any change, because it may panic.
        let mut fresh = waker.cloned();
        let mut wakers = Wakers::default();
        let wanted = self.with(|line| {
            self.forfeit(line, None, now, timeout);
            if line.is_abandoned(messages) {
                return Wanted::Abandoned;
            }
            let mut joined: Option<Waiter> = None;
            // A round fails if the owner has released the bus, or if another caller has taken it.
            loop {
                let ticket = joined.map_or(line.order.tickets, |waiter| waiter.ticket);
                let behind = line.has_waiter_before(device, ticket);
                if !behind && let Some(token) = self.take_free() {
                    if let Some(Waiter { index, .. }) = joined {
                        fresh = line.waiters[index].waker.take();
                        line.waiters[index].state = SlotState::Free;
                    }
                    self.mirror_owned(line);
                    return Wanted::Ours(token, ticket);
                }
                let waiter = match joined {
                    Some(waiter) => waiter,
                    None => {
                        let mut slots = line.waiters.iter();
                        let index = slots.position(|slot| slot.state == SlotState::Free);
                        let Some((index, waker)) =
                            index.and_then(|index| Some((index, fresh.take()?)))
                        else {
                            wakers.wake = self.settle(line, now);
                            return match waker {
                                Some(_) => Wanted::Full,
                                None => Wanted::Busy,
                            };
                        };
                        let ticket = line.next_ticket();
                        line.waiters[index] = Slot {
                            waker: Some(waker),
                            since: now,
                            ticket,
                            device,
                            state: SlotState::Waiting,
                        };
                        *joined.insert(Waiter { index, ticket })
                    }
                };
                if self.mirror_if_owned(line) {
                    return Wanted::InLine(waiter);
                }
                if behind {
                    wakers.wake = self.settle(line, now);
                    return Wanted::InLine(waiter);
                }
            }
        });
        wakers.fresh = fresh;
        (wanted, wakers)
    }

    /// Takes the bus for a waiter that is awake, or waits again with `waker`.
    ///
    /// The current owner hands the bus to an `overdue` waiter.
    pub(crate) fn poll(
        &self,
        waiter: Waiter,
        waker: &Waker,
        overdue: bool,
        now: Nanos,
        timeout: Nanos,
        messages: u32,
    ) -> (Wanted, Wakers) {
        // The clone comes before any change, because it may panic.
        let mut fresh = Some(waker.clone());
        let mut wakers = Wakers::default();
        let wanted = self.with(|line| {
            self.forfeit(line, Some(waiter), now, timeout);
            let abandoned = line.is_abandoned(messages);
            let Some(slot) = line.waiter(waiter) else {
                return Wanted::Forfeited;
            };
            wakers.unused = slot.waker.take();
            let (device, ticket) = (slot.device, slot.ticket);
            if slot.state == SlotState::Granted {
                slot.state = SlotState::Free;
                self.mirror_owned(line);
                return Wanted::Ours(Token(()), ticket);
            }
            if abandoned {
                slot.state = SlotState::Free;
                self.mirror_owned(line);
                return Wanted::Abandoned;
            }
            slot.state = SlotState::Waiting;
            slot.waker = fresh.take();
            let behind = line.has_waiter_before(device, ticket);
            loop {
                if !behind && let Some(token) = self.take_free() {
                    let slot = &mut line.waiters[waiter.index];
                    fresh = slot.waker.take();
                    slot.state = SlotState::Free;
                    self.mirror_owned(line);
                    return Wanted::Ours(token, ticket);
                }
                let slot = &mut line.waiters[waiter.index];
                if overdue && !behind {
                    slot.state = SlotState::Owed;
                }
                if self.mirror_if_owned(line) {
                    return Wanted::InLine(waiter);
                }
                line.waiters[waiter.index].state = SlotState::Waiting;
                if behind {
                    wakers.wake = self.settle(line, now);
                    return Wanted::InLine(waiter);
                }
            }
        });
        wakers.fresh = fresh;
        (wanted, wakers)
    }

    /// Removes a waiter from the line. If it was granted the bus meanwhile, returns the token.
    pub(crate) fn leave(&self, waiter: Waiter, now: Nanos) -> (Option<Token>, Wakers) {
        self.with(|line| {
            let mut wakers = Wakers::default();
            let Some(slot) = line.waiter(waiter) else {
                return (None, wakers);
            };
            wakers.unused = slot.waker.take();
            let granted = slot.state == SlotState::Granted;
            slot.state = SlotState::Free;
            if granted {
                self.mirror_owned(line);
                return (Some(Token(())), wakers);
            }
            // It may have been the context that had to check.
            wakers.wake = self.settle(line, now);
            (None, wakers)
        })
    }

    /// Records that the owner has made no progress for the lock time-out, since `messages` were run.
    /// All callers get an error until it runs a message, releases the bus or is reset. Does nothing
    /// while a waiter may still respond to a grant.
    pub(crate) fn abandon(&self, messages: u32) -> bool {
        self.with(|line| {
            let granted = { line.waiters.iter() }.any(|slot| slot.state == SlotState::Granted);
            line.order.abandoned = (!granted && self.is_owned()).then(|| seen(messages));
            // An owner that releases the bus at this moment is not gone.
            line.order.abandoned = line.order.abandoned.filter(|_| self.mirror_if_owned(line));
            line.order.abandoned.is_some()
        })
    }

    /// Takes the bus if it is free, with any contexts in line, for owners that run stored messages.
    pub(crate) fn take_any(&self) -> Option<Token> {
        if self.is_owned() {
            return None;
        }
        self.with(|_| self.take_free())
    }

    /// Takes the bus from an owner that is gone.
    pub(crate) fn usurp(&self) -> Token {
        self.with(|line| {
            for slot in line.waiters.iter_mut() {
                if slot.state == SlotState::Granted {
                    slot.state = SlotState::Free;
                }
            }
            line.order.abandoned = None;
            self.mirror_owned(line);
            Token(())
        })
    }
}

/// Functions for stored messages.
impl Ownership<'_> {
    /// Returns a free slot for a message, which the caller fills and publishes.
    pub(crate) fn claim(&self, device: DeviceNumber) -> Option<usize> {
        self.with(|line| {
            let free = { line.stored.iter() }.position(|slot| slot.state == SlotState::Free)?;
            line.stored[free].state = SlotState::Filling;
            line.stored[free].device = device;
            Some(free)
        })
    }

    /// Puts a filled slot into the line. Returns whether the bus is free, so that the caller must
    /// ensure that the message is run.
    pub(crate) fn publish(&self, index: usize) -> bool {
        self.with(|line| {
            let ticket = line.next_ticket();
            let slot = &mut line.stored[index];
            slot.ticket = ticket;
            slot.state = SlotState::Waiting;
            if self.mirror_if_owned(line) {
                return false;
            }
            self.mirror_free(line);
            true
        })
    }

    /// Mirrors the line while the bus is free, or was just taken.
    fn mirror_free(&self, line: &Line<'_>) {
        let bits = line.bits();
        let mut was = self.gate.load(Ordering::Relaxed);
        loop {
            let (got, not) = (Ordering::AcqRel, Ordering::Relaxed);
            match self
                .gate
                .compare_exchange(was, was & OWNED | bits, got, not)
            {
                Ok(_) => return,
                Err(is) => was = is,
            }
        }
    }

    /// Wakes a context in line if the bus is free and none is awake.
    pub(crate) fn rouse(&self, now: Nanos) -> Wakers {
        let wake = self.with(|line| self.settle(line, now));
        Wakers {
            wake,
            ..Wakers::default()
        }
    }

    /// Removes waiters that were woken and have not responded for `timeout`. Then wakes a context
    /// in line that must check: for the bus, or because its wait is over.
    pub(crate) fn expire(&self, now: Nanos, timeout: Nanos) -> Wakers {
        self.with(|line| {
            self.forfeit(line, None, now, timeout);
            let mut wake = self.settle(line, now);
            // One at a time: the next expiry is now, while others are late.
            if wake.is_none()
                && let Some(late) = line.late(now, timeout)
            {
                wake = late.notify(now);
                self.mirror_free(line);
            }
            Wakers {
                wake,
                ..Wakers::default()
            }
        })
    }

    /// Returns the time of the next [`expire`](Self::expire), if a waiter is in line.
    pub(crate) fn next_expiry(&self, now: Nanos, timeout: Nanos) -> Option<Nanos> {
        self.with(|line| line.next_expiry(now, timeout))
    }

    /// Begins the owner's next stored message that must run before a message of `device` with this
    /// ticket.
    pub(crate) fn before(&self, device: DeviceNumber, ticket: u32) -> Option<usize> {
        self.with(|line| {
            let index = line.runnable(Some((device, ticket)))?;
            self.begin(line, index);
            Some(index)
        })
    }

    /// Begins the owner's next stored message.
    pub(crate) fn next(&self) -> Option<usize> {
        self.with(|line| {
            let index = line.next()?;
            self.begin(line, index);
            Some(index)
        })
    }

    /// Begins the owner's next stored message, up to and including the one at `index`.
    pub(crate) fn until(&self, index: usize) -> Option<usize> {
        self.with(|line| {
            let next = line.next()?;
            if !line.stored[index].is_queued() {
                return None;
            }
            self.begin(line, next);
            Some(next)
        })
    }

    /// Takes the bus for the handle of the message at `index`, or waits with `waker`. Leaves the
    /// message to a worker that was already called.
    pub(crate) fn watch(
        &self,
        index: usize,
        waker: Option<&Waker>,
        has_worker: bool,
        now: Nanos,
        timeout: Nanos,
        messages: u32,
    ) -> (Watched, Wakers) {
        let mut fresh = waker.cloned();
        let mut wakers = Wakers::default();
        let watched = self.with(|line| {
            let slot = &mut line.stored[index];
            if slot.state == SlotState::Done {
                return Watched::Done;
            }
            wakers.unused = core::mem::replace(&mut slot.waker, fresh.take());
            slot.since = now;
            if !slot.is_queued() {
                return Watched::Wait;
            }
            slot.state = SlotState::Waiting;
            let (device, ticket) = (slot.device, slot.ticket);
            // From here on, each return leaves the line checked.
            self.forfeit(line, None, now, timeout);
            if line.is_abandoned(messages) {
                fresh = line.stored[index].waker.take();
                return Watched::Abandoned;
            }
            if has_worker && line.order.called {
                return Watched::Wait;
            }
            let behind = line.has_waiter_before(device, ticket);
            loop {
                if !behind && let Some(token) = self.take_free() {
                    fresh = line.stored[index].waker.take();
                    self.mirror_owned(line);
                    return Watched::Ours(token);
                }
                if self.mirror_if_owned(line) {
                    return Watched::Wait;
                }
                if behind {
                    wakers.wake = self.settle(line, now);
                    return Watched::Wait;
                }
            }
        });
        wakers.fresh = fresh;
        (watched, wakers)
    }

    /// Ends the wait of the handle of the message at `index`.
    pub(crate) fn unwatch(&self, index: usize, now: Nanos) -> Wakers {
        self.with(|line| {
            let slot = &mut line.stored[index];
            let unused = slot.waker.take();
            if slot.state == SlotState::Notified {
                slot.state = SlotState::Waiting;
            }
            let wake = self.settle(line, now);
            Wakers {
                wake,
                unused,
                ..Wakers::default()
            }
        })
    }

    /// Ends the handle's wait for the message at `index`, and withdraws the message. Returns `false`
    /// if it was begun.
    pub(crate) fn give_up(&self, index: usize, now: Nanos) -> (bool, Wakers) {
        self.with(|line| {
            let mut wakers = Wakers::default();
            let withdrawn = line.stored[index].is_queued();
            if withdrawn {
                line.stored[index].state = SlotState::Done;
                wakers.unused = line.stored[index].waker.take();
                wakers.wake = self.settle(line, now);
            }
            (withdrawn, wakers)
        })
    }

    /// Puts a begun message back into the line at its old place, because none of its words was
    /// sent. Returns `false` if its handle or its device was dropped meanwhile; then the caller
    /// ends it.
    pub(crate) fn put_back(&self, index: usize) -> bool {
        self.with(|line| {
            let slot = &line.stored[index];
            let wanted = slot.state == SlotState::Running && line.has_device(slot.device);
            if wanted {
                line.stored[index].state = SlotState::Waiting;
                self.mirror_owned(line);
            }
            wanted
        })
    }

    /// Returns whether the message at `index` was begun and has not ended.
    pub(crate) fn is_running(&self, index: usize) -> bool {
        self.with(|line| {
            let state = line.stored[index].state;
            matches!(state, SlotState::Running | SlotState::Dropped)
        })
    }

    /// Returns whether the message at `index` was run.
    pub(crate) fn is_done(&self, index: usize) -> bool {
        self.with(|line| line.stored[index].state == SlotState::Done)
    }

    /// Records that the message at `index` was run. Returns the waker of its handle.
    pub(crate) fn finish(&self, index: usize) -> Option<Waker> {
        self.with(|line| {
            let slot = &mut line.stored[index];
            let dropped = slot.state == SlotState::Dropped;
            slot.state = if dropped {
                SlotState::Free
            } else {
                SlotState::Done
            };
            slot.waker.take()
        })
    }

    /// Drops the handle of the message at `index`. Returns whether the message was withdrawn.
    pub(crate) fn cancel(&self, index: usize, now: Nanos) -> (bool, Wakers) {
        self.with(|line| {
            let slot = &mut line.stored[index];
            let unused = slot.waker.take();
            if slot.state == SlotState::Running {
                slot.state = SlotState::Dropped;
                return (
                    false,
                    Wakers {
                        unused,
                        ..Wakers::default()
                    },
                );
            }
            let withdrawn = slot.is_queued();
            slot.state = SlotState::Free;
            let wake = self.settle(line, now);
            (
                withdrawn,
                Wakers {
                    wake,
                    unused,
                    ..Wakers::default()
                },
            )
        })
    }

    /// Takes a number for a new device, if one is free.
    pub(crate) fn add_device(&self) -> Option<DeviceNumber> {
        self.with(|line| line.add_device())
    }

    /// Removes a message of a dropped device from the line, for the caller to finish. If there is
    /// none, frees the device's number.
    pub(crate) fn withdraw(&self, device: DeviceNumber, now: Nanos) -> Option<(usize, Wakers)> {
        self.with(|line| {
            let its = |slot: &Slot| slot.is_queued() && slot.device == device;
            let Some(index) = line.stored.iter().position(its) else {
                line.remove_device(device);
                return None;
            };
            line.stored[index].state = SlotState::Running;
            let wake = self.settle(line, now);
            Some((
                index,
                Wakers {
                    wake,
                    ..Wakers::default()
                },
            ))
        })
    }
}

/// Functions for the worker.
impl Ownership<'_> {
    /// Records a call of the worker. Returns whether the caller must wake it, because it was not
    /// called before.
    pub(crate) fn call(&self) -> bool {
        self.with(|line| !core::mem::replace(&mut line.order.called, true))
    }

    /// Records that the worker has responded.
    pub(crate) fn answer(&self) {
        self.with(|line| line.order.called = false);
    }

    /// Returns the number of contexts and stored messages in line.
    pub(crate) fn in_line(&self) -> usize {
        self.with(|line| line.len())
    }
}
