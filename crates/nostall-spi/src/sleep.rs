//! When the hardware is woken and put to sleep; the worker, and what there is instead.

use nostall_io::Nanos;

use crate::bus::Bus;
use crate::config::Strategy;
use crate::controller::Controller;
use crate::drive::Driven;
use crate::duty::{Budget, Duty};
use crate::error::Error;
use crate::gate::Taken;
use crate::held::{Held, Role};
use crate::interrupt::Waits;
use crate::platform::{HasWorker, Platform};
use crate::run::Station;
use crate::statistics::{count, raise};
use crate::sync::Ordering;

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Bus<C, P, SLOTS, BYTES> {
    /// Wakes the hardware if it sleeps.
    #[inline]
    pub(crate) fn prepare(&self, station: &mut Station<C>) -> Result<(), Error> {
        if station.prepared {
            return Ok(());
        }
        self.prepare_sleeping(station)
    }

    #[cold]
    fn prepare_sleeping(&self, station: &mut Station<C>) -> Result<(), Error> {
        let failed = |fault| Error::Failed { transfer: 0, fault };
        station.controller.prepare().map_err(failed)?;
        station.prepared = true;
        raise(&self.counters.preparations, 1);
        let worker = self.platform.has_worker() == HasWorker::Yes;
        if worker && self.config.strategy == Strategy::Caller {
            self.set_timer();
        }
        Ok(())
    }

    /// For the worker, whenever it was woken: runs what is queued, and puts the
    /// hardware to sleep if it is time. After 64 messages it has itself called again.
    pub fn work(&self) {
        self.gate.answer();
        let mut duty = Duty::new(self, Budget::WORKER);
        let mut held = match self.gate.take() {
            // Whoever has the bus does what is queued; unless he was forgotten.
            Taken::Not => match self.take_over(self.platform.now()) {
                Some(held) => held,
                None => {
                    if self.tired.swap(false, Ordering::AcqRel) {
                        self.set_timer();
                    }
                    return;
                }
            },
            Taken::Alone | Taken::WithQueue => Held::new(self),
        };
        held.role = Role::Worker;
        self.gate.look();
        match held.drive(&mut duty, None, &Waits::Here) {
            Driven::Empty => {}
            Driven::Granted => return held.hand_over(),
            Driven::Spent | Driven::Waits => {
                held.leave(None);
                return;
            }
        }
        let ran = self.counters.messages();
        let tired = self.tired.swap(false, Ordering::AcqRel);
        let idle = ran == self.armed.load(Ordering::Relaxed);
        match self.config.strategy {
            // Also after what was submitted, for which nobody has called us tired.
            Strategy::Pump => held.unprepare(),
            Strategy::Caller if tired && idle => held.unprepare(),
            Strategy::Caller if tired => self.set_timer(),
            Strategy::Caller => {}
        }
        held.let_go_with(&mut duty);
    }

    /// Where there is no worker, for the main loop, now and then: runs what is queued,
    /// 64 messages at most, and puts the hardware to sleep if it is time. When it wants
    /// to be called next, if nothing happens before.
    pub fn poll(&self, now: Nanos) -> Option<Nanos> {
        let mut duty = Duty::new(self, Budget::WORKER);
        let mut held = match self.gate.take() {
            Taken::Not => match self.take_over(now) {
                Some(held) => held,
                None => return Some(now),
            },
            Taken::Alone | Taken::WithQueue => Held::new(self),
        };
        held.role = Role::Poll;
        self.gate.look();
        match held.drive(&mut duty, None, &Waits::Here) {
            Driven::Empty => {}
            Driven::Granted => {
                held.hand_over();
                return Some(now);
            }
            Driven::Spent | Driven::Waits => {
                held.leave(None);
                return Some(now);
            }
        }
        let next = held.look(now);
        held.let_go_with(&mut duty);
        next
    }

    /// For the platform's timer, in any context: looks whether the bus has been idle
    /// since it was set. If so, the worker is woken, once; if not, it is set anew.
    /// Touches no hardware.
    pub fn on_timer(&self) {
        // In this order: of a message that is through since, the count is seen.
        let owned = self.gate.is_owned();
        let messages = self.counters.messages();
        if owned || messages != self.armed.load(Ordering::Relaxed) {
            if self.is_forgotten(self.platform.now()) {
                self.call_worker();
            }
            self.set_timer();
        } else {
            self.tired.store(true, Ordering::Release);
            self.call_worker();
        }
    }

    #[cold]
    fn set_timer(&self) {
        let messages = self.counters.messages();
        self.armed.store(messages, Ordering::Relaxed);
        let at = self.platform.now() + self.config.linger;
        self.platform.set_timer(at);
    }

    /// As it was before 2019: the worker is woken to put the hardware to sleep.
    #[cold]
    pub(crate) fn pump(&self) {
        self.tired.store(true, Ordering::Release);
        self.call_worker();
    }

    /// Wakes the worker, if he was not called yet.
    pub(crate) fn call_worker(&self) {
        if self.gate.call() {
            count(&self.counters.wakeups);
            self.platform.wake_worker();
        }
        self.see_to_worker();
    }

    /// As the worker, has it called again.
    pub(crate) fn call_again(&self) {
        if self.gate.call() {
            self.platform.wake_worker();
        }
        self.see_to_worker();
    }

    /// A worker that has ended just before it was called leaves to others what it was
    /// called for. Whoever ends says so before he last looks at the gate; we look
    /// whether he has after we have left word there.
    fn see_to_worker(&self) {
        if self.platform.has_worker() == HasWorker::No {
            self.gate.answer();
            self.pass_on();
        }
    }
}

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize>
    Held<'_, C, P, SLOTS, BYTES>
{
    /// Whether anything has happened since the last look: if not for long enough, the
    /// hardware is put to sleep. When to look next.
    fn look(&mut self, now: Nanos) -> Option<Nanos> {
        let bus = self.bus;
        let look = self.with_core(|core| {
            let messages = bus.counters.messages();
            if messages != bus.armed.swap(messages, Ordering::Relaxed) {
                core.look = now + bus.config.linger;
            }
            core.station.prepared.then_some(core.look)
        })?;
        if now >= look {
            self.unprepare();
        }
        (now < look).then_some(look)
    }

    fn unprepare(&mut self) {
        let counters = &self.bus.counters;
        self.with_core(|core| {
            if core.station.prepared {
                core.station.unprepare();
                raise(&counters.teardowns, 1);
            }
        });
    }
}
