//! Operations of the bus's owner.

use crate::bus::Shared;
use crate::controller::{AsyncController, Controller};
use crate::error::{Error, Fault};
use crate::line::{DEVICES, DeviceNumber};
use crate::ownership::{Gate, Released, Token};
use crate::platform::Platform;
use crate::settings::Settings;
use crate::station::Station;
use crate::statistics::{Acquired, count, raise};
use crate::sync::{Ordering, Used};
use crate::transfer::Message;
use crate::wait_mode::{Blocking, WaitMode, block_on_ready};

/// Largest number of messages that the worker, or `poll`, runs without a return, because callbacks
/// may submit without end.
const IN_A_ROW: usize = 64;

/// Largest number of messages of others that a caller runs before it frees the bus. It is larger
/// because the rest needs a wake-up of the worker. It is reached only while others submit as fast as
/// the bus runs.
const BEFORE_FREEING: usize = 1024;

/// Bit of `Bus::worker`: a future serves as the worker.
pub(crate) const FUTURE: u8 = 1;

/// Bit of `Bus::worker`: the worker owns the bus.
const OWNS: u8 = 2;

/// Bit of `Bus::worker`: a thread of `Threads` serves as the worker.
pub(crate) const THREAD: u8 = 4;

/// Result of a message that was begun and not completed.
const HALF_WAY: Error = Error::Failed {
    transfer: 0,
    fault: Fault::Dropped,
};

/// Owned bus. Dropping it without a release (after a panic, or with a future) stops the controller
/// and frees the bus.
#[must_use = "the bus is kept until the owner releases it"]
pub(crate) struct Owner<'b, C, P>
where
    C: Controller,
    P: Platform,
{
    bus: &'b Shared<C, P>,
    /// Present except during the release.
    token: Option<Token>,
    /// Stored message that is being run.
    running: Option<usize>,
    /// Messages are counted as the worker's.
    is_worker: bool,
}

