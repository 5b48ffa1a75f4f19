//! Receive side of a console's port.

use nostall_io::Clock;

use super::state::Console;
use crate::hardware::UartHardware;
use crate::model::LARGEST_LOAD;
use crate::registers::lsr;

/// Largest number of bytes that one call receives: two of the family's largest FIFOs.
const BUDGET: usize = 2 * LARGEST_LOAD;

impl<U: UartHardware, C: Clock> Console<U, C> {
    /// Enables the port's receive interrupt, and OUT2, which gates it on a PC.
    ///
    /// The FIFO interrupts at [`ConsoleSettings::trigger`](crate::ConsoleSettings::trigger), and
    /// four frames after the last byte. The handler calls [`receive`](Self::receive). Writes mask
    /// the interrupt until they end; offers do not change it.
    pub fn enable_receive(&mut self) {
        self.receives = true;
        self.set_receive();
    }

    /// Disables the port's interrupts.
    pub fn disable_receive(&mut self) {
        self.receives = false;
        self.set_receive();
    }

    /// Masks the receive interrupt until [`resume_receive`](Self::resume_receive).
    ///
    /// For a user that shares the port with the interrupt's handler and waits with interrupts
    /// enabled. Without the pause, a level-triggered interrupt would never end, because the handler
    /// cannot use the port.
    pub fn pause_receive(&mut self) {
        self.is_paused = true;
        self.enable_interrupts(false);
    }

    /// Ends a [pause](Self::pause_receive). Bytes received meanwhile interrupt now.
    pub fn resume_receive(&mut self) {
        self.is_paused = false;
        self.enable_interrupts(self.interrupts());
    }

    /// Prepares the port for receive interrupts, or for none, to match `receives`.
    pub(super) fn set_receive(&mut self) {
        let trigger = (self.receives && self.port.load > 1).then_some(self.settings.trigger);
        self.uart
            .set_receive(self.port.model, trigger, self.receives);
        self.enable_interrupts(self.interrupts());
    }

    /// Enables or masks the port's interrupts.
    pub(super) fn enable_interrupts(&self, is_enabled: bool) {
        self.uart
            .enable_receive_interrupt(self.port.model, is_enabled);
    }

    /// Returns whether the port's interrupts are enabled. Only this driver enables them.
    pub(super) const fn interrupts(&self) -> bool {
        self.receives && !self.is_paused
    }

    /// Passes the received bytes to `take`, and returns their number. Never waits.
    ///
    /// Call this from the handler of the port's interrupt, or often enough without one. A call
    /// reads at most 256 bytes. If the port has more, its interrupt is raised again, with an edge.
    /// Bytes with a wrong parity or without a stop bit are passed unchanged; the NUL of a break is
    /// not passed. [`take_latched_status`](Self::take_latched_status) returns the errors.
    pub fn receive(&mut self, take: impl FnMut(u8)) -> usize {
        self.receive_at_most(BUDGET, take)
    }

    /// [Receives](Self::receive) at most `most` bytes, for a caller that must return soon.
    pub fn receive_at_most(&mut self, most: usize, mut take: impl FnMut(u8)) -> usize {
        let mut passed = 0;
        for read in 0..most {
            let Ok(status) = self.status() else {
                return passed;
            };
            if status & lsr::DATA_READY == 0 {
                if read == 0 && self.uart.end_empty_interrupt(self.port.model) {
                    continue;
                }
                return passed;
            }
            let (byte, errors) = self.uart.receive();
            self.seen.line_status |= errors;
            let is_break = (core::mem::take(&mut self.front_errors) | errors) & lsr::BREAK != 0;
            if !is_break {
                take(byte);
                passed += 1;
            }
        }
        self.enable_interrupts(false);
        self.enable_interrupts(self.interrupts());
        passed
    }
}
