//! The bus: who has it, what he runs, and how he lets it go.

use core::fmt;
use core::task::{Context, Waker};

use nostall_io::Nanos;

use crate::capabilities::Capabilities;
use crate::config::{Budget, Config, Strategy};
use crate::controller::Controller;
use crate::device::Device;
use crate::error::{Error, Fault, Invalid};
use crate::gate::{Gate, Posted, Released, Taken};
use crate::platform::{HasWorker, Platform};
use crate::queue::{Queue, Sender, State};
use crate::run::{Run, Station, Step, pause};
use crate::settings::Settings;
use crate::slot::{Completed, Completion, Content, Stowed, Wake};
use crate::statistics::{Counters, Statistics, count, raise};
use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, Lock, Ordering, Owned};
use crate::transfer::{Message, Outline};

/// A bus that its callers share and drive themselves.
///
/// See the [crate's documentation](crate) for what happens when. `SLOTS` messages
/// can wait, of up to `BYTES` bytes each; give it as many as there are contexts
/// that may want the bus at once.
pub struct Bus<C, P: Platform, const SLOTS: usize = 8, const BYTES: usize = 64> {
    gate: Gate,
    /// Used by whoever has the bus.
    core: Owned<Core<C>>,
    pub(crate) queue: Queue<P::Task, SLOTS, BYTES>,
    pub(crate) counters: Counters,
    pub(crate) platform: P,
    capabilities: Capabilities,
    pub(crate) config: Config,
    /// Who has the bus and waits for its interrupt, and until when.
    owner: Lock<Option<(Wake<P::Task>, Nanos)>>,
    /// There was an interrupt since the owner last looked.
    interrupted: AtomicBool,
    /// Devices so far.
    devices: AtomicU32,
    /// Messages when the timer was set.
    armed: AtomicUsize,
    /// The worker is to put the hardware to sleep.
    tired: AtomicBool,
}

/// What whoever has the bus uses.
#[derive(Debug)]
struct Core<C> {
    station: Station<C>,
    /// A queued message that is under way.
    flight: Option<Flight>,
    /// When [`Bus::poll`] looks next whether anything has happened.
    look: Nanos,
}

/// A message from the queue that is under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    index: usize,
    run: Run,
}

/// Why driving the queue came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Driven {
    /// Nothing is queued.
    Empty,
    /// What is queued is more than the budget has left, or for another to run.
    Spent,
    /// The bus was handed over: it is not ours any more.
    Granted,
    /// The controller will interrupt, and our waker will be woken.
    Waits,
}

