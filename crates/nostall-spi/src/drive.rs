//! Running what is queued, in its order.

use nostall_io::Nanos;

use crate::bus::Bus;
use crate::controller::Controller;
use crate::duty::Duty;
use crate::error::Error;
use crate::gate::{Posted, Taken};
use crate::held::{Held, Role};
use crate::interrupt::Waits;
use crate::platform::{HasWorker, Platform};
use crate::queue::State;
use crate::run::{Run, SHORT, Step};
use crate::slot::{Completion, Content};
use crate::statistics::raise;
use crate::transfer::Outline;

/// A message from the queue that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) index: usize,
    run: Run,
}

/// Why driving the queue came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driven {
    /// Nothing is queued.
    Empty,
    /// What is queued is more than the budget has left, or for another to run.
    Spent,
    /// The bus was handed over: it is not ours any more.
    Granted,
    /// The controller will interrupt, and our waker will be woken.
    Waits,
}

impl<'b, C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize>
    Held<'b, C, P, SLOTS, BYTES>
{
    /// Runs queued messages in their order, until there are none, or the budget is
    /// spent. The one at `own` is free.
    pub(crate) fn drive(
        &mut self,
        duty: &mut Duty<'b, C, P, SLOTS, BYTES>,
        own: Option<usize>,
        waits: &Waits<'_>,
    ) -> Driven {
        loop {
            let flight = match self.take_off(duty, own) {
                Ok(flight) => flight,
                Err(driven) => return driven,
            };
            let reckoned = self.bus.queue.slots()[flight.index].time();
            let bounded = waits.is_here() && Some(flight.index) != own;
            let now = || match bounded {
                true => self.bus.platform.now(),
                false => Nanos::ZERO,
            };
            let began = now();
            let Some(result) = self.fly(flight.index, waits, duty) else {
                return Driven::Waits;
            };
            duty.budget.took(reckoned, now() - began);
            if self.role == Role::Worker {
                raise(&self.bus.counters.by_worker, 1);
            }
            let untold = self.bus.finish(flight.index, State::Running, result);
            let its_own = Some(flight.index) == own;
            if !its_own && let Some(untold) = untold {
                duty.add(untold);
            }
            // A future that is through is not polled again: it must not begin what
            // would have to be given up with it.
            if !waits.is_here() && its_own {
                return match self.bus.queue.next() {
                    Some(_) => Driven::Spent,
                    None => Driven::Empty,
                };
            }
        }
    }

    /// What is under way, or else the next of the queue; or why there is none.
    fn take_off(
        &mut self,
        duty: &mut Duty<'b, C, P, SLOTS, BYTES>,
        own: Option<usize>,
    ) -> Result<Flight, Driven> {
        let bus = self.bus;
        if let Some(flight) = self.with_core(|core| core.flight) {
            return Ok(flight);
        }
        loop {
            let next = bus.queue.next().ok_or(Driven::Empty)?;
            let slot = &bus.queue.slots()[next.index];
            if Some(next.index) != own && !duty.budget.spend(slot.bytes(), slot.time()) {
                return Err(Driven::Spent);
            }
            if slot.time() > SHORT {
                duty.tell();
            }
            if !bus.queue.start(next) {
                // It was cancelled just now.
                continue;
            }
            if slot.body.enter().content == Content::Turn {
                // From the next exchange on, all that is ours is the waiter's; also if
                // waking him panics.
                let completion = slot.take_completion();
                self.give_away();
                slot.go(State::Running, State::Granted);
                if let Completion::Wake(wake) = completion {
                    bus.wake(wake);
                }
                return Err(Driven::Granted);
            }
            let flight = Flight {
                index: next.index,
                run: Run::default(),
            };
            self.with_core(|core| core.flight = Some(flight));
            return Ok(flight);
        }
    }

    /// Goes on with what is under way, the message at `index`. How it ended; nothing
    /// if the waker will be woken.
    fn fly(
        &mut self,
        index: usize,
        waits: &Waits<'_>,
        duty: &mut Duty<'b, C, P, SLOTS, BYTES>,
    ) -> Option<Result<(), Error>> {
        let bus = self.bus;
        let mut body = bus.queue.slots()[index].body.enter();
        let body = &mut *body;
        let step = self.with_core(|core| {
            bus.prepare(&mut core.station)?;
            let Some(flight) = &mut core.flight else {
                return Ok(Step::Done);
            };
            loop {
                let (settings, message) = (&body.settings, &mut body.message);
                let run = &mut flight.run;
                match run.step(&mut core.station, settings, message, &bus.platform)? {
                    Step::Done => return Ok(Step::Done),
                    step if bus.wait(step, waits, || duty.tell()) => {}
                    step => return Ok(step),
                }
            }
        });
        let result = match step {
            Ok(Step::Done) => Ok(()),
            Ok(_) => return None,
            Err(error) => Err(error),
        };
        self.with_core(|core| core.flight = None);
        let (transfers, bytes) = (body.message.transfers(), body.message.bytes());
        bus.counters.ran_queued(transfers, bytes, result);
        Some(result)
    }

    /// Whether nobody wants what is under way any more.
    pub(crate) fn is_abandoned(&mut self) -> bool {
        let flight = self.with_core(|core| core.flight);
        let slots = self.bus.queue.slots();
        flight.is_some_and(|flight| slots[flight.index].state() == State::Abandoned)
    }

    /// Ends what is under way with `error`.
    pub(crate) fn abort(&mut self, error: Error) {
        let flight = self.with_core(|core| {
            core.station.abort();
            core.flight.take()
        });
        let untold =
            flight.and_then(|flight| self.bus.finish(flight.index, State::Running, Err(error)));
        if let Some(untold) = untold {
            self.bus.wake_whatever(untold.wake);
        }
    }
}

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Bus<C, P, SLOTS, BYTES> {
    /// Runs what is queued in the caller's context, if nobody has the bus, and no
    /// more than a caller does for others.
    pub fn run_queued(&self) {
        if self.gate.is_owned() || self.gate.take() == Taken::Not {
            return;
        }
        let mut duty = Duty::of_caller(self);
        duty.budget = duty.budget.with_one();
        let mut held = Held::new(self);
        self.gate.look();
        match held.drive(&mut duty, None, &Waits::Here) {
            Driven::Empty => held.let_go_with(&mut duty),
            Driven::Granted => held.hand_over(),
            Driven::Spent | Driven::Waits => {
                held.leave(None);
            }
        }
    }

    /// Without a worker, whoever waits goes on when nobody else does.
    pub(crate) fn refill(&self, duty: &mut Duty<'_, C, P, SLOTS, BYTES>) {
        if self.platform.has_worker() == HasWorker::No {
            duty.refill();
        }
    }

    /// The bus, if nobody has it. Who has it may have looked already whom there is to
    /// tell: where there is no worker, he looks again, as that may have changed.
    pub(crate) fn take_or_post(&self) -> Option<Held<'_, C, P, SLOTS, BYTES>> {
        // Each round but the first is one in which somebody let the bus go.
        while self.gate.is_owned() || self.gate.take() == Taken::Not {
            if self.platform.has_worker() == HasWorker::Yes || self.gate.post() == Posted::ToOwner {
                return None;
            }
        }
        Some(Held::new(self))
    }

    /// Without a worker: somebody else who waits is to drive the queue, if nobody
    /// does.
    pub(crate) fn pass_on(&self) {
        if self.platform.has_worker() == HasWorker::No
            && let Some(mut held) = self.take_or_post()
        {
            // Nothing was run, and there is nobody to be called for it.
            held.role = Role::Poll;
            held.let_go_soon();
        }
    }
}
