//! Device on a bus.

use core::fmt;

use embedded_hal::spi::{ErrorType, Operation, SpiDevice};

use crate::bus::Shared;
use crate::capabilities::Capabilities;
use crate::config::Submitted;
use crate::controller::{AsyncController, Controller};
use crate::error::{Error, Invalid};
use crate::line::{DeviceNumber, NO_DEVICE};
use crate::owner::Owner;
use crate::pending::Pending;
use crate::platform::Platform;
use crate::settings::Settings;
use crate::statistics::{Acquired, count};
use crate::stored::{Callback, fits};
use crate::transfer::{Message, Transfer};
use crate::wait_mode::Async;

/// Device on a bus, created with [`Bus::device`](crate::Bus::device).
///
/// Messages of one device run in the order in which they were given, from any context and with any
/// method. Messages of a [`Locked`](crate::Locked) bus count as given when it was locked. Messages
/// submitted meanwhile run after them. Dropping the device withdraws messages that have not begun.
///
/// It implements embedded-hal's `SpiDevice`, blocking and asynchronous.
pub struct Device<'b, C, P>
where
    C: Controller,
    P: Platform,
{
    bus: &'b Shared<C, P>,
    settings: Settings,
    capabilities: Capabilities,
    number: DeviceNumber,
}

impl<C, P> Shared<C, P>
where
    C: Controller,
    P: Platform,
{
    /// Adds a device to the bus.
    ///
    /// # Errors
    ///
    /// The first setting that the controller does not support. [`Invalid::Busy`] if the first
    /// device is created while the bus is in use, and the caller must not wait or its wait fails.
    /// [`Invalid::TooManyDevices`] if the bus has 64 devices.
    pub fn device(&self, settings: Settings) -> Result<Device<'_, C, P>, Invalid> {
        let known = self.slots.cold(|cold| cold.capabilities);
        let capabilities = match known {
            Some(capabilities) => capabilities,
            None => {
                let (token, _) = self.acquire(NO_DEVICE).map_err(|_| Invalid::Busy)?;
                let mut owner = Owner::new(self, token);
                let asked = owner.station().controller.capabilities();
                self.slots.cold(|cold| cold.capabilities = Some(asked));
                owner.release();
                asked
            }
        };
        capabilities.check_device(&settings)?;
        let settings = Settings {
            clock: capabilities.rate(settings.clock),
            ..settings
        };
        let number = self.ownership().add_device();
        let number = number.ok_or(Invalid::TooManyDevices)?;
        Ok(Device {
            bus: self,
            settings,
            capabilities,
            number,
        })
    }

    /// Withdraws the messages of a device, of which none is stored any more, and frees its number.
    pub(crate) fn remove_device(&self, number: DeviceNumber) {
        // The last round finds none.
        for _ in 0..=self.slots.bodies() {
            let Some((index, wakers)) = self.ownership().withdraw(number, self.platform.now())
            else {
                break;
            };
            count(&self.counters.cancelled);
            self.body(index).enter().result = Err(Error::Cancelled);
            self.finish(index);
            self.see_to(wakers);
        }
    }
}