/// How whoever drives waits for an interrupt.
enum Waits<'a> {
    /// Here.
    Here,
    /// By coming again.
    Later(&'a Waker),
}

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Bus<C, P, SLOTS, BYTES> {
    /// Runs `message` in the caller's context if the bus is idle; else waits for its
    /// turn.
    #[inline]
    pub(crate) fn sync<M: Message + ?Sized>(
        &self,
        sender: Sender<'_>,
        message: &mut M,
    ) -> Result<(), Error> {
        let bytes = self.capabilities.check(sender.settings, message)?;
        match self.gate.take() {
            Taken::Alone => {
                let mut held = Held::new(self);
                let result = held.run(sender.settings, message, bytes);
                held.let_go(&mut Budget::of(&self.config));
                result
            }
            taken => self.sync_busy(taken, sender, message, bytes),
        }
    }

    #[cold]
    fn sync_busy<M: Message + ?Sized>(
        &self,
        taken: Taken,
        sender: Sender<'_>,
        message: &mut M,
        bytes: usize,
    ) -> Result<(), Error> {
        let mut budget = Budget::of(&self.config);
        match self.line_up(taken, sender, Some(&*message), &mut budget)? {
            // Everything that was before us is through.
            Turn::Ours(mut held) => {
                let result = held.run(sender.settings, message, bytes);
                held.let_go(&mut budget);
                result
            }
            Turn::Ran(index) => {
                let slot = &self.queue.slots()[index];
                let body = slot.body.enter();
                let result = body.result;
                if result.is_ok() {
                    body.message.give(message);
                }
                drop(body);
                slot.free();
                result
            }
        }
    }

    /// Takes the bus for longer than a message.
    pub(crate) fn lock(&self, sender: Sender<'_>) -> Result<Held<'_, C, P, SLOTS, BYTES>, Error> {
        match self.gate.take() {
            Taken::Alone => Ok(Held::new(self)),
            taken => {
                let mut budget = Budget::of(&self.config);
                match self.line_up::<Stowed<BYTES>>(taken, sender, None, &mut budget)? {
                    Turn::Ours(held) => Ok(held),
                    // Nothing was there to be run.
                    Turn::Ran(_) => Err(Error::Cancelled),
                }
            }
        }
    }

    /// Waits until `message` was run by whoever has the bus, or until the bus is
    /// ours; without a message, for that.
    fn line_up<M: Message + ?Sized>(
        &self,
        taken: Taken,
        sender: Sender<'_>,
        message: Option<&M>,
        budget: &mut Budget,
    ) -> Result<Turn<'_, C, P, SLOTS, BYTES>, Error> {
        if taken == Taken::WithQueue {
            let mut held = Held::new(self);
            match held.drive(budget, None, &Waits::Here) {
                Driven::Empty => return Ok(Turn::Ours(held)),
                Driven::Granted => held.hand_over(),
                Driven::Spent | Driven::Waits => {
                    held.leave(None);
                }
            }
        }
        let task = self.platform.current().ok_or(Error::WouldBlock)?;
        let deadline = self.platform.now() + self.config.patience;
        // A place in the queue, or the bus while we look for one.
        let index = loop {
            let completion = Completion::Wake(Wake::Task(task.clone()));
            let placed = match message {
                Some(message) => match self.queue.put(sender, message, completion) {
                    // Too long for a place: a turn, and our own memory.
                    Err(Error::TooLongToQueue { .. } | Error::TooManyToQueue { .. }) => {
                        let completion = Completion::Wake(Wake::Task(task.clone()));
                        self.queue.put_turn(sender, completion)
                    }
                    placed => placed,
                },
                None => self.queue.put_turn(sender, completion),
            };
            match placed {
                Ok(index) => break index,
                Err(_) if self.platform.now() >= deadline => return Err(Error::BusHeld),
                Err(_) => match self.gate.take() {
                    Taken::Not => self.platform.block(self.platform.now() + SOON),
                    Taken::Alone => return Ok(Turn::Ours(Held::new(self))),
                    Taken::WithQueue => {
                        let mut held = Held::new(self);
                        match held.drive(budget, None, &Waits::Here) {
                            Driven::Empty => return Ok(Turn::Ours(held)),
                            Driven::Granted => held.hand_over(),
                            Driven::Spent | Driven::Waits => {
                                held.leave(None);
                                self.refill(budget);
                                self.platform.block(self.platform.now() + SOON);
                            }
                        }
                    }
                },
            }
        };
        let slot = &self.queue.slots()[index];
        // Nobody has the bus: then we do. But not with a spent budget: the worker was
        // called for that.
        let mut ours = self.gate.post() == Posted::ToNobody;
        let mut looks = self.platform.looks();
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
            if ours || self.platform.has_worker() == HasWorker::No {
                ours = false;
                if self.help(index, budget) {
                    continue;
                }
            }
            if looks > 0 {
                looks -= 1;
                core::hint::spin_loop();
                continue;
            }
            let now = self.platform.now();
            if now >= deadline && slot.go(State::Queued, State::Claimed) {
                slot.free();
                count(&self.counters.cancelled);
                self.pass_on();
                return Err(Error::BusHeld);
            }
            // What is running has a bound of its own.
            self.platform.block(deadline.max(now + SOON));
        }
        count(&self.counters.sync_queued);
        Ok(Turn::Ran(index))
    }

    /// Drives the queue up to and including `own`, if nobody has the bus. Whether
    /// anything may have changed.
    fn help(&self, own: usize, budget: &mut Budget) -> bool {
        if self.gate.is_owned() || self.gate.take() == Taken::Not {
            return false;
        }
        let mut held = Held::new(self);
        self.gate.look();
        match held.drive(budget, Some(own), &Waits::Here) {
            Driven::Empty => held.let_go(budget),
            Driven::Granted => held.hand_over(),
            Driven::Spent | Driven::Waits => {
                let other = held.leave(Some(own));
                self.refill(budget);
                // Another drives; without one, it is us again.
                return !other;
            }
        }
        true
    }

    /// Without a worker, whoever waits goes on when nobody else does.
    fn refill(&self, budget: &mut Budget) {
        if self.platform.has_worker() == HasWorker::No {
            *budget = Budget::of(&self.config).with_one();
        }
    }

    /// Runs queued messages for a future that waits for the one at `own`; whether
    /// it has the bus and waits for the controller's interrupt.
    pub(crate) fn drive_for(&self, own: usize, has: bool, context: &Context<'_>) -> bool {
        if !has && (self.gate.is_owned() || self.gate.take() == Taken::Not) {
            return false;
        }
        let mut held = Held::new(self);
        self.gate.look();
        let mut budget = Budget::of(&self.config);
        self.refill(&mut budget);
        match held.drive(&mut budget, Some(own), &Waits::Later(context.waker())) {
            Driven::Empty => held.let_go_soon(),
            Driven::Granted => held.hand_over(),
            Driven::Spent => {
                if !held.leave(Some(own)) && self.platform.has_worker() == HasWorker::No {
                    // Nobody else is there: we come again.
                    context.waker().wake_by_ref();
                }
            }
            Driven::Waits => {
                held.hand_over();
                return true;
            }
        }
        false
    }

    /// A future that had the bus was dropped while its controller was at work.
    pub(crate) fn give_up_driving(&self) {
        let mut held = Held::new(self);
        match self.platform.has_worker() {
            // He goes on with it.
            HasWorker::Yes => {
                held.leave(None);
            }
            HasWorker::No => {
                held.abort(Error::Cancelled);
                held.let_go_soon();
            }
        }
    }

    /// Something was queued by `submit`, or by a future that is to be woken.
    pub(crate) fn posted(&self) -> Posted {
        count(&self.counters.asynchronous);
        self.gate.post()
    }

    /// Runs what is queued in the caller's context, if nobody has the bus, and no
    /// more than a caller does for others.
    pub fn run_queued(&self) {
        if self.gate.is_owned() || self.gate.take() == Taken::Not {
            return;
        }
        let mut held = Held::new(self);
        self.gate.look();
        let mut budget = Budget::of(&self.config).with_one();
        match held.drive(&mut budget, None, &Waits::Here) {
            Driven::Empty => held.let_go(&mut budget),
            Driven::Granted => held.hand_over(),
            Driven::Spent | Driven::Waits => {
                held.leave(None);
            }
        }
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

    /// Without a worker: somebody else who waits is to drive the queue, if nobody
    /// does.
    fn pass_on(&self) {
        if self.platform.has_worker() == HasWorker::No
            && !self.gate.is_owned()
            && self.gate.take() != Taken::Not
        {
            Held::new(self).let_go_soon();
        }
    }

    /// Wakes the worker, if he was not called yet.
    pub(crate) fn call_worker(&self) {
        if self.gate.call() {
            count(&self.counters.wakeups);
            self.platform.wake_worker();
        }
    }

    /// For the worker, whenever it was woken: runs what is queued, and puts the
    /// hardware to sleep if it is time.
    pub fn work(&self) {
        self.gate.answer();
        if self.gate.take() == Taken::Not {
            // Whoever has the bus does what is queued.
            if self.tired.swap(false, Ordering::AcqRel) {
                self.set_timer();
            }
            return;
        }
        let mut held = Held::new(self);
        held.is_worker = true;
        self.gate.look();
        let driven = held.drive(&mut Budget::UNBOUNDED.clone(), None, &Waits::Here);
        if driven == Driven::Granted {
            return held.hand_over();
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
        held.finish(&mut Budget::UNBOUNDED.clone(), Strategy::Caller);
    }

    /// For the platform's timer, in any context: looks whether the bus has been idle
    /// since it was set. If so, the worker is woken, once; if not, it is set anew.
    /// Touches no hardware.
    pub fn on_timer(&self) {
        // In this order: of a message that is through since, the count is seen.
        let owned = self.gate.is_owned();
        let messages = self.counters.messages();
        if owned || messages != self.armed.load(Ordering::Relaxed) {
            self.wake_late_owner(self.platform.now());
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

    /// Where there is no worker, for the main loop, now and then: runs what is
    /// queued, and puts the hardware to sleep if it is time. When it wants to be
    /// called next, if nothing happens before.
    pub fn poll(&self, now: Nanos) -> Option<Nanos> {
        if self.gate.take() == Taken::Not {
            self.wake_late_owner(now);
            return Some(now);
        }
        let mut held = Held::new(self);
        self.gate.look();
        let driven = held.drive(&mut Budget::UNBOUNDED.clone(), None, &Waits::Here);
        if driven == Driven::Granted {
            held.hand_over();
            return Some(now);
        }
        let next = held.look(now);
        held.finish(&mut Budget::UNBOUNDED.clone(), Strategy::Caller);
        next
    }

    /// For the controller's interrupt handler: whoever waits for it goes on. One that
    /// nobody waits for does no harm.
    pub fn on_interrupt(&self) {
        // An exchange, so that it and the owner's have an order: he sees ours, or we
        // see whom to wake.
        self.interrupted.swap(true, Ordering::AcqRel);
        self.wake_owner_if(|_| true);
    }

    fn wake_owner_if(&self, ripe: impl FnOnce(Nanos) -> bool) {
        let owner = self.owner.try_enter();
        let waits = owner.and_then(|mut owner| owner.take_if(|(_, deadline)| ripe(*deadline)));
        if let Some((wake, _)) = waits {
            self.wake(wake);
        }
    }

    /// If whoever waits for the interrupt has waited too long: a future cannot know.
    fn wake_late_owner(&self, now: Nanos) {
        self.wake_owner_if(|deadline| now >= deadline);
        // An interrupt that came while we looked has found us in its way. Not a load,
        // so that this and its exchange have an order.
        if self.interrupted.fetch_or(false, Ordering::AcqRel) {
            self.wake_owner_if(|_| true);
        }
    }

    /// Waits for what a message needs before it goes on; whether it has come, or
    /// else the waker will be woken.
    #[cold]
    fn wait(&self, step: Step, waits: &Waits<'_>) -> bool {
        match step {
            Step::Done => {}
            Step::After(Nanos::ZERO) => core::hint::spin_loop(),
            Step::After(span) => pause(&self.platform, span),
            Step::Interrupt(deadline) => {
                let wake = match waits {
                    Waits::Later(waker) => Some(Wake::Waker((*waker).clone())),
                    Waits::Here => self.platform.current().map(Wake::Task),
                };
                let blocks = wake.is_some();
                *self.owner.enter_soon() = wake.map(|wake| (wake, deadline));
                if self.interrupted.swap(false, Ordering::AcqRel) {
                    return true;
                }
                match waits {
                    Waits::Later(_) => {
                        if self.platform.has_worker() == HasWorker::Yes {
                            self.platform.set_timer(deadline);
                        }
                        return false;
                    }
                    Waits::Here if blocks => self.platform.block(deadline),
                    Waits::Here => {
                        let soon = self.platform.now() + LOOK;
                        self.platform.wait_until(soon.min(deadline));
                    }
                }
                // An exchange: what the interrupt has left is seen by whoever takes
                // its mark off.
                self.interrupted.swap(false, Ordering::AcqRel);
            }
        }
        true
    }

    fn wake(&self, wake: Wake<P::Task>) {
        match wake {
            Wake::Task(task) => self.platform.wake(&task),
            Wake::Waker(waker) => self.guarded(|| waker.wake()),
        }
    }

    /// Runs others' code. Where panics unwind, it may.
    fn guarded(&self, act: impl FnOnce()) {
        #[cfg(feature = "std")]
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_err() {
            count(&self.counters.panics);
        }
        #[cfg(not(feature = "std"))]
        act();
    }

    /// The message at `index` ended so. It is `from`; not if it was given up.
    fn finish(&self, index: usize, from: State, result: Result<(), Error>) {
        let slot = &self.queue.slots()[index];
        slot.body.enter().result = result;
        if !slot.go(from, State::Finishing) {
            return slot.free();
        }
        let completion = match from {
            // Others than the waiter may look there.
            State::Claimed => slot.await_completion(),
            _ => slot.take_completion(),
        };
        match completion {
            Completion::Call(callback, number) => {
                let body = slot.body.enter();
                let completed = Completed {
                    number,
                    result,
                    received: &body.message,
                };
                self.guarded(|| callback(completed));
                drop(body);
                slot.free();
            }
            completion => {
                if !slot.go(State::Finishing, State::Done) {
                    slot.free();
                }
                if let Completion::Wake(wake) = completion {
                    self.wake(wake);
                }
            }
        }
    }

    /// Takes a device's messages out of the queue.
    pub(crate) fn withdraw(&self, device: u32) {
        // Nobody queues more of them meanwhile: the device is being dropped.
        for _ in 0..SLOTS {
            match self.queue.withdraw(device) {
                Some(index) => {
                    count(&self.counters.cancelled);
                    self.finish(index, State::Claimed, Err(Error::Cancelled));
                }
                None => break,
            }
        }
    }
}

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Bus<C, P, SLOTS, BYTES> {
    /// A bus on `controller`.
    pub fn new(controller: C, platform: P, config: Config) -> Self {
        Self {
            gate: Gate::new(),
            capabilities: controller.capabilities(),
            core: Owned::new(Core {
                station: Station::new(controller),
                flight: None,
                look: Nanos::ZERO,
            }),
            queue: Queue::new(),
            counters: Counters::new(),
            platform,
            config,
            owner: Lock::new(None),
            interrupted: AtomicBool::new(false),
            devices: AtomicU32::new(0),
            armed: AtomicUsize::new(0),
            tired: AtomicBool::new(false),
        }
    }

    /// A device on the bus.
    ///
    /// # Errors
    ///
    /// What of its settings the controller cannot do.
    pub fn device(&self, settings: Settings) -> Result<Device<'_, C, P, SLOTS, BYTES>, Invalid> {
        self.capabilities.check_device(&settings)?;
        let number = self.devices.fetch_add(1, Ordering::Relaxed);
        Ok(Device::new(self, settings, number))
    }

    /// What it has done so far. Takes no lock.
    pub fn statistics(&self) -> Statistics {
        self.counters.read()
    }

    /// What the controller can do.
    pub const fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// What it was made with.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What it runs on.
    pub const fn platform(&self) -> &P {
        &self.platform
    }

    /// The controller, which nobody uses any more.
    pub fn into_controller(self) -> C {
        self.core.into_inner().station.controller
    }

    /// Looks at the controller, if nobody has the bus just now.
    pub fn with_controller<T>(&self, look: impl FnOnce(&mut C) -> T) -> Option<T> {
        if self.gate.is_owned() || self.gate.take() == Taken::Not {
            return None;
        }
        let mut held = Held::new(self);
        let seen = held.with_core(|core| look(&mut core.station.controller));
        held.let_go(&mut Budget::of(&self.config));
        Some(seen)
    }
}

impl<C, P: Platform, const SLOTS: usize, const BYTES: usize> fmt::Debug
    for Bus<C, P, SLOTS, BYTES>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus")
            .field("gate", &self.gate)
            .field("capabilities", &self.capabilities)
            .field("config", &self.config)
            .field("statistics", &self.counters.read())
            .finish_non_exhaustive()
    }
}

