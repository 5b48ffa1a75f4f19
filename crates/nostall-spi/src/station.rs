//! One message, from selection to release: blocking, and awaited.

use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::Poll;

use nostall_io::Nanos;

use crate::controller::{AsyncController, Controller, Level, Progress, Waits};
use crate::elapsed::Elapsed;
use crate::error::{Error, Fault};
use crate::interrupt::Interrupt;
use crate::platform::Platform;
use crate::settings::{Settings, Wire};
use crate::sync::constant;
use crate::transfer::{Message, Transfer};
use crate::words::Words;

/// Shorter waits keep the CPU; longer ones give it away.
const SHORT: Nanos = Nanos::from_micros(50);

/// Time that a transfer may take besides twice its own: interrupts, other tasks' turns
/// on the CPU, a slow memory.
const GRACE: Nanos = Nanos::from_millis(200);

/// How often a controller is looked at whose interrupt cannot be waited for.
const LOOK: Nanos = Nanos::from_micros(1);

/// The controller, and its state.
#[derive(Debug)]
pub(crate) struct Station<C> {
    pub(crate) controller: C,
    /// Its settings, if they are known.
    wire: Option<Wire>,
    /// The clock that was set, in hertz.
    rate: u32,
    selected: bool,
    /// A message was begun and has not come to its end.
    dirty: bool,
    /// Words of the last message may have been moved.
    moved: bool,
    pub(crate) prepared: bool,
}

/// The ways of waiting that an owner of the bus has.
pub(crate) struct Waiting<'b, P> {
    pub(crate) platform: &'b P,
    pub(crate) interrupt: &'b Interrupt,
}

/// Blocking.
impl<C: Controller> Station<C> {
    /// Runs a message. Whatever the result is, no device is selected afterwards.
    #[inline(always)]
    pub(crate) fn run<M: Message + ?Sized, P: Platform>(
        &mut self,
        settings: &Settings,
        message: &mut M,
        waiting: &Waiting<'_, P>,
    ) -> Result<(), Error> {
        self.start();
        let result = self.run_transfers(settings, message, waiting);
        self.end(result)
    }

    #[inline(always)]
    fn run_transfers<M: Message + ?Sized, P: Platform>(
        &mut self,
        settings: &Settings,
        message: &mut M,
        waiting: &Waiting<'_, P>,
    ) -> Result<(), Error> {
        if let Some(ran) = self.controller.whole(settings, message) {
            self.moved = true;
            return ran.map_err(|(transfer, fault)| Error::Failed { transfer, fault });
        }
        let transfers = message.transfers();
        let mut number = 0;
        while let Some(transfer) = message.transfer(number) {
            let failed = |fault| Error::Failed {
                transfer: number,
                fault,
            };
            let step = Step::new(&transfer, settings, number + 1 == transfers);
            if self.begin(&step.wire).map_err(failed)? {
                waiting.pause(settings.setup);
            }
            let mut words = step.words(transfer, settings);
            if words.total() != 0 {
                self.moved = true;
                self.move_words(&mut words, number, waiting)?;
            }
            waiting.pause(step.delay);
            if step.ends {
                waiting.pause(settings.hold);
                self.release().map_err(failed)?;
                waiting.pause(step.cs_change);
            }
            number += 1;
        }
        Ok(())
    }

    #[inline(always)]
    fn move_words<P: Platform>(
        &mut self,
        words: &mut Words<'_>,
        number: usize,
        waiting: &Waiting<'_, P>,
    ) -> Result<(), Error> {
        let failed = |fault| Error::Failed {
            transfer: number,
            fault,
        };
        let mut wait: Option<(Elapsed, Nanos)> = None;
        // The time that the platform was to wait for, last.
        let mut waited = Nanos::ZERO;
        loop {
            match self.controller.transfer(words).map_err(failed)? {
                Progress::Done if words.is_complete() => return Ok(()),
                Progress::Done => return Err(failed(Fault::Short)),
                progress => {
                    let now = waiting.platform.now();
                    let (elapsed, limit) =
                        wait.get_or_insert_with(|| (Elapsed::new(now), self.time_limit(words)));
                    let so_far = match waited {
                        Nanos::ZERO => elapsed.at(now),
                        span => elapsed.after(span, now),
                    };
                    let left = *limit - so_far;
                    if left == Nanos::ZERO {
                        return Err(Error::Timeout { transfer: number });
                    }
                    waited = waiting.block(progress, now, left);
                }
            }
        }
    }
}