impl<'b, C, P> Device<'b, C, P>
where
    C: Controller,
    P: Platform,
{
    /// Runs a message in the calling context, and returns when it is complete. If the bus is busy,
    /// the caller waits.
    ///
    /// # Errors
    ///
    /// [`Error`]; the device is deselected in any case. [`Error::WouldBlock`] if the bus is busy
    /// and the caller must not wait.
    #[inline]
    pub fn sync(&self, transfers: &mut [Transfer<'_>]) -> Result<(), Error> {
        self.sync_message(transfers)
    }

    #[inline(always)]
    fn sync_message<M: Message + ?Sized>(&self, message: &mut M) -> Result<(), Error> {
        let bytes = self.capabilities.check(&self.settings, message)?;
        let (token, acquired) = self.bus.acquire(self.number)?;
        let mut owner = Owner::new(self.bus, token);
        let result = owner.run(&self.settings, acquired, message, bytes);
        owner.release();
        result
    }

    /// Sends `bytes` as one message. Blocks: with `.await`, this method is found before the one of
    /// embedded-hal-async. [`transfer_async`](Self::transfer_async) does not block.
    ///
    /// # Errors
    ///
    /// The same as [`sync`](Self::sync).
    pub fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        self.sync(&mut [Transfer::write(bytes)])
    }

    /// Sends `bytes`, then receives into `into`, as one message.
    ///
    /// # Errors
    ///
    /// The same as [`sync`](Self::sync).
    pub fn write_then_read(&self, bytes: &[u8], into: &mut [u8]) -> Result<(), Error> {
        self.sync(&mut [Transfer::write(bytes), Transfer::read(into)])
    }

    /// Stores a message, and returns its handle. The handle gives access to the received bytes.
    ///
    /// On an idle bus, a task runs the message here. Otherwise see [`Submitted`]. Interrupt handlers
    /// may call it. With `std`, a signal handler must not: it may interrupt a critical section of its
    /// own thread, and then panics.
    ///
    /// # Errors
    ///
    /// [`Error`] if the message cannot be stored.
    pub fn submit(&self, transfers: &mut [Transfer<'_>]) -> Result<Pending<'b, C, P>, Error> {
        let (index, free) = self.store(transfers, None)?;
        // Frees the place even if the driver panics in the next line.
        let pending = Pending::new(self.bus, index);
        self.see_to_it(free);
        Ok(pending)
    }

    /// Stores a message, and returns. After the message, the owner of the bus calls `then` with
    /// `number`. Without a worker, also on `Threads`, the program must call [`Bus::poll`](crate::Bus::poll)
    /// at intervals: the message may be left in line.
    ///
    /// # Errors
    ///
    /// [`Error`] if the message cannot be stored; then `then` is not called.
    pub fn submit_then(
        &self,
        transfers: &mut [Transfer<'_>],
        then: Callback,
        number: usize,
    ) -> Result<(), Error> {
        let (_, free) = self.store(transfers, Some((then, number)))?;
        self.see_to_it(free);
        Ok(())
    }

    /// Stores a message. Returns its place, and whether the bus is free.
    fn store(
        &self,
        transfers: &mut [Transfer<'_>],
        then: Option<(Callback, usize)>,
    ) -> Result<(usize, bool), Error> {
        let bus = self.bus;
        let bytes = self.capabilities.check(&self.settings, transfers)?;
        fits(transfers, bytes, bus.slots.room())?;
        let claim = || bus.ownership().claim(self.number);
        let index = claim().or_else(|| {
            // On an idle bus, those in line are run first. A panic of their driver is not this one's.
            bus.guarded(|| self.see_to_it(!bus.ownership().is_owned()));
            claim()
        });
        let index = index.ok_or(Error::LineFull)?;
        let mut body = bus.body(index).enter();
        body.fill(&self.settings, transfers, then);
        drop(body);
        count(&bus.counters.asynchronous);
        Ok((index, bus.ownership().publish(index)))
    }

    /// Ensures that a message stored on a free bus is run.
    fn see_to_it(&self, free: bool) {
        let bus = self.bus;
        if !free {
            return;
        }
        let here = bus.submitted == Submitted::ByCaller && bus.platform.current().is_some();
        if here {
            // If the bus was taken meanwhile, its owner runs the message.
            if let Some(mut owner) = Owner::take_any(bus) {
                owner.release();
            }
        } else {
            bus.call_worker();
        }
    }

    /// Returns the bus.
    pub const fn bus(&self) -> &'b Shared<C, P> {
        self.bus
    }

    /// Returns the settings, with the clock limited to the controller's fastest.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) const fn number(&self) -> DeviceNumber {
        self.number
    }

    pub(crate) const fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
}

/// Asynchronous methods. Their futures may be dropped at any time: the device is deselected, and
/// the bus is free.
impl<C, P> Device<'_, C, P>
where
    C: AsyncController,
    P: Platform,
{
    /// Runs a message without blocking; the asynchronous [`sync`](Self::sync).
    ///
    /// # Errors
    ///
    /// The same as [`sync`](Self::sync).
    pub async fn transfer_async(&self, transfers: &mut [Transfer<'_>]) -> Result<(), Error> {
        self.await_message(transfers).await
    }

    async fn await_message<M: Message + ?Sized>(&self, message: &mut M) -> Result<(), Error> {
        let bytes = self.capabilities.check(&self.settings, message)?;
        let (token, acquired) = match self.bus.ownership().take(self.number) {
            Some(token) => (token, Acquired::AtOnce),
            None => self.bus.acquire_busy::<Async>(self.number).await?,
        };
        let mut owner = Owner::new(self.bus, token);
        let ran = owner.run_awaited(&self.settings, acquired, message, bytes);
        let result = ran.await;
        if let Some(index) = owner.try_release(true) {
            owner.release_after::<Async>(index).await;
        }
        result
    }
}

impl<C, P> ErrorType for Device<'_, C, P>
where
    C: Controller,
    P: Platform,
{
    type Error = Error;
}

impl<C, P> SpiDevice for Device<'_, C, P>
where
    C: Controller,
    P: Platform,
{
    #[inline]
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Error> {
        self.sync_message(operations)
    }
}

impl<C, P> embedded_hal_async::spi::SpiDevice for Device<'_, C, P>
where
    C: AsyncController,
    P: Platform,
{
    fn transaction(
        &mut self,
        operations: &mut [Operation<'_, u8>],
    ) -> impl Future<Output = Result<(), Error>> {
        self.await_message(operations)
    }
}

impl<C, P> Drop for Device<'_, C, P>
where
    C: Controller,
    P: Platform,
{
    fn drop(&mut self) {
        self.bus.remove_device(self.number);
    }
}

impl<C, P> fmt::Debug for Device<'_, C, P>
where
    C: Controller,
    P: Platform,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("number", &self.number)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