/// When to look again for what no wake tells of.
const SOON: Nanos = Nanos::from_micros(100);

/// How often a controller is looked at whose interrupt nobody can wait for.
const LOOK: Nanos = Nanos::from_micros(1);

/// How a wait for the bus ended.
enum Turn<'b, C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> {
    /// The bus is ours.
    Ours(Held<'b, C, P, SLOTS, BYTES>),
    /// The message in this place was run.
    Ran(usize),
}

/// The bus, while somebody has it.
pub(crate) struct Held<'b, C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> {
    bus: &'b Bus<C, P, SLOTS, BYTES>,
    /// Not given away yet.
    ours: bool,
    /// By the worker, as whose its messages are counted.
    is_worker: bool,
}

impl<'b, C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize>
    Held<'b, C, P, SLOTS, BYTES>
{
    /// For whoever has just taken it, or was given it.
    #[inline]
    const fn new(bus: &'b Bus<C, P, SLOTS, BYTES>) -> Self {
        Self {
            bus,
            ours: true,
            is_worker: false,
        }
    }

    /// What only whoever has the bus uses.
    #[inline]
    #[allow(unsafe_code)]
    fn with_core<T>(&mut self, act: impl FnOnce(&mut Core<C>) -> T) -> T {
        // SAFETY: there is one `Held` at a time: it is made by whoever the gate, a
        // granted turn or a future's own earlier turn has given the bus, and what gives
        // the bus away consumes it. `&mut self` keeps it from being used twice.
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
                    step => bus.wait(step, &Waits::Here),
                };
            }
        });
        let transfers = message.transfers();
        bus.counters.ran_at_once(transfers, bytes, result);
        result
    }

    /// Runs queued messages in their order, until there are none, or the budget is
    /// spent. The one at `own` is free.
    fn drive(&mut self, budget: &mut Budget, own: Option<usize>, waits: &Waits<'_>) -> Driven {
        loop {
            let flight = match self.take_off(budget, own) {
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
            let Some(result) = self.fly(flight.index, waits) else {
                return Driven::Waits;
            };
            budget.took(reckoned, now() - began);
            if self.is_worker {
                raise(&self.bus.counters.by_worker, 1);
            }
            self.bus.finish(flight.index, State::Running, result);
            // A future that is through is not polled again: it must not begin what
            // would have to be given up with it.
            if !waits.is_here() && Some(flight.index) == own {
                return match self.bus.queue.next() {
                    Some(_) => Driven::Spent,
                    None => Driven::Empty,
                };
            }
        }
    }

    /// What is under way, or else the next of the queue; or why there is none.
    fn take_off(&mut self, budget: &mut Budget, own: Option<usize>) -> Result<Flight, Driven> {
        let bus = self.bus;
        if let Some(flight) = self.with_core(|core| core.flight) {
            return Ok(flight);
        }
        loop {
            let next = bus.queue.next().ok_or(Driven::Empty)?;
            let slot = &bus.queue.slots()[next.index];
            if Some(next.index) != own && !budget.spend(slot.bytes(), slot.time()) {
                return Err(Driven::Spent);
            }
            if !bus.queue.start(next) {
                // It was cancelled just now.
                continue;
            }
            if slot.body.enter().content == Content::Turn {
                // From the next exchange on, all that is ours is the waiter's; also if
                // waking him panics.
                let completion = slot.take_completion();
                self.ours = false;
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
    fn fly(&mut self, index: usize, waits: &Waits<'_>) -> Option<Result<(), Error>> {
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
                    step if bus.wait(step, waits) => {}
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

    /// Ends what is under way with `error`.
    fn abort(&mut self, error: Error) {
        let flight = self.with_core(|core| {
            core.station.abort();
            core.flight.take()
        });
        if let Some(flight) = flight {
            self.bus.finish(flight.index, State::Running, Err(error));
        }
    }

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

    /// Lets the bus go. What was queued meanwhile is run first, as far as the budget
    /// goes.
    #[inline]
    pub(crate) fn let_go(self, budget: &mut Budget) {
        let strategy = self.bus.config.strategy;
        self.finish(budget, strategy);
    }

    #[inline]
    fn finish(mut self, budget: &mut Budget, strategy: Strategy) {
        if self.bus.gate.release() == Released::Idle {
            self.ours = false;
            if strategy == Strategy::Pump {
                self.bus.pump();
            }
        } else {
            self.finish_queued(budget);
        }
    }

    #[cold]
    fn finish_queued(mut self, budget: &mut Budget) {
        let bus = self.bus;
        loop {
            match self.drive(budget, None, &Waits::Here) {
                Driven::Empty => {}
                Driven::Granted => return self.hand_over(),
                Driven::Spent | Driven::Waits => {
                    self.leave(None);
                    return;
                }
            }
            if bus.gate.release() == Released::Idle {
                self.ours = false;
                // Also where the worker has run it: he has looked before that.
                if bus.config.strategy == Strategy::Pump {
                    bus.pump();
                }
                return;
            }
        }
    }

    /// Lets the bus go without running anything more: where that might have to wait.
    fn let_go_soon(mut self) {
        if self.bus.gate.release() == Released::Idle {
            self.ours = false;
            if self.bus.config.strategy == Strategy::Pump {
                self.bus.pump();
            }
        } else {
            self.leave(None);
        }
    }

    /// Lets the bus go with something queued, and sees that another comes for it: the
    /// worker, or else somebody who waits, but not at `own`. Whether there is one.
    fn leave(mut self, own: Option<usize>) -> bool {
        let bus = self.bus;
        self.ours = false;
        let mut waiter = None;
        loop {
            bus.gate.look();
            if bus.platform.has_worker() == HasWorker::No {
                waiter = bus.queue.waiter(own);
            }
            // Each round that fails is one in which somebody queued.
            if bus.gate.leave() {
                break;
            }
        }
        match bus.platform.has_worker() {
            HasWorker::Yes => {
                bus.call_worker();
                true
            }
            HasWorker::No => {
                let found = waiter.is_some();
                if let Some(wake) = waiter {
                    bus.wake(wake);
                }
                found
            }
        }
    }

    /// It was handed over.
    fn hand_over(mut self) {
        self.ours = false;
    }
}

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Drop
    for Held<'_, C, P, SLOTS, BYTES>
{
    /// Only where something has panicked that is not ours, or a [`Locked`] was
    /// dropped: nothing stays selected, and the bus goes on.
    ///
    /// [`Locked`]: crate::Locked
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

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Bus<C, P, SLOTS, BYTES> {
    /// Wakes the hardware if it sleeps.
    #[inline]
    fn prepare(&self, station: &mut Station<C>) -> Result<(), Error> {
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

    /// As it was before 2019: the worker is woken to put the hardware to sleep.
    #[cold]
    fn pump(&self) {
        self.tired.store(true, Ordering::Release);
        self.call_worker();
    }
}

impl Waits<'_> {
    const fn is_here(&self) -> bool {
        matches!(self, Self::Here)
    }
}