impl<'b, C, P> Owner<'b, C, P>
where
    C: Controller,
    P: Platform,
{
    #[inline]
    pub(crate) const fn new(bus: &'b Shared<C, P>, token: Token) -> Self {
        Self {
            bus,
            token: Some(token),
            running: None,
            is_worker: false,
        }
    }

    /// Returns the token without freeing the bus.
    pub(crate) fn into_token(mut self) -> Option<Token> {
        self.token.take()
    }

    /// Takes a free bus to run stored messages, with any contexts in line.
    pub(crate) fn take_any(bus: &'b Shared<C, P>) -> Option<Self> {
        let token = bus.ownership().take_any()?;
        Some(Self::new(bus, token))
    }

    pub(crate) fn into_worker(mut self) -> Self {
        self.is_worker = true;
        self.bus.worker.fetch_or(OWNS, Ordering::AcqRel);
        self
    }

    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn station(&mut self) -> Used<'_, Station<C>> {
        // SAFETY: an `Owner` holds a `Token`, of which at most one exists, until its end.
        // `&mut self` keeps the reference unique.
        unsafe { self.bus.station.get() }
    }

    /// Runs a message of `bytes` bytes from its caller's memory.
    #[inline(always)]
    pub(crate) fn run<M: Message + ?Sized>(
        &mut self,
        settings: &Settings,
        acquired: Acquired,
        message: &mut M,
        bytes: usize,
    ) -> Result<(), Error> {
        let bus = self.bus;
        let station = &mut *self.station();
        let result = match bus.prepare(station) {
            Ok(()) => station.run(settings, message, bus.waiting()),
            failed => failed,
        };
        station.end(&result);
        bus.counters
            .ran(acquired, message.transfers(), bytes, &result);
        result
    }

    /// Does the same, asynchronously.
    pub(crate) async fn run_awaited<M: Message + ?Sized>(
        &mut self,
        settings: &Settings,
        acquired: Acquired,
        message: &mut M,
        bytes: usize,
    ) -> Result<(), Error>
    where
        C: AsyncController,
    {
        let bus = self.bus;
        let mut station = self.station();
        let station = &mut *station;
        let result = match bus.prepare(station) {
            Ok(()) => station.run_awaited(settings, message, &bus.waiting()).await,
            failed => failed,
        };
        station.end(&result);
        bus.counters
            .ran(acquired, message.transfers(), bytes, &result);
        result
    }

    /// Runs stored messages of `device` that came before a message with this ticket.
    pub(crate) async fn run_before<W: WaitMode<C>>(&mut self, device: DeviceNumber, ticket: u32) {
        while let Some(index) = self.bus.ownership().before(device, ticket) {
            self.run_stored::<W>(index).await;
        }
    }

    /// Runs stored messages up to and including the one at `index`.
    pub(crate) async fn run_until<W: WaitMode<C>>(&mut self, index: usize) {
        while let Some(next) = self.bus.ownership().until(index) {
            self.run_stored::<W>(next).await;
        }
    }

    /// Runs stored messages without freeing the bus. Returns whether any may be left.
    pub(crate) async fn run_in_a_row<W: WaitMode<C>>(&mut self) -> bool {
        for _ in 0..IN_A_ROW {
            match self.bus.ownership().next() {
                Some(index) => self.run_stored::<W>(index).await,
                None => return false,
            }
        }
        true
    }

    async fn run_stored<W: WaitMode<C>>(&mut self, index: usize) {
        let bus = self.bus;
        self.running = Some(index);
        {
            let mut body = bus.body(index).enter();
            let body = &mut *body;
            let (bytes, settings) = (body.len(), body.settings);
            let mut station = self.station();
            let station = &mut *station;
            let waiting = bus.waiting();
            body.result = match bus.prepare(station) {
                Ok(()) => W::run(station, &settings, body, waiting).await,
                failed => failed,
            };
            station.end(&body.result);
            bus.counters
                .ran_stored(body.transfers(), bytes, &body.result);
        }
        self.running = None;
        if self.is_worker {
            raise(&bus.counters.by_worker, 1);
        }
        bus.finish(index);
    }

    /// Frees the bus, after at most 1,024 messages that were stored meanwhile.
    #[inline(always)]
    pub(crate) fn release(&mut self) {
        if let Some(index) = self.try_release(true) {
            block_on_ready(self.release_after::<Blocking>(index));
        }
    }

    /// Does the same, after the stored message at `index`.
    pub(crate) async fn release_after<W: WaitMode<C>>(&mut self, index: usize) {
        let mut next = Some(index);
        for left in (0..BEFORE_FREEING).rev() {
            let Some(index) = next else { return };
            self.run_stored::<W>(index).await;
            next = self.try_release(left > 0);
        }
    }

    /// Frees the bus, or returns the stored message to run first.
    #[inline(always)]
    pub(crate) fn try_release(&mut self, run: bool) -> Option<usize> {
        let (bus, token) = (self.bus, self.token.take()?);
        if self.is_worker {
            bus.worker.fetch_and(!OWNS, Ordering::AcqRel);
        }
        match bus.ownership().release(token, run, || bus.platform.now()) {
            Released::Run(token, index) => {
                self.token = Some(token);
                return Some(index);
            }
            Released::Free { wake, left } => {
                bus.wake(wake);
                if left {
                    bus.call(self.is_worker);
                }
            }
        }
        None
    }

    /// Frees the bus without running further messages.
    pub(crate) fn release_now(mut self) {
        self.try_release(false);
    }
}

