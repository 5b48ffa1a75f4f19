//! Waiting in line, where the bus is busy.

use nostall_io::Nanos;

use crate::bus::Bus;
use crate::controller::Controller;
use crate::drive::Driven;
use crate::duty::Duty;
use crate::error::Error;
use crate::gate::{Posted, Taken};
use crate::held::Held;
use crate::interrupt::Waits;
use crate::platform::{HasWorker, Platform};
use crate::queue::{Sender, State};
use crate::slot::{Completion, Wake};
use crate::statistics::count;
use crate::transfer::Outline;

/// When to look again for what no wake tells of.
const SOON: Nanos = Nanos::from_micros(100);

/// How a wait for the bus ended.
pub(crate) enum Turn<'b, C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> {
    /// The bus is ours.
    Ours(Held<'b, C, P, SLOTS, BYTES>),
    /// The message in this place was run.
    Ran(usize),
}

/// Where somebody stands.
enum Place<'b, C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> {
    /// He needs none: the bus is his.
    Bus(Held<'b, C, P, SLOTS, BYTES>),
    /// In this place of the queue.
    At(usize),
}

/// What came of an attempt to drive the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Help {
    /// Somebody has the bus.
    Owned,
    /// It was driven: look again.
    Drove,
    /// As far as the budget goes: another goes on with it.
    Left,
}

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Bus<C, P, SLOTS, BYTES> {
    /// Waits until `message` was run by whoever has the bus, or until the bus is
    /// ours; without a message, for that.
    pub(crate) fn line_up<'b, M: Outline + ?Sized>(
        &'b self,
        taken: Taken,
        sender: Sender<'_>,
        message: Option<&M>,
        duty: &mut Duty<'b, C, P, SLOTS, BYTES>,
    ) -> Result<Turn<'b, C, P, SLOTS, BYTES>, Error> {
        if taken == Taken::WithQueue
            && let Some(held) = self.drive_all(duty)
        {
            return Ok(Turn::Ours(held));
        }
        let task = self.platform.current().ok_or(Error::WouldBlock)?;
        let deadline = self.platform.now() + self.config.patience;
        match self.place(&task, sender, message, deadline, duty)? {
            Place::Bus(held) => Ok(Turn::Ours(held)),
            Place::At(index) => self.await_turn(index, deadline, duty),
        }
    }

    /// A place in the queue, or the bus while we look for one.
    fn place<'b, M: Outline + ?Sized>(
        &'b self,
        task: &P::Task,
        sender: Sender<'_>,
        message: Option<&M>,
        deadline: Nanos,
        duty: &mut Duty<'b, C, P, SLOTS, BYTES>,
    ) -> Result<Place<'b, C, P, SLOTS, BYTES>, Error> {
        let completion = || Completion::Wake(Wake::Task(task.clone()));
        loop {
            let placed = match message.map(|message| self.queue.put(sender, message, completion()))
            {
                // Too long for a place: a turn, and our own memory.
                None | Some(Err(Error::TooLongToQueue { .. } | Error::TooManyToQueue { .. })) => {
                    self.queue.put_turn(sender, completion())
                }
                Some(placed) => placed,
            };
            if let Ok(index) = placed {
                return Ok(Place::At(index));
            }
            let now = self.platform.now();
            match self.gate.take() {
                Taken::Alone => return Ok(Place::Bus(Held::new(self))),
                Taken::WithQueue => {
                    if let Some(held) = self.drive_all(duty) {
                        return Ok(Place::Bus(held));
                    }
                    self.refill(duty);
                }
                Taken::Not if now >= deadline => match self.take_over(now) {
                    Some(held) => held.let_go_with(duty),
                    None => return Err(Error::BusHeld),
                },
                Taken::Not => {}
            }
            duty.tell();
            self.platform.block(now + SOON);
        }
    }

    /// For whoever has just taken the bus with a queue: all that is before him. The
    /// bus is his when that is through, and not if it is too much.
    fn drive_all<'b>(
        &'b self,
        duty: &mut Duty<'b, C, P, SLOTS, BYTES>,
    ) -> Option<Held<'b, C, P, SLOTS, BYTES>> {
        let mut held = Held::new(self);
        match held.drive(duty, None, &Waits::Here) {
            Driven::Empty => return Some(held),
            Driven::Granted => held.hand_over(),
            Driven::Spent | Driven::Waits => {
                held.leave(None);
            }
        }
        None
    }

    /// Waits until what was put at `index` has had its turn.
    fn await_turn<'b>(
        &'b self,
        index: usize,
        deadline: Nanos,
        duty: &mut Duty<'b, C, P, SLOTS, BYTES>,
    ) -> Result<Turn<'b, C, P, SLOTS, BYTES>, Error> {
        let slot = &self.queue.slots()[index];
        // Nobody has the bus: then we do.
        let mut ours = self.gate.post() == Posted::ToNobody;
        let mut looks = match self.platform.looks() {
            Nanos::ZERO => None,
            span => Some(self.platform.now() + span),
        };
        loop {
            match slot.state() {
                State::Done => break,
                State::Granted => {
                    slot.free();
                    return Ok(Turn::Ours(Held::new(self)));
                }
                State::Finishing => {
                    self.platform.block(self.platform.now() + SOON);
                    continue;
                }
                _ => {}
            }
            // Who is awake comes sooner than a worker who was called.
            let helps = looks.is_some() || self.platform.has_worker() == HasWorker::No;
            if core::mem::take(&mut ours) || helps {
                match self.help(index, duty) {
                    Help::Owned => {}
                    Help::Drove => continue,
                    Help::Left => looks = None,
                }
            }
            let now = self.platform.now();
            if looks.is_some_and(|until| now < until) {
                core::hint::spin_loop();
                continue;
            }
            looks = None;
            duty.tell();
            if now >= deadline {
                if let Some(held) = self.take_over(now) {
                    held.let_go_with(duty);
                    continue;
                }
                if slot.go(State::Queued, State::Claimed) {
                    slot.free();
                    count(&self.counters.cancelled);
                    self.pass_on();
                    return Err(Error::BusHeld);
                }
            }
            // What is running has a bound of its own.
            self.platform.block(deadline.max(now + SOON));
        }
        count(&self.counters.sync_queued);
        Ok(Turn::Ran(index))
    }

    /// Drives the queue up to and including `own`, if nobody has the bus.
    fn help<'b>(&'b self, own: usize, duty: &mut Duty<'b, C, P, SLOTS, BYTES>) -> Help {
        if self.gate.is_owned() || self.gate.take() == Taken::Not {
            return Help::Owned;
        }
        let mut held = Held::new(self);
        self.gate.look();
        match held.drive(duty, Some(own), &Waits::Here) {
            Driven::Empty => held.let_go_with(duty),
            Driven::Granted => held.hand_over(),
            Driven::Spent | Driven::Waits => {
                let other = held.leave(Some(own));
                self.refill(duty);
                // Without another who drives, it is us again. And who has run his own
                // message is told by nobody.
                if other && self.queue.slots()[own].state() != State::Done {
                    return Help::Left;
                }
            }
        }
        Help::Drove
    }

    /// The message in the queue at `index` is not wanted any more. The one who waited
    /// for it may have been woken to drive the queue.
    pub(crate) fn cancel(&self, index: usize) {
        let slot = &self.queue.slots()[index];
        // In the order in which a place goes through these, as others may move it on
        // meanwhile. `Claimed` is by a device that is being dropped.
        let under_way = [State::Running, State::Claimed, State::Finishing];
        if slot.go(State::Queued, State::Claimed) {
            count(&self.counters.cancelled);
            slot.free();
        } else if !under_way
            .iter()
            .any(|&from| slot.go(from, State::Abandoned))
        {
            slot.free();
        }
        self.pass_on();
    }
}
