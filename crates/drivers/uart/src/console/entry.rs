//! Preparation of a console for use. Every entry point goes through it.

use core::ops::{Deref, DerefMut};

use nostall_io::Clock;

use super::open::Patience;
use super::state::Console;
use crate::PowerLoss;
use crate::hardware::UartHardware;

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
pub(super) struct Entered<'c, U: UartHardware, C: Clock> {
    console: &'c mut Console<U, C>,
    /// The receive interrupt was masked, and is enabled again at the end.
    is_masked: bool,
}

impl<U: UartHardware, C: Clock> Console<U, C> {
    pub(super) fn enter(&mut self, entry: Entry) -> Result<Entered<'_, U, C>, Stall> {
        if self.check_power() || self.fifo_missing && self.in_port == 0 {
            self.recover(entry)?;
        }
        let is_masked = entry == Entry::Write && self.interrupts();
        if is_masked {
            self.enable_interrupts(false);
        }
        Ok(Entered {
            console: self,
            is_masked,
        })
    }

    /// Sets up a port again after a loss of power. If the port stays busy, only the first attempt
    /// waits.
    fn recover(&mut self, entry: Entry) -> Result<(), Stall> {
        self.lose_port_content();
        self.status()?;
        if !self.uart.answers(self.port.model) {
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
        if self.settings.power_loss == PowerLoss::Recover && !self.uart.has_kept_power() {
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

impl<U: UartHardware, C: Clock> Deref for Entered<'_, U, C> {
    type Target = Console<U, C>;

    fn deref(&self) -> &Self::Target {
        self.console
    }
}

impl<U: UartHardware, C: Clock> DerefMut for Entered<'_, U, C> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.console
    }
}

impl<U: UartHardware, C: Clock> Drop for Entered<'_, U, C> {
    fn drop(&mut self) {
        if self.is_masked {
            self.enable_interrupts(true);
        }
    }
}
