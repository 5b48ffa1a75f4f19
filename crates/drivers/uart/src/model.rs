//! Models of UARTs, and their differences.

use core::fmt;
use core::str::FromStr;

/// Size of the family's largest FIFO, in bytes: the largest load.
pub(crate) const LARGEST_LOAD: usize = 128;

/// Model of the 16550 family, or another UART.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Model {
    /// INS8250: no FIFO, no scratch register.
    Uart8250,
    /// NS16450: no FIFO.
    Uart16450,
    /// NS16550: its FIFO loses bytes, so it is not used.
    Uart16550,
    /// NS16550A (and B to D).
    Uart16550A,
    /// ST16C650, the first version: its transmit FIFO is unreliable, so it is not used.
    Uart16650,
    /// ST16C650A, XR16C650: the second version, with a working FIFO.
    Uart16650V2,
    /// TI TL16C750.
    Uart16750,
    /// Exar XR16C850.
    Uart16850,
    /// Oxford OX16C950.
    Uart16950,
    /// Synopsys DW_apb_uart. The chip's maker chooses the depth of its FIFOs. Only registers beyond
    /// the 16550's distinguish it from a 16550A, and these are read only if this model is named.
    DesignWare,
    /// Mini UART of the BCM2835. Its line status reports room for *one* byte, so it takes no
    /// bursts. Probing cannot distinguish it from a 16550A, so it must be named.
    Bcm2835Mini,
    /// Arm's PL011, in a [`Pl011`](crate::Pl011).
    Pl011,
    /// The SBSA generic UART, a subset of the PL011.
    SbsaUart,
    /// SiFive's UART, in a [`SifiveUart`](crate::SifiveUart).
    Sifive,
}

impl Model {
    /// All models of the 16550 family. Only these have a name to parse.
    pub const ALL: [Self; 11] = [
        Self::Uart8250,
        Self::Uart16450,
        Self::Uart16550,
        Self::Uart16550A,
        Self::Uart16650,
        Self::Uart16650V2,
        Self::Uart16750,
        Self::Uart16850,
        Self::Uart16950,
        Self::DesignWare,
        Self::Bcm2835Mini,
    ];

    /// Returns the stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uart8250 => "8250",
            Self::Uart16450 => "16450",
            Self::Uart16550 => "16550",
            Self::Uart16550A => "16550a",
            Self::Uart16650 => "16650",
            Self::Uart16650V2 => "16650v2",
            Self::Uart16750 => "16750",
            Self::Uart16850 => "16850",
            Self::Uart16950 => "16950",
            Self::DesignWare => "designware",
            Self::Bcm2835Mini => "bcm2835-mini",
            Self::Pl011 => "pl011",
            Self::SbsaUart => "sbsa-uart",
            Self::Sifive => "sifive",
        }
    }

    /// Returns the depth of each FIFO in bytes, 1 without a working one. For a DesignWare and
    /// a PL011 this is the minimum; the chip's registers have the depth.
    pub const fn fifo_depth(self) -> usize {
        match self {
            Self::Uart8250 | Self::Uart16450 | Self::Uart16550 | Self::Uart16650 => 1,
            Self::Bcm2835Mini | Self::Sifive => 8,
            Self::Uart16550A | Self::DesignWare | Self::Pl011 => 16,
            Self::Uart16650V2 | Self::SbsaUart => 32,
            Self::Uart16750 => 64,
            Self::Uart16850 | Self::Uart16950 => 128,
        }
    }

    /// Returns the number of bytes that the transmitter takes when it reports empty.
    ///
    /// This is the FIFO's depth, with two exceptions. The 16650V2 may report empty at its trigger
    /// level of 16, and the mini UART when one byte fits.
    pub const fn transmit_load(self) -> usize {
        match self {
            Self::Uart16650V2 => 16,
            Self::Bcm2835Mini => 1,
            other => other.fifo_depth(),
        }
    }

    /// Returns whether the model has a scratch register.
    pub const fn has_scratch(self) -> bool {
        !matches!(
            self,
            Self::Uart8250 | Self::Pl011 | Self::SbsaUart | Self::Sifive
        )
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Model {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|m| m.name() == name).ok_or(())
    }
}
