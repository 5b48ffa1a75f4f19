//! Bus taken for several messages in a row.

use core::fmt;

use embedded_hal::spi::{ErrorType, Operation, SpiDevice};

use crate::controller::{AsyncController, Controller};
use crate::device::Device;
use crate::error::Error;
use crate::owner::{Owner, panicking};
use crate::platform::Platform;
use crate::statistics::Acquired;
use crate::transfer::{Message, Transfer};
use crate::wait_mode::Async;

/// Bus taken for several messages of a [`Device`] in a row. Dropping it frees the bus.
///
/// It is an `SpiDevice`, so that a driver can run a sequence of transactions on it.
pub struct Locked<'d, C, P>
where
    C: Controller,
    P: Platform,
{
    /// Present except during the drop.
    owner: Option<Owner<'d, C, P>>,
    device: &'d Device<'d, C, P>,
    /// The drop may run stored messages, which a future must not.
    blocks: bool,
}

impl<C, P> Device<'_, C, P>
where
    C: Controller,
    P: Platform,
{
    /// Takes the bus for several messages in a row.
    ///
    /// # Errors
    ///
    /// [`Error::WouldBlock`] if the bus is busy and the caller must not wait. [`Error::BusHeld`],
    /// [`Error::LineFull`] or [`Error::Abandoned`] if the wait fails.
    pub fn lock(&self) -> Result<Locked<'_, C, P>, Error> {
        let (token, _) = self.bus().acquire(self.number())?;
        Ok(Locked::new(Owner::new(self.bus(), token), self, true))
    }
}

impl<C, P> Device<'_, C, P>
where
    C: AsyncController,
    P: Platform,
{
    /// Takes the bus for several messages in a row; the asynchronous [`lock`](Self::lock).
    ///
    /// # Errors
    ///
    /// The same as [`lock`](Self::lock).
    pub async fn lock_async(&self) -> Result<Locked<'_, C, P>, Error> {
        let (token, _) = self.bus().acquire_busy::<Async>(self.number()).await?;
        Ok(Locked::new(Owner::new(self.bus(), token), self, false))
    }
}

impl<'d, C, P> Locked<'d, C, P>
where
    C: Controller,
    P: Platform,
{
    pub(crate) const fn new(
        owner: Owner<'d, C, P>,
        device: &'d Device<'d, C, P>,
        blocks: bool,
    ) -> Self {
        Self {
            owner: Some(owner),
            device,
            blocks,
        }
    }

    /// Runs a message.
    ///
    /// # Errors
    ///
    /// [`Error`]; the device is deselected in any case.
    pub fn sync(&mut self, transfers: &mut [Transfer<'_>]) -> Result<(), Error> {
        self.run(transfers)
    }

    fn run<M: Message + ?Sized>(&mut self, message: &mut M) -> Result<(), Error> {
        let device = self.device;
        let (running, bytes) = self.begin(message)?;
        let owner = &mut *running.0;
        owner.run(device.settings(), Acquired::AtOnce, message, bytes)
    }

    async fn await_message<M: Message + ?Sized>(&mut self, message: &mut M) -> Result<(), Error>
    where
        C: AsyncController,
    {
        let device = self.device;
        let (running, bytes) = self.begin(message)?;
        let owner = &mut *running.0;
        let settings = device.settings();
        let ran = owner.run_awaited(settings, Acquired::AtOnce, message, bytes);
        ran.await
    }

    fn begin<M: Message + ?Sized>(
        &mut self,
        message: &mut M,
    ) -> Result<(Running<'_, 'd, C, P>, usize), Error> {
        let settings = self.device.settings();
        let bytes = self.device.capabilities().check(settings, message)?;
        let owner = self.owner.as_mut().ok_or(Error::Cancelled)?;
        // A future of this lock may have been leaked.
        owner.stop_dropped();
        Ok((Running(owner), bytes))
    }
}

/// Message of a locked bus. Dropping it half-way stops the message, although the bus stays locked.
struct Running<'l, 'd, C, P>(&'l mut Owner<'d, C, P>)
where
    C: Controller,
    P: Platform;

impl<C, P> Drop for Running<'_, '_, C, P>
where
    C: Controller,
    P: Platform,
{
    fn drop(&mut self) {
        self.0.stop_dropped();
    }
}

impl<C, P> Drop for Locked<'_, C, P>
where
    C: Controller,
    P: Platform,
{
    fn drop(&mut self) {
        let Some(mut owner) = self.owner.take() else {
            return;
        };
        owner.stop_dropped();
        // A driver that has panicked would panic again, which aborts the program.
        match self.blocks && !panicking() {
            true => owner.release(),
            false => owner.release_now(),
        }
    }
}

impl<C, P> ErrorType for Locked<'_, C, P>
where
    C: Controller,
    P: Platform,
{
    type Error = Error;
}

impl<C, P> SpiDevice for Locked<'_, C, P>
where
    C: Controller,
    P: Platform,
{
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Error> {
        self.run(operations)
    }
}

impl<C, P> embedded_hal_async::spi::SpiDevice for Locked<'_, C, P>
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

impl<C, P> fmt::Debug for Locked<'_, C, P>
where
    C: Controller,
    P: Platform,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked")
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}