/// Awaited.
impl<C: AsyncController> Station<C> {
    /// Runs a message without blocking, between [`start`](Self::start) and
    /// [`end`](Self::end). A future that is dropped leaves the station dirty, for the owner's
    /// drop to [abort](Self::abort).
    pub(crate) async fn run_async<M: Message + ?Sized, P: Platform>(
        &mut self,
        settings: &Settings,
        message: &mut M,
        waiting: &Waiting<'_, P>,
    ) -> Result<(), Error> {
        if let Some(ran) = self.controller.whole(settings, message) {
            self.moved = true;
            return ran.map_err(|(transfer, fault)| Error::Failed { transfer, fault });
        }
        let transfers = message.transfers();
        let mut number = 0;
        while let Some(transfer) = message.transfer(number) {
            let failed = |fault| Error::Failed {
                transfer: number,
                fault,
            };
            let step = Step::new(&transfer, settings, number + 1 == transfers);
            if !self.is_set(&step.wire) {
                // Not known if it fails or is dropped half-way.
                self.wire = None;
                let setting = pin!(self.controller.set_async(&step.wire));
                let set = waiting.within(GRACE, setting);
                let timeout = Err(Error::Timeout { transfer: number });
                self.rate = set.await.map_or(timeout, |set| set.map_err(failed))?.max(1);
                self.wire = Some(step.wire);
            }
            if self.select().map_err(failed)? && settings.setup > Nanos::ZERO {
                sleep(waiting.platform, settings.setup).await;
            }
            let mut words = step.words(transfer, settings);
            if words.total() != 0 {
                self.moved = true;
                let limit = self.time_limit(&words);
                let timeout = Error::Timeout { transfer: number };
                {
                    let moving = pin!(self.controller.transfer_async(&mut words, waiting));
                    let moved = waiting.within(limit, moving).await;
                    moved.ok_or(timeout)?.map_err(failed)?;
                }
                if !words.is_complete() {
                    return Err(failed(Fault::Short));
                }
            }
            let after = match step.ends {
                true => step.delay + settings.hold,
                false => step.delay,
            };
            if after > Nanos::ZERO {
                sleep(waiting.platform, after).await;
            }
            if step.ends {
                self.release().map_err(failed)?;
            }
            if step.cs_change > Nanos::ZERO {
                sleep(waiting.platform, step.cs_change).await;
            }
            number += 1;
        }
        Ok(())
    }
}

/// The same for both.
impl<C: Controller> Station<C> {
    /// Begins a message.
    #[inline]
    pub(crate) const fn start(&mut self) {
        self.dirty = true;
        self.moved = false;
    }

    /// Ends the message with `result`. No device is selected afterwards.
    #[inline]
    pub(crate) fn end(&mut self, result: Result<(), Error>) -> Result<(), Error> {
        if result.is_err() {
            self.abort();
        }
        self.dirty = false;
        result
    }

    constant! {
        pub(crate) fn new(controller: C) -> Self {
            Self {
                controller,
                wire: None,
                rate: 1,
                selected: false,
                dirty: false,
                moved: false,
                prepared: false,
            }
        }
    }

    /// Sets the controller for a transfer, and selects the device if it is not. Returns
    /// whether it was selected now.
    #[inline(always)]
    fn begin(&mut self, wire: &Wire) -> Result<bool, Fault> {
        if !self.is_set(wire) {
            self.set(wire)?;
        }
        self.select()
    }

    /// Selects the device if it is not. Returns whether it was selected now.
    #[inline(always)]
    fn select(&mut self) -> Result<bool, Fault> {
        if self.selected {
            return Ok(false);
        }
        // First, so that a line that was half asserted is released.
        self.selected = true;
        self.controller.select(Level::Asserted)?;
        Ok(true)
    }

    #[inline(always)]
    fn is_set(&self, wire: &Wire) -> bool {
        // No short cuts: comparisons that are nearly always equal are quicker than
        // branches.
        self.wire.is_some_and(|set| {
            (set.clock == wire.clock)
                & (set.mode as u8 == wire.mode as u8)
                & (set.order as u8 == wire.order as u8)
                & (set.wires as u8 == wire.wires as u8)
                & (set.word as u8 == wire.word as u8)
                & (set.select.key() == wire.select.key())
        })
    }

    #[cold]
    fn set(&mut self, wire: &Wire) -> Result<(), Fault> {
        // Not known if it fails or panics half-way.
        self.wire = None;
        self.rate = self.controller.set(wire)?.max(1);
        self.wire = Some(*wire);
        Ok(())
    }

    #[inline(always)]
    fn release(&mut self) -> Result<(), Fault> {
        self.controller.select(Level::Released)?;
        self.selected = false;
        Ok(())
    }

    /// Twice a transfer's time at the clock that was set, and some.
    #[cold]
    fn time_limit(&self, words: &Words<'_>) -> Nanos {
        let bits = words.total() as u64 * u64::from(words.word().bits());
        time_of(bits, self.rate) * 2 + GRACE
    }

    /// Stops the message under way; no device is selected afterwards.
    #[cold]
    pub(crate) fn abort(&mut self) {
        // Also if the driver panics in here.
        self.wire = None;
        self.selected = false;
        self.dirty = false;
        self.controller.abort();
    }

    /// Whether a message was left in its middle.
    #[inline]
    pub(crate) const fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Whether words of the message that was left may have been moved.
    pub(crate) const fn has_moved(&self) -> bool {
        self.moved
    }

    /// Puts the hardware to sleep.
    pub(crate) fn unprepare(&mut self) {
        self.wire = None;
        self.prepared = false;
        self.controller.unprepare();
    }
}

