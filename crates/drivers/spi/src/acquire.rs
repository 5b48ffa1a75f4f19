//! Waits for the bus, blocking and asynchronous.

use core::ops::ControlFlow;

use nostall_io::{Held, Nanos, StallCondition};

use crate::bus::Shared;
use crate::controller::Controller;
use crate::error::Error;
use crate::line::{DeviceNumber, Waiter};
use crate::owner::Owner;
use crate::ownership::{Token, Wanted};
use crate::platform::Platform;
use crate::statistics::Acquired;
use crate::wait_mode::{Blocking, Check, WaitMode, block_on_ready};

/// Time after which the current owner must hand the bus to a waiter. Before that, running callers
/// may take it. A hand-over to a sleeping task each time would leave the bus idle until that task
/// gets a CPU.
const FAIR: Nanos = Nanos::from_micros(500);

/// Largest number of rounds of a spin: some milliseconds to some tens of them.
const SPINS: u32 = 1 << 16;

/// Equivalent of [`FAIR`] for a stopped clock: the number of checks that found the bus
/// owned.
const FAIR_CHECKS: u32 = 16;

impl<C, P> Shared<C, P>
where
    C: Controller,
    P: Platform,
{
    /// Takes the bus for a message of `device`, at once or after a wait.
    #[inline(always)]
    pub(crate) fn acquire(&self, device: DeviceNumber) -> Result<(Token, Acquired), Error> {
        match self.ownership().take(device) {
            Some(token) => Ok((token, Acquired::AtOnce)),
            None => block_on_ready(self.acquire_busy::<Blocking>(device)),
        }
    }

    /// Takes the bus after a wait.
    pub(crate) async fn acquire_busy<W: WaitMode<C>>(
        &self,
        device: DeviceNumber,
    ) -> Result<(Token, Acquired), Error> {
        let mut joining = Joining::new(self, device);
        let ended = self.until::<W, _>(|check| {
            if W::BLOCKS && check.waker.is_some() && !joining.is_overdue(check.waited) {
                self.spin();
            }
            if let Some(ended) = joining.step(check) {
                return ControlFlow::Break(ended);
            }
            // A waiter asks for its turn itself: the context that was woken for the bus may not come.
            let next = match joining.is_overdue(check.waited) {
                false => FAIR.min(self.config().lock_timeout),
                true => self.config().lock_timeout,
            };
            ControlFlow::Continue(check.now + (next - check.waited))
        });
        let (mut owner, ticket) = ended.await?;
        owner.run_before::<W>(device, ticket).await;
        let token = owner.into_token().ok_or(Error::Cancelled)?;
        Ok((token, joining.acquired))
    }

    /// Spins while the bus is owned, at most for the time of a sleep and a wake-up.
    fn spin(&self) {
        let span = self.platform.spin_time();
        if span == Nanos::ZERO {
            return;
        }
        let _held = Held::begin(StallCondition::BusOwner);
        let until = self.platform.now() + span;
        // Rounds are counted too, for a stopped clock.
        for _ in 0..SPINS {
            if !self.ownership().is_owned() || self.platform.now() >= until {
                return;
            }
            for _ in 0..16 {
                core::hint::spin_loop();
            }
        }
    }
}

/// A context that waits for the bus. Dropping it leaves the line.
struct Joining<'b, C, P>
where
    C: Controller,
    P: Platform,
{
    bus: &'b Shared<C, P>,
    device: DeviceNumber,
    waiter: Option<Waiter>,
    /// Set once the context has been in line.
    acquired: Acquired,
    polls: u32,
    /// Number of messages run before the wait.
    seen: u32,
}

type Ended<'b, C, P> = Result<(Owner<'b, C, P>, u32), Error>;

impl<'b, C, P> Joining<'b, C, P>
where
    C: Controller,
    P: Platform,
{
    fn new(bus: &'b Shared<C, P>, device: DeviceNumber) -> Self {
        Self {
            bus,
            device,
            waiter: None,
            acquired: Acquired::AtOnce,
            polls: 0,
            seen: bus.counters.messages(),
        }
    }

    fn is_overdue(&self, waited: Nanos) -> bool {
        self.polls >= FAIR_CHECKS || waited >= FAIR
    }

    /// Tries to take the bus. Returns the result when the wait is over. Otherwise the waker is
    /// woken for the next try.
    fn step(&mut self, check: Check<'_>) -> Option<Ended<'b, C, P>> {
        let bus = self.bus;
        let Check { waker, now, waited } = check;
        let (timeout, messages) = (bus.config().lock_timeout, bus.counters.messages());
        // The second round is for a waiter whose place was forfeited.
        for _ in 0..2 {
            let (wanted, wakers) = match (self.waiter, waker) {
                (Some(waiter), Some(waker)) => {
                    self.polls += 1;
                    let overdue = self.is_overdue(waited);
                    bus.ownership()
                        .poll(waiter, waker, overdue, now, timeout, messages)
                }
                _ => bus
                    .ownership()
                    .join(self.device, waker, now, timeout, messages),
            };
            bus.see_to(wakers);
            match wanted {
                Wanted::Ours(token, ticket) => {
                    self.waiter = None;
                    return Some(Ok((Owner::new(bus, token), ticket)));
                }
                Wanted::InLine(waiter) => {
                    self.waiter = Some(waiter);
                    self.acquired = Acquired::AfterWait;
                    return match waited >= timeout {
                        true => self.give_up(now),
                        false => None,
                    };
                }
                Wanted::Busy => return Some(Err(Error::WouldBlock)),
                Wanted::Full => return Some(Err(Error::LineFull)),
                Wanted::Abandoned => {
                    self.waiter = None;
                    return Some(Err(Error::Abandoned));
                }
                Wanted::Forfeited => self.waiter = None,
            }
        }
        None
    }

    /// Ends a wait that has reached its time limit.
    #[cold]
    fn give_up(&mut self, now: Nanos) -> Option<Ended<'b, C, P>> {
        let bus = self.bus;
        let moved = bus.counters.messages() != self.seen;
        let gone = !moved && !bus.is_long(now) && bus.ownership().abandon(self.seen);
        let waiter = self.waiter.take()?;
        let (token, wakers) = bus.ownership().leave(waiter, now);
        let owner = token.map(|token| Owner::new(bus, token));
        bus.see_to(wakers);
        Some(match (owner, gone) {
            (Some(owner), _) => Ok((owner, waiter.ticket)),
            (None, true) => Err(Error::Abandoned),
            (None, false) => Err(Error::BusHeld),
        })
    }
}

impl<C, P> Drop for Joining<'_, C, P>
where
    C: Controller,
    P: Platform,
{
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else {
            return;
        };
        let (token, wakers) = self.bus.ownership().leave(waiter, self.bus.platform.now());
        let owner = token.map(|token| Owner::new(self.bus, token));
        self.bus.see_to(wakers);
        drop(owner);
    }
}
