//! Chips with their lines and costs, as data.

use nostall_io::Nanos;

use super::Chip;

/// Rate of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// A virtual machine's line: takes everything at once. Each byte raises the transmit interrupt,
    /// as in QEMU.
    AtOnce,
    /// The baud rate registers divide this input clock, UARTCLK, in hertz (DDI 0183G, section
    /// 3.3.6).
    Clock(u32),
    /// A rate in bits a second that no register changes: an SBSA generic UART's firmware sets it.
    Baud(u32),
}

/// A chip, its line, and the cost of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Profile {
    /// Stable name, for command lines and reports.
    pub name: &'static str,
    /// Revision or relative of the PL011.
    pub chip: Chip,
    /// Duration of one register access.
    pub access: Nanos,
    /// Rate of the line.
    pub line: Line,
}

impl Profile {
    /// An r1p5 with the UARTCLK of QEMU's machine `virt`, 24 MHz.
    ///
    /// The access time is *assumed*: some cycles of a peripheral bus at 24 MHz.
    pub const R1P5: Self = Self {
        name: "pl011-r1p5",
        chip: Chip::R1p5,
        access: Nanos(200),
        line: Line::Clock(24_000_000),
    };

    /// An r1p4 or earlier, otherwise like [`R1P5`](Self::R1P5).
    pub const R1P4: Self = Self {
        name: "pl011-r1p4",
        chip: Chip::R1p4,
        ..Self::R1P5
    };

    /// An SBSA generic UART whose firmware has set 115,200 baud.
    pub const SBSA: Self = Self {
        name: "sbsa",
        chip: Chip::Sbsa,
        line: Line::Baud(115_200),
        ..Self::R1P5
    };

    /// QEMU's: it sends at once, and its transmit FIFO is never full.
    pub const QEMU: Self = Self {
        name: "pl011-qemu",
        chip: Chip::Qemu,
        line: Line::AtOnce,
        ..Self::R1P5
    };

    /// All profiles.
    pub const ALL: [Self; 4] = [Self::R1P5, Self::R1P4, Self::SBSA, Self::QEMU];

    /// Returns the profile with another line.
    #[must_use]
    pub const fn with_line(self, line: Line) -> Self {
        Self { line, ..self }
    }
}
