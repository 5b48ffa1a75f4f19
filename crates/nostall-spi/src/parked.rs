//! A future that has the bus lies still while the controller works.

use core::task::Context;

use nostall_io::Nanos;

use crate::bus::Bus;
use crate::controller::Controller;
use crate::drive::Driven;
use crate::duty::Duty;
use crate::error::Error;
use crate::held::Held;
use crate::interrupt::Waits;
use crate::platform::{HasWorker, Platform};
use crate::sync::Ordering;

/// That a future has the bus. Whoever takes the same number off the bus has it
/// instead: the future itself, or another when its time is over. So one that was
/// leaked keeps nobody from the bus.
#[derive(Debug)]
pub(crate) struct Parked(u32);

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Bus<C, P, SLOTS, BYTES> {
    /// Runs queued messages for a future that waits for the one at `own`; whether
    /// it has the bus and waits for the controller's interrupt.
    pub(crate) fn drive_for(
        &self,
        own: usize,
        parked: Option<Parked>,
        context: &Context<'_>,
    ) -> Option<Parked> {
        let mut duty = Duty::of_caller(self);
        let mut held = match parked.and_then(|parked| self.unpark(&parked)) {
            Some(held) => held,
            None => self.take_or_post()?,
        };
        self.gate.look();
        self.refill(&mut duty);
        match held.drive(&mut duty, Some(own), &Waits::Later(context.waker())) {
            Driven::Empty => held.let_go_soon(),
            Driven::Granted => held.hand_over(),
            Driven::Spent => {
                if !held.leave(Some(own)) && self.platform.has_worker() == HasWorker::No {
                    // Nobody else is there: we come again.
                    context.waker().wake_by_ref();
                }
            }
            Driven::Waits => return Some(self.park(held)),
        }
        None
    }

    fn park(&self, mut held: Held<'_, C, P, SLOTS, BYTES>) -> Parked {
        let number = held.with_core(|core| {
            // 0 is nobody's.
            core.parkings = core.parkings.checked_add(1).unwrap_or(1);
            core.parkings
        });
        held.hand_over();
        self.parked.store(number, Ordering::Release);
        Parked(number)
    }

    fn unpark(&self, Parked(number): &Parked) -> Option<Held<'_, C, P, SLOTS, BYTES>> {
        let (got, not) = (Ordering::AcqRel, Ordering::Relaxed);
        let taken = self.parked.compare_exchange(*number, 0, got, not);
        taken.is_ok().then(|| Held::new(self))
    }

    /// Whether a future has the bus, and its time is over.
    pub(crate) fn is_forgotten(&self, now: Nanos) -> bool {
        self.parked.load(Ordering::Acquire) != 0 && self.is_late(now)
    }

    /// The bus of a future whose time is over, and its message: it may never come
    /// again.
    pub(crate) fn take_over(&self, now: Nanos) -> Option<Held<'_, C, P, SLOTS, BYTES>> {
        let number = self.parked.load(Ordering::Acquire);
        if number == 0 || !self.is_late(now) {
            return None;
        }
        self.unpark(&Parked(number))
    }

    /// A future that had the bus, and waits for the message at `own`, was dropped
    /// while the controller was at work.
    pub(crate) fn give_up_driving(&self, own: usize, parked: &Parked) {
        let Some(mut held) = self.unpark(parked) else {
            return;
        };
        let its_own = held.with_core(|core| core.flight.is_some_and(|it| it.index == own));
        if its_own && self.platform.has_worker() == HasWorker::No {
            held.abort(Error::Cancelled);
            held.let_go_soon();
        } else {
            // The worker goes on with it; or whose it is; or the next to come.
            held.leave(Some(own));
        }
    }
}
