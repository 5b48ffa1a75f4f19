//! Accesses to the port that a VMM may serve without an exit. The model is independent of the
//! hypervisor: it reports the allowed accesses, and the VMM maps memory and collects writes.

use std::io::Write;

use nostall_io::Clock;
use nostall_uart::registers::{ier, lsr, mcr};

use super::{Line, Uart};

/// Accesses that a VMM may serve on its own until the next one that the model handles.
///
/// Query the offer again after every handled access and every change from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Handling of writes to the register at offset 0.
    pub transmit: Transmit,
    /// Handling of reads of the line status register.
    pub line_status: LineStatus,
}

/// Handling of writes to the transmitter's register, at offset 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// Writes may be collected and delivered later, in order, before any other access. The guest
    /// cannot observe the delay.
    Collect,
    /// Each write must be handled at once: it may cause an interrupt, loop back, or take line time.
    Trap,
}

/// Reads of the line status register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStatus {
    /// Reads return this value and have no side effect. The register may be in memory, on a
    /// page whose other bytes are [`BESIDE`](super::BESIDE).
    Memory(u8),
    /// Each read must be handled: it clears an error, reads another register at this offset, or its
    /// value depends on the time.
    Trap,
}

impl<C: Clock, W: Write> Uart<C, W> {
    /// Returns the accesses that a VMM may handle without an exit now.
    ///
    /// Only a line that takes everything [at once](Line::AtOnce) allows such accesses. With other
    /// lines, values that the guest reads depend on the time of its writes.
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

    /// Returns the LSR without error bits.
    pub(super) fn quiet_lsr(&self) -> u8 {
        let bit = |set, bit| if set { bit } else { 0 };
        bit(!self.receiver.bytes.is_empty(), lsr::DATA_READY)
            | bit(self.ready(), lsr::THRE)
            | bit(self.idle(), lsr::TEMT)
    }
}
