//! A card, slow and then fast.

use embedded_hal::spi::{ErrorType, Operation, SpiDevice};
use nostall_spi::{Controller, Device, Error, Platform};

use super::idle_bit::IdleBit;

/// A device at two speeds.
pub(super) struct Clocked<
    'b,
    C: Controller,
    P: Platform,
    const W: usize,
    const S: usize,
    const B: usize,
> {
    now: Device<'b, C, P, W, S, B>,
    /// Until it was sped up.
    fast: Option<Device<'b, C, P, W, S, B>>,
    idle_bit: IdleBit,
}

impl<'b, C: Controller, P: Platform, const W: usize, const S: usize, const B: usize>
    Clocked<'b, C, P, W, S, B>
{
    pub(super) fn new(slow: Device<'b, C, P, W, S, B>, fast: Device<'b, C, P, W, S, B>) -> Self {
        Self {
            now: slow,
            fast: Some(fast),
            idle_bit: IdleBit::default(),
        }
    }

    pub(super) fn speed_up(&mut self) {
        if let Some(fast) = self.fast.take() {
            self.now = fast;
        }
    }
}

impl<C: Controller, P: Platform, const W: usize, const S: usize, const B: usize> ErrorType
    for Clocked<'_, C, P, W, S, B>
{
    type Error = Error;
}

impl<C: Controller, P: Platform, const W: usize, const S: usize, const B: usize> SpiDevice
    for Clocked<'_, C, P, W, S, B>
{
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Error> {
        SpiDevice::transaction(&mut self.now, operations)?;
        self.idle_bit.look(operations);
        Ok(())
    }
}
