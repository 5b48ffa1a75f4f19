//! Revisions and relatives of the PL011, and their differences.

use super::registers::{PCELL_ID, PCELL_IDS, PERIPH_ID, cr, lcr_h, periph_ids};

/// A PL011 or its relative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chip {
    /// Revision r1p5: FIFOs of 32 bytes (DDI 0183G, section 2.4.3).
    R1p5,
    /// Revision r1p4 and earlier: FIFOs of 16 bytes. DDI 0183G, "Product revisions", says that r1p5
    /// increased the depth.
    R1p4,
    /// The SBSA generic UART: r1p5 without control, baud rate, line control, level, DMA, modem and
    /// identification registers (ARM DEN 0029, "Generic UART"). These read 0, and writes to them
    /// are ignored. It is always enabled, with FIFOs and frames of 8N1.
    Sbsa,
    /// QEMU's: FIFOs of 16 bytes. It sends and receives while disabled, ignores the levels, and
    /// interrupts at each first byte received (QEMU, hw/char/pl011.c).
    Qemu,
}

/// Reset value of IFLS: both FIFOs half full (DDI 0183G, section 3.3.9).
const HALF: u32 = 0b010_010;

impl Chip {
    /// All chips.
    pub const ALL: [Self; 4] = [Self::R1p5, Self::R1p4, Self::Sbsa, Self::Qemu];

    /// Returns the depth of each FIFO in bytes.
    pub const fn fifo_depth(self) -> usize {
        match self {
            Self::R1p5 | Self::Sbsa => 32,
            Self::R1p4 | Self::Qemu => 16,
        }
    }

    /// Returns whether the chip has the registers that the SBSA lacks.
    pub(super) const fn is_whole(self) -> bool {
        !matches!(self, Self::Sbsa)
    }

    /// Returns the identification register at `offset` (sections 3.3.15 and 3.3.16).
    pub(super) fn id(self, offset: usize) -> Option<u8> {
        let revision = match self {
            Self::R1p5 => 3,
            Self::R1p4 => 2,
            Self::Qemu => 1,
            Self::Sbsa => return None,
        };
        match offset {
            PERIPH_ID..PCELL_ID => periph_ids(revision).get((offset - PERIPH_ID) / 4).copied(),
            PCELL_ID.. => PCELL_IDS.get((offset - PCELL_ID) / 4).copied(),
            _ => None,
        }
    }

    /// Returns line control, control and level registers after reset (sections 3.3.7 to 3.3.9).
    pub(super) const fn reset_values(self) -> (u32, u32, u32) {
        match self {
            Self::Sbsa => (
                lcr_h::WLEN | lcr_h::FEN,
                cr::UARTEN | cr::TXE | cr::RXE,
                HALF,
            ),
            _ => (0, cr::TXE | cr::RXE, HALF),
        }
    }

    /// Returns the fill to which the transmit FIFO has to fall for its interrupt.
    pub(super) fn transmit_level(self, ifls: u32, depth: usize) -> usize {
        if depth == 1 { 0 } else { level(ifls, depth) }
    }

    /// Returns the fill to which the receive FIFO has to rise for its interrupt.
    pub(super) fn receive_level(self, ifls: u32, depth: usize) -> usize {
        if depth == 1 || self == Self::Qemu {
            1
        } else {
            level(ifls >> 3, depth)
        }
    }
}

/// Returns the fill that a field of IFLS selects (section 3.3.9). Reserved values select half.
const fn level(field: u32, depth: usize) -> usize {
    depth / 8
        * match field & 0b111 {
            0 => 1,
            1 => 2,
            3 => 6,
            4 => 7,
            _ => 4,
        }
}
