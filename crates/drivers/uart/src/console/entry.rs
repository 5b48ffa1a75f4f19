//! Preparation of a console for use. Every entry point goes through it.

use core::ops::{Deref, DerefMut};

use nostall_io::{Clock, Registers};

use super::state::{CANARY, Console};
use crate::PowerLoss;
use crate::registers::{IER, SCR};
use crate::setup::{Patience, answers};

/// Reason for which a write cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stall {
    /// The transmitter did not become ready in time, or was held off.
    Stuck,
    /// The port no longer answers.
    Gone,
}

/// Ways to use a console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// May wait. An enabled receive interrupt is masked until the end, because its handler could
    /// not use the port. Only this driver enables interrupts, so without one nothing is masked.
    Write,
    /// May wait, and does not change the interrupt enables.
    Flush,
    /// Never waits, and does not change the interrupt enables.
    Offer,
}

/// A console that is ready for use: its port has power, and its interrupts are as the entry
/// requires. All sending is done with methods of this type, so that no entry point omits the
/// preparation.
///
/// Dropping it restores the interrupt enables.
pub(super) struct Entered<'c, R: Registers, C: Clock> {
    console: &'c mut Console<R, C>,
    /// Interrupt enables to restore, if any interrupt was masked.
    masked: Option<u8>,
}

impl<R: Registers, C: Clock> Console<R, C> {
    pub(super) fn enter(&mut self, entry: Entry) -> Result<Entered<'_, R, C>, Stall> {
        if self.check_power() || self.fifo_missing && self.in_port == 0 {
            self.recover(entry)?;
        }
        let enables = self.enables();
        let masked = (entry == Entry::Write && enables != 0).then_some(enables);
        if masked.is_some() {
            self.registers.write8(IER, 0);
        }
        Ok(Entered {
            console: self,
            masked,
        })
    }

    /// Sets up a port again after a loss of power. If the port stays busy, only the first attempt
    /// waits.
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

    /// Returns whether the port has lost its power. If not, all bytes from before are in it or have
    /// left.
    pub(super) fn check_power(&mut self) -> bool {
        if self.settings.power_loss == PowerLoss::Recover && self.registers.read8(SCR) != CANARY {
            return true;
        }
        self.settle();
        false
    }

    /// Accepts the port's status: all bytes except [`in_port`](Self::in_port) have left.
    pub(super) fn settle(&mut self) {
        self.at_risk = self.at_risk.min(self.in_port);
        self.lost.settle(self.in_port == 0);
    }

    /// Counts the bytes that may not have left the port as lost, and returns their number.
    ///
    /// A port that has lost its power seems empty. So with [`PowerLoss::Recover`] these are the
    /// bytes given to it since the last check, and those that it held at that check.
    pub(super) fn lose_port_content(&mut self) -> usize {
        if self.settings.power_loss == PowerLoss::Ignore {
            self.settle();
        }
        self.in_port = 0;
        let at_risk = core::mem::take(&mut self.at_risk);
        self.lost.lose_content(at_risk);
        at_risk
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
        if let Some(enables) = self.masked {
            self.registers.write8(IER, enables);
        }
    }
}
