//! The bus while somebody has it, and how he lets it go.

use crate::bus::{Bus, Core};
use crate::config::Strategy;
use crate::controller::Controller;
use crate::drive::Driven;
use crate::duty::Duty;
use crate::error::{Error, Fault};
use crate::gate::Released;
use crate::interrupt::Waits;
use crate::platform::{HasWorker, Platform};
use crate::run::{Run, Step};
use crate::settings::Settings;
use crate::transfer::Message;

/// As what somebody has the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// With a message of his own.
    Caller,
    /// As the worker, as whose his messages are counted.
    Worker,
    /// As the main loop.
    Poll,
}

/// The bus, while somebody has it.
pub(crate) struct Held<'b, C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> {
    pub(crate) bus: &'b Bus<C, P, SLOTS, BYTES>,
    /// Not given away yet.
    ours: bool,
    pub(crate) role: Role,
}

impl<'b, C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize>
    Held<'b, C, P, SLOTS, BYTES>
{
    /// For whoever has just taken it, or was given it.
    #[inline]
    pub(crate) const fn new(bus: &'b Bus<C, P, SLOTS, BYTES>) -> Self {
        Self {
            bus,
            ours: true,
            role: Role::Caller,
        }
    }

    /// What only whoever has the bus uses.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn with_core<T>(&mut self, act: impl FnOnce(&mut Core<C>) -> T) -> T {
        // SAFETY: there is one `Held` at a time: it is made by whoever the gate, a
        // granted turn or the number of a parked future has given the bus, and what
        // gives the bus away consumes it. `&mut self` keeps it from being used twice.
        unsafe { self.bus.core.with(act) }
    }

    /// Runs a message of so many bytes, from the caller's own memory.
    #[inline]
    pub(crate) fn run<M: Message + ?Sized>(
        &mut self,
        settings: &Settings,
        message: &mut M,
        bytes: usize,
    ) -> Result<(), Error> {
        let bus = self.bus;
        let result = self.with_core(|core| {
            let station = &mut core.station;
            bus.prepare(station)?;
            let mut run = Run::default();
            loop {
                match run.step(station, settings, message, &bus.platform)? {
                    Step::Done => return Ok(()),
                    step => bus.wait(step, &Waits::Here, || {}),
                };
            }
        });
        let transfers = message.transfers();
        bus.counters.ran_at_once(transfers, bytes, result);
        result
    }

    /// Lets the bus go. What was queued meanwhile is run first, as far as a caller
    /// goes.
    #[inline]
    pub(crate) fn let_go(self) {
        if let Some(held) = self.release() {
            let bus = held.bus;
            held.let_go_queued(&mut Duty::of_caller(bus));
        }
    }

    /// The same, for whoever has done some of his duty already.
    pub(crate) fn let_go_with(self, duty: &mut Duty<'b, C, P, SLOTS, BYTES>) {
        if let Some(held) = self.release() {
            held.let_go_queued(duty);
        }
    }

    /// Lets the bus go, unless something was queued.
    #[inline]
    fn release(mut self) -> Option<Self> {
        if self.bus.gate.release() == Released::Queued {
            return Some(self);
        }
        self.ours = false;
        if self.bus.config.strategy == Strategy::Pump && self.role == Role::Caller {
            self.bus.pump();
        }
        None
    }

    #[cold]
    fn let_go_queued(mut self, duty: &mut Duty<'b, C, P, SLOTS, BYTES>) {
        loop {
            match self.drive(duty, None, &Waits::Here) {
                Driven::Empty => {}
                Driven::Granted => return self.hand_over(),
                Driven::Spent | Driven::Waits => {
                    self.leave(None);
                    return;
                }
            }
            // Also where the worker has run it, who has looked before that.
            self.role = match self.bus.config.strategy {
                Strategy::Pump => Role::Caller,
                Strategy::Caller => self.role,
            };
            match self.release() {
                Some(held) => self = held,
                None => return,
            }
        }
    }

    /// Lets the bus go without running anything more: where that might have to wait.
    pub(crate) fn let_go_soon(self) {
        if let Some(held) = self.release() {
            held.leave(None);
        }
    }

    /// Lets the bus go with something queued, and sees that another comes for it: the
    /// worker, or else somebody who waits, but not at `own`. Whether there is one.
    pub(crate) fn leave(mut self, own: Option<usize>) -> bool {
        let bus = self.bus;
        self.ours = false;
        let mut waiter = None;
        loop {
            bus.gate.look();
            if bus.platform.has_worker() == HasWorker::No {
                // Nobody may come for it, and its device would stay selected.
                if self.is_abandoned() {
                    self.abort(Error::Cancelled);
                }
                waiter = bus.queue.waiter(own);
            }
            // Each round that fails is one in which somebody queued.
            if bus.gate.leave() {
                break;
            }
        }
        match (bus.platform.has_worker(), self.role) {
            (HasWorker::Yes, Role::Worker) => bus.call_again(),
            (HasWorker::Yes, _) => bus.call_worker(),
            (HasWorker::No, _) => {
                let found = waiter.is_some();
                if let Some(wake) = waiter {
                    bus.wake(wake);
                }
                return found;
            }
        }
        true
    }

    /// It is another's from now on, or about to be.
    pub(crate) const fn give_away(&mut self) {
        self.ours = false;
    }

    /// It was handed over.
    pub(crate) fn hand_over(mut self) {
        self.give_away();
    }
}

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Drop
    for Held<'_, C, P, SLOTS, BYTES>
{
    /// Only where something has panicked that is not ours: nothing stays selected, and
    /// the bus goes on.
    fn drop(&mut self) {
        if !self.ours {
            return;
        }
        self.ours = false;
        let mut again = Held::new(self.bus);
        let under_way = again.with_core(|core| core.flight.is_some() || core.station.is_selected());
        if under_way {
            again.abort(Error::Failed {
                transfer: 0,
                fault: Fault::Panicked,
            });
        }
        again.let_go_soon();
    }
}
