//! Receive side of a console's port.

use nostall_io::{Clock, Registers};

use super::state::Console;
use crate::Model;
use crate::model::LARGEST_LOAD;
use crate::registers::{DW_USR, FCR, IER, IIR, MCR, RBR, dw, fcr, ier, iir, lsr, mcr};

/// Largest number of bytes that one call receives: two of the family's largest FIFOs.
const BUDGET: usize = 2 * LARGEST_LOAD;

impl<R: Registers, C: Clock> Console<R, C> {
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
        self.registers.write8(IER, 0);
    }

    /// Ends a [pause](Self::pause_receive). Bytes received meanwhile interrupt now.
    pub fn resume_receive(&mut self) {
        self.is_paused = false;
        self.registers.write8(IER, self.enables());
    }

    /// Programs the FIFO trigger, OUT2 and the interrupt enables to match `receives`.
    pub(super) fn set_receive(&mut self) {
        // Without the clear bits, the FIFOs keep their contents.
        if self.receives && self.port.load > 1 {
            let depth = match self.port.model {
                Model::Uart16750 => fcr::FIFO_64,
                _ => 0,
            };
            let trigger = self.settings.trigger as u8;
            self.registers.write8(FCR, fcr::ENABLE | depth | trigger);
        }
        let lines = self.registers.read8(MCR) & (mcr::DTR | mcr::RTS);
        self.registers.write8(MCR, lines | self.out2());
        self.registers.write8(IER, self.enables());
    }

    /// Returns the port's interrupt enables. Only this driver writes that register.
    pub(super) const fn enables(&self) -> u8 {
        match (self.receives && !self.is_paused, self.port.model) {
            (false, _) => 0,
            // It receives without interrupts unless bits 2 and 3 are both set, in contrast to its
            // description (BCM2835 errata, AUX_MU_IER_REG).
            (true, Model::Bcm2835Mini) => ier::RECEIVED_DATA | ier::LINE_STATUS | ier::MODEM_STATUS,
            (true, _) => ier::RECEIVED_DATA | ier::LINE_STATUS,
        }
    }

    /// Returns the bit of the modem control register that gates the interrupt on a PC.
    pub(super) const fn out2(&self) -> u8 {
        if self.receives { mcr::OUT2 } else { 0 }
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
                if read == 0 {
                    self.end_empty_interrupt();
                }
                return passed;
            }
            let byte = self.registers.read8(RBR);
            let is_break = core::mem::take(&mut self.front_errors) & lsr::BREAK != 0;
            if !is_break {
                take(byte);
                passed += 1;
            }
        }
        self.registers.write8(IER, 0);
        self.registers.write8(IER, self.enables());
        passed
    }

    /// Ends an interrupt without a byte. A DesignWare can report a timeout without a byte, until a
    /// byte that is not there is read (as Linux found, `8250_dw.c`). It also has a busy interrupt
    /// of its own.
    fn end_empty_interrupt(&self) {
        if self.port.model != Model::DesignWare {
            return;
        }
        match self.registers.read8(IIR) & (iir::ID | iir::NONE) {
            iir::TIMEOUT => {
                let _ = self.registers.read8(RBR);
            }
            dw::IIR_BUSY => {
                let _ = self.registers.read32(DW_USR);
            }
            _ => {}
        }
    }
}