/// The parts of a transfer around its words.
struct Step {
    wire: Wire,
    len: usize,
    delay: Nanos,
    /// The device is deselected afterwards.
    ends: bool,
    /// For this long, before anything else happens.
    cs_change: Nanos,
}

impl Step {
    #[inline(always)]
    fn new(transfer: &Transfer<'_>, settings: &Settings, last: bool) -> Self {
        let options = &transfer.options;
        Self {
            wire: options.wire(settings),
            len: transfer.len(),
            delay: transfer.pause_after(),
            ends: last || options.cs_change.is_some(),
            cs_change: options.cs_change.unwrap_or(Nanos::ZERO),
        }
    }

    #[inline(always)]
    fn words<'a>(&self, transfer: Transfer<'a>, settings: &Settings) -> Words<'a> {
        Words::new(transfer.operation, self.len, self.wire.word, settings.fill)
    }
}

impl<P: Platform> Waiting<'_, P> {
    /// Lets `span` pass. Without one, the clock is not read.
    #[inline(always)]
    fn pause(&self, span: Nanos) {
        if span > Nanos::ZERO {
            self.pause_for(span);
        }
    }

    #[cold]
    fn pause_for(&self, span: Nanos) {
        let mut now = self.platform.now();
        let mut elapsed = Elapsed::new(now);
        let mut left = span;
        // Again where the clock ticks slowly: a wait on it may end early.
        while left > Nanos::ZERO {
            self.wait_once(left, now);
            now = self.platform.now();
            left = span - elapsed.after(left, now);
        }
    }

    fn wait_once(&self, span: Nanos, now: Nanos) {
        match span <= SHORT {
            true => self.platform.wait_until(now + span),
            false => self.platform.sleep_until(now + span),
        }
    }

    /// Waits for a controller, and no longer than `left`. Returns the time that the platform
    /// was to wait for.
    #[cold]
    fn block(&self, progress: Progress, now: Nanos, left: Nanos) -> Nanos {
        match progress {
            Progress::Done | Progress::After(Nanos::ZERO) => {
                core::hint::spin_loop();
                Nanos::ZERO
            }
            Progress::After(span) => {
                let span = span.min(left);
                self.wait_once(span, now);
                span
            }
            Progress::Interrupt => {
                let waker = self.platform.current();
                let deadline = now + left;
                let span = match waker {
                    Some(_) => left,
                    None => left.min(LOOK),
                };
                let blocks = waker.is_some();
                if self.interrupt.take_or_wait(waker, deadline) {
                    return Nanos::ZERO;
                }
                match blocks {
                    true => self.platform.block(deadline),
                    false => self.platform.wait_until(now + span),
                }
                self.interrupt.take_or_wait(None, deadline);
                span
            }
        }
    }

    /// Awaits a controller's future for `limit`, no longer.
    fn within<F: Future>(
        &self,
        limit: Nanos,
        mut future: Pin<&mut F>,
    ) -> impl Future<Output = Option<F::Output>> {
        let mut elapsed: Option<Elapsed> = None;
        poll_fn(move |context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            let now = self.platform.now();
            let elapsed = elapsed.get_or_insert(Elapsed::new(now));
            let left = limit - elapsed.at(now);
            if left == Nanos::ZERO {
                return Poll::Ready(None);
            }
            let deadline = now + left;
            if !self.platform.wake_at(deadline, context.waker()) {
                // For `Bus::poll`.
                self.interrupt.expect(context.waker(), deadline);
            }
            Poll::Pending
        })
    }
}

/// Lets `span` pass without blocking.
pub(crate) async fn sleep<P: Platform>(platform: &P, span: Nanos) {
    if span == Nanos::ZERO {
        return;
    }
    let mut elapsed: Option<Elapsed> = None;
    poll_fn(|context| {
        let now = platform.now();
        let elapsed = elapsed.get_or_insert(Elapsed::new(now));
        let left = span - elapsed.at(now);
        if left == Nanos::ZERO {
            return Poll::Ready(());
        }
        if !platform.wake_at(now + left, context.waker()) {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
}

/// Goes on at once, after other tasks.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| match core::mem::replace(&mut yielded, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

impl<P: Platform> Waits for Waiting<'_, P> {
    async fn wait(&self, progress: Progress) {
        match progress {
            Progress::Done => {}
            Progress::After(Nanos::ZERO) => yield_now().await,
            Progress::After(span) => sleep(self.platform, span).await,
            Progress::Interrupt => {
                // The deadline is the transfer's, and is set where that is known.
                let never = Nanos(u64::MAX);
                poll_fn(|context| {
                    let waker = Some(context.waker().clone());
                    match self.interrupt.take_or_wait(waker, never) {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    }
                })
                .await;
            }
        }
    }
}

/// Duration of so many bits at `hertz`.
pub(crate) fn time_of(bits: u64, hertz: u32) -> Nanos {
    Nanos(bits.saturating_mul(1_000_000_000)) / u64::from(hertz)
}