impl<C, P> Shared<C, P>
where
    C: Controller,
    P: Platform,
{
    /// Calls `act` with the controller, which is set up again before the next message. Returns
    /// `None` if the bus is in use.
    ///
    /// A controller that takes the place of another must be awake if the other one was: it is not
    /// prepared again.
    pub fn with_controller<T>(&self, act: impl FnOnce(&mut C) -> T) -> Option<T> {
        let mut owner = Owner::take_any(self)?;
        let seen = act(owner.station().controller_to_change());
        owner.release();
        Some(seen)
    }

    /// Takes the bus back after leaks, and stops the controller if it is awake. Frees every place, the devices'
    /// numbers and the worker's role. A submitted message that a leaked owner was running ends with
    /// [`Fault::Dropped`](crate::Fault::Dropped).
    ///
    /// For a bus in a static, see [`reset_leaked`](Self::reset_leaked).
    #[allow(unsafe_code)]
    pub fn reset(&mut self) {
        // SAFETY: the reference is unique, so no owner and no device exists.
        unsafe { self.reset_leaked() };
        // The rest belongs to leaked devices, handles and futures.
        (0..DEVICES).for_each(|number| self.remove_device(number));
        self.gate = Gate::new();
        self.long.store(0, Ordering::Relaxed);
        self.slots.reset();
        self.end_service();
    }

    /// Takes a shared bus back after its owner was leaked, and stops the controller. If the owner
    /// was the future of [`serve`](Self::serve), the bus has no worker afterwards.
    ///
    /// # Safety
    ///
    /// The owner of the bus was leaked: its future or its [`Locked`](crate::Locked) is neither used
    /// nor dropped any more. No device is dropped meanwhile.
    #[allow(unsafe_code)]
    pub unsafe fn reset_leaked(&self) {
        if self.worker.load(Ordering::Acquire) == FUTURE | OWNS {
            self.end_service();
        }
        let owner = Owner::new(self, self.ownership().usurp());
        // SAFETY: the caller's contract.
        unsafe { owner.clean_up() };
    }
}

/// Returns whether a panic drops the caller. Without `std`, panics do not unwind.
pub(crate) fn panicking() -> bool {
    #[cfg(feature = "std")]
    return std::thread::panicking();
    #[cfg(not(feature = "std"))]
    false
}

impl<C, P> Drop for Owner<'_, C, P>
where
    C: Controller,
    P: Platform,
{
    fn drop(&mut self) {
        if self.token.is_none() {
            return;
        }
        self.drop_owned();
    }
}

impl<C, P> Owner<'_, C, P>
where
    C: Controller,
    P: Platform,
{
    #[cold]
    fn drop_owned(&mut self) {
        let bus = self.bus;
        let moved = self.station().has_moved();
        self.stop_dropped();
        if let Some(index) = self.running.take() {
            // A driver that has panicked would panic again.
            if moved || panicking() {
                self.give_up(index, HALF_WAY);
            } else if !bus.ownership().put_back(index) {
                count(&bus.counters.cancelled);
                self.give_up(index, Error::Cancelled);
            }
        }
        self.try_release(false);
    }

    /// Stops a message whose future was dropped, or whose driver has panicked.
    pub(crate) fn stop_dropped(&mut self) {
        let bus = self.bus;
        let mut station = self.station();
        if station.is_dirty() {
            // If it fails, the next message tries again. Its last words may still be on the wire, so
            // the idle time begins again.
            bus.guarded(|| station.abort().unwrap_or(()));
        }
    }

    /// Ends a stored message that was begun.
    fn give_up(&self, index: usize, error: Error) {
        self.bus.body(index).enter().result = Err(error);
        self.bus.finish(index);
    }

    /// Stops an awake controller, ends the stored message that was being run, and frees the bus, after
    /// the last owner was leaked.
    ///
    /// # Safety
    ///
    /// The last owner is not used any more, and no device is being dropped.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn clean_up(mut self) {
        if self.station().is_prepared() {
            let _ = self.station().abort();
        }
        for index in 0..self.bus.slots.bodies() {
            if self.bus.ownership().is_running(index) {
                // SAFETY: the caller promises that the last owner held the guard and was leaked.
                unsafe { self.bus.body(index).break_open() };
                self.give_up(index, HALF_WAY);
            }
        }
        self.release();
    }
}
