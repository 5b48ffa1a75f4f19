//! The receive side of a console's port.

use nostall_io::{Clock, Registers};

use super::state::{Console, LARGEST_LOAD};
use crate::Model;
use crate::registers::{DW_USR, FCR, IER, IIR, MCR, RBR, dw, fcr, ier, iir, lsr, mcr};

/// Most bytes that one call receives: two of the family's largest FIFOs.
const BUDGET: usize = 2 * LARGEST_LOAD;

impl<R: Registers, C: Clock> Console<R, C> {
    /// Enables the port's receive interrupt, with OUT2, which lets it through on a PC.
    ///
    /// The FIFO interrupts at [`ConsoleSettings::trigger`](crate::ConsoleSettings::trigger), and
    /// four frames after the last byte. The handler calls [`receive`](Self::receive). Writes mask
    /// the interrupt until they end; offers leave it alone.
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
    /// enabled. A level-triggered interrupt whose handler cannot reach the port never ends.
    pub fn pause_receive(&mut self) {
        self.is_paused = true;
        self.registers.write8(IER, 0);
    }

    /// Ends a [pause](Self::pause_receive). Bytes that came in meanwhile interrupt now.
    pub fn resume_receive(&mut self) {
        self.is_paused = false;
        self.registers.write8(IER, self.enables());
    }

    /// Makes the port's registers what `receives` says.
    pub(super) fn set_receive(&mut self) {
        // Without the clear bits, what is in the FIFOs stays there.
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
            // It receives without interrupts unless bits 2 and 3 are both set, whatever its
            // description says (BCM2835 errata, AUX_MU_IER_REG).
            (true, Model::Bcm2835Mini) => ier::RECEIVED_DATA | ier::LINE_STATUS | ier::MODEM_STATUS,
            (true, _) => ier::RECEIVED_DATA | ier::LINE_STATUS,
        }
    }

    /// The bit of the modem control register that lets the interrupt through.
    pub(super) const fn out2(&self) -> u8 {
        if self.receives { mcr::OUT2 } else { 0 }
    }

    /// Passes the bytes that came in to `take`, and returns their number. Never waits.
    ///
    /// To be called by the handler of the port's interrupt, or often enough where there is none.
    /// A call reads at most 256 bytes. If the port has more, it is made to interrupt anew, also
    /// for a controller that looks for edges. Bytes with a wrong parity or without a stop bit
    /// are passed as they came, the NUL of a break is not;
    /// [`take_latched_status`](Self::take_latched_status) has the errors.
    pub fn receive(&mut self, mut take: impl FnMut(u8)) -> usize {
        let mut passed = 0;
        for read in 0..BUDGET {
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

    /// A DesignWare can show a timeout without a byte, until one is read that is not there (as
    /// Linux found, `8250_dw.c`), and an interrupt of its own.
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
