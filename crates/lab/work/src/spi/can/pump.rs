//! The CAN controller's device, driven as nostall does, or as Linux did before 2019.

use nostall_io::Nanos;
use nostall_spi::{Config, Controller, Device, Error, Pending, Platform, Submitted, Transfer};

use crate::spi::job::BusStrategy;

/// Idle time of the bus before the hardware is put to sleep, as in Linux. On a busy machine, a
/// shorter time would end between two messages.
pub const IDLE_TIMEOUT: Nanos = Nanos::from_secs(1);

/// Returns the bus options for a strategy.
pub(super) const fn config(strategy: BusStrategy) -> Config {
    let config = Config {
        idle_timeout: IDLE_TIMEOUT,
        ..Config::DEFAULT
    };
    match strategy {
        BusStrategy::Caller => config,
        BusStrategy::Pump => Config {
            submitted: Submitted::ByWorker,
            idle_timeout: Nanos::ZERO,
            ..config
        },
    }
}

/// The CAN controller's device. With [`BusStrategy::Pump`], every synchronous message wakes the
/// worker, which puts the hardware to sleep if the bus is still idle.
pub(super) struct Chip<'b, C, P>
where
    C: Controller,
    P: Platform,
{
    device: Device<'b, C, P>,
    strategy: BusStrategy,
}

impl<'b, C, P> Chip<'b, C, P>
where
    C: Controller,
    P: Platform,
{
    pub(super) const fn new(device: Device<'b, C, P>, strategy: BusStrategy) -> Self {
        Self { device, strategy }
    }

    pub(super) fn sync(&self, transfers: &mut [Transfer<'_>]) -> Result<(), Error> {
        let result = self.device.sync(transfers);
        if self.strategy == BusStrategy::Pump {
            self.device.bus().call_worker();
        }
        result
    }

    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        self.sync(&mut [Transfer::write(bytes)])
    }

    pub(super) fn write_then_read(&self, bytes: &[u8], into: &mut [u8]) -> Result<(), Error> {
        self.sync(&mut [Transfer::write(bytes), Transfer::read(into)])
    }

    pub(super) fn submit(&self, bytes: &[u8]) -> Result<Pending<'b, C, P>, Error> {
        self.device.submit(&mut [Transfer::write(bytes)])
    }
}
