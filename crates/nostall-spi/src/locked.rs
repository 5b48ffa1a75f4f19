//! The bus for several messages in a row.

use core::fmt;

use crate::bus::Bus;
use crate::controller::Controller;
use crate::error::Error;
use crate::held::Held;
use crate::platform::Platform;
use crate::settings::Settings;
use crate::transfer::Transfer;

/// The bus, taken for a device by [`Device::lock`](crate::Device::lock): several messages in a row, with
/// nobody's in between. Dropping it lets the bus go, after what was queued meanwhile,
/// as far as a caller goes.
pub struct Locked<'d, C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> {
    /// Always there, but while it is dropped.
    held: Option<Held<'d, C, P, SLOTS, BYTES>>,
    bus: &'d Bus<C, P, SLOTS, BYTES>,
    settings: &'d Settings,
}

impl<'d, C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize>
    Locked<'d, C, P, SLOTS, BYTES>
{
    pub(crate) const fn new(
        held: Held<'d, C, P, SLOTS, BYTES>,
        bus: &'d Bus<C, P, SLOTS, BYTES>,
        settings: &'d Settings,
    ) -> Self {
        Self {
            held: Some(held),
            bus,
            settings,
        }
    }

    /// Runs a message.
    ///
    /// # Errors
    ///
    /// [`Error`]; whatever it is, the device is deselected.
    pub fn sync(&mut self, transfers: &mut [Transfer<'_>]) -> Result<(), Error> {
        let bytes = self.bus.capabilities().check(self.settings, transfers)?;
        match &mut self.held {
            Some(held) => held.run(self.settings, transfers, bytes),
            None => Err(Error::Cancelled),
        }
    }
}

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Drop
    for Locked<'_, C, P, SLOTS, BYTES>
{
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            held.let_go();
        }
    }
}

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> fmt::Debug
    for Locked<'_, C, P, SLOTS, BYTES>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked")
            .field("settings", self.settings)
            .finish_non_exhaustive()
    }
}
