//! What a VMM may offer of the port without an exit. The model knows no
//! hypervisor: it says what would be true, and the VMM maps and collects.

use std::io::Write;

use nostall_io::Clock;
use nostall_uart::registers::{ier, lsr, mcr};

use super::{Line, Uart};

/// What a VMM may do about accesses until the next one that it handles.
///
/// Ask again after every access that has been handled, and after everything that
/// is done to the port from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// What to do about writes to the register at offset 0.
    pub transmit: Transmit,
    /// What to do about reads of the line status register.
    pub line_status: LineStatus,
}

/// Writes to the register at offset 0, the transmitter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// They may be collected and handed over later, in order, but before any
    /// other access is: nobody waits for an answer to them.
    Collect,
    /// Each must be handled when it happens: an interrupt may follow from it, or
    /// it comes back in loopback, or the line takes its time.
    Trap,
}

/// Reads of the line status register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStatus {
    /// They give this, and do nothing: it may lie in memory, on a page whose other bytes are
    /// [`BESIDE`](super::BESIDE).
    Memory(u8),
    /// Each must be handled: it clears an error that it shows, another register is
    /// in its place, or time alone changes it.
    Trap,
}

impl<C: Clock, W: Write> Uart<C, W> {
    /// What a VMM may offer now.
    ///
    /// Only a line that takes everything [at once](Line::AtOnce) has anything to
    /// offer: with another, what the guest reads depends on when it writes.
    pub fn offer(&mut self) -> Offer {
        self.drain();
        if self.line != Line::AtOnce || !self.idle() {
            return Offer {
                transmit: Transmit::Trap,
                line_status: LineStatus::Trap,
            };
        }
        let waited_for = self.latches.ier & ier::TRANSMITTER_EMPTY != 0;
        let loopback = self.latches.mcr & mcr::LOOP != 0;
        let elsewhere = self.enhanced_registers() || self.indexed_registers();
        Offer {
            transmit: if waited_for || loopback {
                Transmit::Trap
            } else {
                Transmit::Collect
            },
            line_status: if elsewhere || self.receiver.errors() != 0 || self.receiver.any_error() {
                LineStatus::Trap
            } else {
                LineStatus::Memory(self.quiet_lsr())
            },
        }
    }

    /// The LSR while it has no error to show.
    fn quiet_lsr(&self) -> u8 {
        let received = if self.receiver.bytes.is_empty() {
            0
        } else {
            lsr::DATA_READY
        };
        received | lsr::THRE | lsr::TEMT
    }
}
