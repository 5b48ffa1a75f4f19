//! Bus settings of a device.

use core::fmt;

use embedded_hal::spi::{MODE_0, Mode};
use nostall_io::Nanos;

/// Returns the number of a mode, 0 to 3: the clock's polarity (CPOL) in bit 1, its phase (CPHA) in
/// bit 0.
#[inline]
pub(crate) const fn mode_number(mode: Mode) -> u8 {
    (mode.polarity as u8) << 1 | mode.phase as u8
}

/// Bit of a word that is sent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BitOrder {
    /// Most significant bit first, as for nearly every device.
    #[default]
    MsbFirst,
    /// Least significant bit first.
    LsbFirst,
}

/// Number of data wires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wires {
    /// One data wire for each direction.
    #[default]
    Four,
    /// One data wire for both directions: a transfer either sends or receives.
    Three,
}

/// Level of a chip-select line at which the device is selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Polarity {
    /// Active low, as for nearly every device.
    #[default]
    ActiveLow,
    /// Active high.
    ActiveHigh,
}

/// Chip-select line of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    /// No line changes. For a device that is alone, and for the clock cycles that an SD card needs
    /// before it is first selected.
    None,
    /// The controller's line with this number.
    Line(u8, Polarity),
}

impl Select {
    /// Returns a number of 10 bits that identifies the selection.
    #[inline]
    const fn key(self) -> u16 {
        match self {
            Self::None => 1 << 9,
            Self::Line(number, polarity) => (polarity as u16) << 8 | number as u16,
        }
    }
}

/// Size of a word. In buffers, words have the CPU's byte order and need not be aligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WordSize {
    /// 8 bits.
    #[default]
    Bits8,
    /// 16 bits.
    Bits16,
    /// 32 bits.
    Bits32,
}

impl WordSize {
    /// All word sizes, in ascending order.
    pub const ALL: [Self; 3] = [Self::Bits8, Self::Bits16, Self::Bits32];

    /// Returns the size in a buffer in bytes: 1, 2 or 4.
    pub const fn bytes(self) -> usize {
        1 << self as usize
    }

    /// Returns the number of bits on the wire.
    pub const fn bits(self) -> u32 {
        8 << self as u32
    }
}

impl fmt::Display for WordSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bits", self.bits())
    }
}

/// Bus settings of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Polarity and phase of the clock.
    pub mode: Mode,
    /// Bit that is sent first.
    pub order: BitOrder,
    /// Number of data wires.
    pub wires: Wires,
    /// Chip-select line of the device.
    pub select: Select,
    /// Fastest clock in hertz. A controller without this rate uses the next lower one.
    pub clock: u32,
    /// Word size of transfers without their own.
    pub word: WordSize,
    /// Byte to send when a transfer only receives.
    pub fill: u8,
    /// Delay from the edge that selects the device to the first clock cycle.
    pub setup: Nanos,
    /// Delay from the last clock cycle to the edge that releases the device.
    pub hold: Nanos,
}

impl Settings {
    /// Creates settings with mode 0, 8-bit words, most significant bit first, four wires and a fill
    /// byte of 0. The clock is at most `clock` hertz, and `line` is the number of the active-low
    /// chip-select line.
    pub const fn new(clock: u32, line: u8) -> Self {
        Self {
            mode: MODE_0,
            order: BitOrder::MsbFirst,
            wires: Wires::Four,
            select: Select::Line(line, Polarity::ActiveLow),
            clock,
            word: WordSize::Bits8,
            fill: 0,
            setup: Nanos::ZERO,
            hold: Nanos::ZERO,
        }
    }

    /// Sets the mode, such as [`embedded_hal::spi::MODE_3`].
    pub const fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Sets another kind of chip select than an active-low line.
    pub const fn select(self, select: Select) -> Self {
        Self { select, ..self }
    }
}

/// Settings of the controller for a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Polarity and phase of the clock.
    pub mode: Mode,
    /// Bit that is sent first.
    pub order: BitOrder,
    /// Number of data wires.
    pub wires: Wires,
    /// Line to assert; the others stay released.
    pub select: Select,
    /// Fastest clock in hertz.
    pub clock: u32,
    /// Word size.
    pub word: WordSize,
}

impl Wire {
    /// Returns a number that identifies the settings besides the clock, for a fast comparison. It is
    /// never `u16::MAX`.
    #[inline]
    pub(crate) const fn shape(&self) -> u16 {
        let order = (self.order as u16) << 4 | (self.wires as u16) << 5;
        let rest = mode_number(self.mode) as u16 | (self.word as u16) << 2 | order;
        self.select.key() << 6 | rest
    }
}
