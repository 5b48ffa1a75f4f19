//! The bus in the hands of its owner.

use crate::bus::Bus;
use crate::controller::{AsyncController, Controller};
use crate::error::{Error, Fault};
use crate::face::{Blocking, Face, now};
use crate::line::DeviceNumber;
use crate::ownership::{Released, Token};
use crate::platform::Platform;
use crate::settings::Settings;
use crate::station::Station;
use crate::statistics::{count, raise};
use crate::sync::Used;
use crate::transfer::Message;

/// Messages that the worker, or `poll`, runs without coming back: callbacks may submit
/// for ever.
const IN_A_ROW: usize = 64;

/// The same for a caller, before it frees the bus. More, because the messages that it leaves need a
/// wake-up of the worker. It is reached only while others submit as fast as the bus runs.
const BEFORE_FREEING: usize = 1024;

/// Result of a message that was begun and is not run to its end.
const HALF_WAY: Error = Error::Failed {
    transfer: 0,
    fault: Fault::Dropped,
};

/// The bus, owned. Dropping it instead of releasing it (a panic, a future that is
/// dropped) stops the controller and frees the bus.
#[must_use = "the bus is kept until the owner releases it"]
pub(crate) struct Owner<'b, C, P, const W: usize, const S: usize, const B: usize>
where
    C: Controller,
    P: Platform,
{
    bus: &'b Bus<C, P, W, S, B>,
    /// Always there, except while the owner is released.
    token: Option<Token>,
    /// The stored message that is being run.
    running: Option<usize>,
    /// Messages count as the worker's.
    is_worker: bool,
}

