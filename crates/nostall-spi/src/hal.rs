//! embedded-hal's device, and its asynchronous twin.

use embedded_hal::spi::{ErrorType, Operation, SpiDevice};
use nostall_io::Nanos;

use crate::controller::Controller;
use crate::device::Device;
use crate::error::Error;
use crate::platform::Platform;
use crate::transfer::Transfer;

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> ErrorType
    for Device<'_, C, P, SLOTS, BYTES>
{
    type Error = Error;
}

/// No operations at all select the device and release it, as the trait says.
impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> SpiDevice
    for Device<'_, C, P, SLOTS, BYTES>
{
    #[inline]
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Error> {
        match operations {
            [] => self.sync(&mut [Transfer::pause(Nanos::ZERO)]),
            _ => self.sync_message(operations),
        }
    }
}

/// A message has to fit into a place of the queue: `BYTES` bytes, 8 operations. The
/// future may be dropped at any moment. [`Error::QueueFull`] if no place was free for as
/// long as [`Config::patience`](crate::Config::patience).
impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize>
    embedded_hal_async::spi::SpiDevice for Device<'_, C, P, SLOTS, BYTES>
{
    async fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Error> {
        match operations {
            [] => Device::transaction(self, &mut [Operation::DelayNs(0)]).await,
            _ => Device::transaction(self, operations).await,
        }
    }
}
