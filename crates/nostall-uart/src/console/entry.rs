//! The one way into the driver.

use core::ops::{Deref, DerefMut};

use nostall_io::{Clock, Registers};

use super::wait::Stall;
use super::{CANARY, Console};
use crate::PowerLoss;
use crate::registers::{IER, SCR};
use crate::setup::{Patience, answers};

/// The ways to use a console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// May wait. The port's interrupts are masked until the end, because bytes that leave
    /// would raise them.
    Write,
    /// May wait, and leaves the interrupts alone.
    Flush,
    /// Never waits, and leaves the interrupts alone.
    Offer,
}

/// A console that is ready for use: it has its power, its interrupts are as the entry wants
/// them. Everything that sends is a method of this type, so that no entry point can forget
/// the preparation.
///
/// Dropping it restores the interrupt enables.
pub(super) struct Entered<'c, R: Registers, C: Clock> {
    console: &'c mut Console<R, C>,
    /// The interrupt enables to restore.
    enabled: Option<u8>,
}

impl<R: Registers, C: Clock> Console<R, C> {
    pub(super) fn enter(&mut self, entry: Entry) -> Result<Entered<'_, R, C>, Stall> {
        if self.has_lost_power() || self.fifo_missing && self.in_port == 0 {
            self.recover(entry)?;
        }
        let enabled = (entry == Entry::Write).then(|| {
            let enabled = match self.registers.read8(IER) {
                // The port is gone. A port that returns must not get this value.
                0xff => 0,
                enabled => enabled,
            };
            self.registers.write8(IER, 0);
            enabled
        });
        Ok(Entered {
            console: self,
            enabled,
        })
    }

    /// Sets a port up again that has lost its power. Of a port that stays busy, only the
    /// first attempt waits.
    fn recover(&mut self, entry: Entry) -> Result<(), Stall> {
        self.lose_port_content();
        self.status()?;
        if !answers(&self.registers) {
            return Err(Stall::Gone);
        }
        let patience = match entry {
            Entry::Offer => Patience::OneLook,
            _ if self.set_up_failed => Patience::OneLook,
            _ => Patience::Wait,
        };
        let failed = self.configure(patience).is_err();
        if failed {
            self.set_up_failed |= patience == Patience::Wait;
            return Err(Stall::Stuck);
        }
        self.pace = self.port.pace();
        Ok(())
    }

    pub(super) fn has_lost_power(&self) -> bool {
        self.settings.power_loss == PowerLoss::Recover && self.registers.read8(SCR) != CANARY
    }

    /// Counts the bytes that may still have been in the port as lost, and returns their
    /// number.
    pub(super) fn lose_port_content(&mut self) -> usize {
        let in_port = core::mem::take(&mut self.in_port);
        self.lost.add_at_most(in_port);
        in_port
    }
}

impl<R: Registers, C: Clock> Deref for Entered<'_, R, C> {
    type Target = Console<R, C>;

    fn deref(&self) -> &Self::Target {
        self.console
    }
}

impl<R: Registers, C: Clock> DerefMut for Entered<'_, R, C> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.console
    }
}

impl<R: Registers, C: Clock> Drop for Entered<'_, R, C> {
    fn drop(&mut self) {
        if let Some(enabled) = self.enabled {
            self.registers.write8(IER, enabled);
        }
    }
}