impl<'b, C, P, const W: usize, const S: usize, const B: usize> Owner<'b, C, P, W, S, B>
where
    C: Controller,
    P: Platform,
{
    #[inline]
    pub(crate) const fn new(bus: &'b Bus<C, P, W, S, B>, token: Token) -> Self {
        Self {
            bus,
            token: Some(token),
            running: None,
            is_worker: false,
        }
    }

    /// Gives up the bus without freeing it.
    pub(crate) fn into_token(mut self) -> Option<Token> {
        self.token.take()
    }

    /// Takes a free bus to run stored messages, for any contents of the line.
    pub(crate) fn take_any(bus: &'b Bus<C, P, W, S, B>) -> Option<Self> {
        let token = bus.ownership.take_any()?;
        Some(Self::new(bus, token))
    }

    pub(crate) const fn into_worker(mut self) -> Self {
        self.is_worker = true;
        self
    }

    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn station(&mut self) -> Used<'_, Station<C>> {
        // SAFETY: an `Owner` is made of a `Token`, of which there is one at most, and
        // which leaves it last. `&mut self` keeps the reference the only one.
        unsafe { self.bus.station.get() }
    }

    /// Runs a message of `bytes` bytes from its caller's memory.
    #[inline(always)]
    pub(crate) fn run<M: Message + ?Sized>(
        &mut self,
        settings: &Settings,
        message: &mut M,
        bytes: usize,
    ) -> Result<(), Error> {
        let bus = self.bus;
        let station = &mut *self.station();
        let result = match bus.prepare(station) {
            Ok(()) => station.run(settings, message, &bus.waiting()),
            failed => failed,
        };
        station.end(&result);
        bus.counters.ran(message.transfers(), bytes, &result);
        result
    }

    /// The same, awaited.
    pub(crate) async fn run_awaited<M: Message + ?Sized>(
        &mut self,
        settings: &Settings,
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
        bus.counters.ran(message.transfers(), bytes, &result);
        result
    }

    /// Runs stored messages of `device` that came before a message with this ticket.
    pub(crate) async fn run_before<F: Face<C>>(&mut self, device: DeviceNumber, ticket: u32) {
        while let Some(index) = self.bus.ownership.before(device, ticket) {
            self.run_stored::<F>(index).await;
        }
    }

    /// Runs stored messages up to and including the one at `index`.
    pub(crate) async fn run_until<F: Face<C>>(&mut self, index: usize) {
        while let Some(next) = self.bus.ownership.until(index) {
            self.run_stored::<F>(next).await;
        }
    }

    /// Runs stored messages without freeing the bus. Returns whether any may be left.
    pub(crate) async fn run_in_a_row<F: Face<C>>(&mut self) -> bool {
        for _ in 0..IN_A_ROW {
            match self.bus.ownership.next() {
                Some(index) => self.run_stored::<F>(index).await,
                None => return false,
            }
        }
        true
    }

    async fn run_stored<F: Face<C>>(&mut self, index: usize) {
        let bus = self.bus;
        self.running = Some(index);
        {
            let mut body = bus.bodies[index].enter();
            let body = &mut *body;
            let (bytes, settings) = (body.len(), body.settings);
            let mut station = self.station();
            let station = &mut *station;
            let waiting = bus.waiting();
            body.result = match bus.prepare(station) {
                Ok(()) => F::run(station, &settings, body, &waiting).await,
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

    /// Frees the bus, after the messages that were stored meanwhile: 1,024 at
    /// most.
    #[inline(always)]
    pub(crate) fn release(&mut self) {
        if let Some(index) = self.try_release(true) {
            now(self.release_after::<Blocking>(index));
        }
    }

    /// The same, after the stored message at `index`, which is to be run first.
    pub(crate) async fn release_after<F: Face<C>>(&mut self, index: usize) {
        let mut next = Some(index);
        for left in (0..BEFORE_FREEING).rev() {
            let Some(index) = next else { return };
            self.run_stored::<F>(index).await;
            next = self.try_release(left > 0);
        }
    }

    /// Frees the bus, or returns the stored message that is to be run first.
    #[inline(always)]
    pub(crate) fn try_release(&mut self, run: bool) -> Option<usize> {
        let (bus, token) = (self.bus, self.token.take()?);
        match bus.ownership.release(token, run, || bus.platform.now()) {
            Released::Run(token, index) => {
                self.token = Some(token);
                return Some(index);
            }
            Released::Free { wake, left } => {
                bus.wake(wake);
                if left {
                    bus.call_for_rest(self.is_worker);
                }
            }
        }
        None
    }

    /// Frees the bus without running anything more.
    pub(crate) fn release_now(mut self) {
        self.try_release(false);
    }
}

impl<C, P, const W: usize, const S: usize, const B: usize> Bus<C, P, W, S, B>
where
    C: Controller,
    P: Platform,
{
    /// Runs `look` on the controller, if the bus is free.
    pub fn with_controller<T>(&self, look: impl FnOnce(&mut C) -> T) -> Option<T> {
        let mut owner = Owner::take_any(self)?;
        let seen = look(&mut owner.station().controller);
        owner.release();
        Some(seen)
    }

    /// Takes the bus back after its owner was leaked, and stops the controller. A
    /// submitted message that the owner was running ends with
    /// [`Fault::Dropped`](crate::Fault::Dropped).
    ///
    /// For a bus in a static see [`reset_leaked`](Self::reset_leaked).
    #[allow(unsafe_code)]
    pub fn reset(&mut self) {
        // SAFETY: the reference is the only one, so every owner and device is gone.
        unsafe { self.reset_leaked() };
    }

    /// The same for a bus that is shared.
    ///
    /// # Safety
    ///
    /// The owner of the bus was leaked: its future or its [`Locked`](crate::Locked) will
    /// neither be used nor dropped any more. No device is dropped meanwhile.
    #[allow(unsafe_code)]
    pub unsafe fn reset_leaked(&self) {
        let owner = Owner::new(self, self.ownership.usurp());
        // SAFETY: the caller's contract.
        unsafe { owner.clean_up() };
    }
}

/// Whether the caller is dropped through a panic. Without `std`, none unwinds.
pub(crate) fn panicking() -> bool {
    #[cfg(feature = "std")]
    return std::thread::panicking();
    #[cfg(not(feature = "std"))]
    false
}

impl<C, P, const W: usize, const S: usize, const B: usize> Drop for Owner<'_, C, P, W, S, B>
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

impl<C, P, const W: usize, const S: usize, const B: usize> Owner<'_, C, P, W, S, B>
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
            // A driver that panics would do so again.
            if moved || panicking() {
                self.give_up(index, HALF_WAY);
            } else if !bus.ownership.put_back(index) {
                count(&bus.counters.cancelled);
                self.give_up(index, Error::Cancelled);
            }
        }
        self.try_release(false);
    }

    /// Stops a message whose future was dropped half-way, or whose driver has panicked.
    pub(crate) fn stop_dropped(&mut self) {
        let bus = self.bus;
        let mut station = self.station();
        if station.is_dirty() {
            bus.guarded(|| station.abort());
        }
    }

    /// Ends a stored message that was begun.
    fn give_up(&self, index: usize, error: Error) {
        self.bus.bodies[index].enter().result = Err(error);
        self.bus.finish(index);
    }

    /// After the last owner was leaked: stops the controller, ends the stored message that
    /// was being run, and frees the bus.
    ///
    /// # Safety
    ///
    /// The last owner is not used any more, and no device is being dropped.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn clean_up(mut self) {
        self.station().abort();
        for (index, body) in self.bus.bodies.iter().enumerate() {
            if self.bus.ownership.is_running(index) {
                // SAFETY: that owner had the guard, according to the caller.
                unsafe { body.break_open() };
                self.give_up(index, HALF_WAY);
            }
        }
        self.release();
    }
}
