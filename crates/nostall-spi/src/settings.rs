//! Bus settings of a device.

use core::fmt;

use nostall_io::Nanos;

/// The clock's polarity and phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Clock idle low, data sampled on the first edge (CPOL 0, CPHA 0).
    #[default]
    Mode0,
    /// Clock idle low, data sampled on the second edge (CPOL 0, CPHA 1).
    Mode1,
    /// Clock idle high, data sampled on the first edge (CPOL 1, CPHA 0).
    Mode2,
    /// Clock idle high, data sampled on the second edge (CPOL 1, CPHA 1).
    Mode3,
}

impl Mode {
    /// All four.
    pub const ALL: [Self; 4] = [Self::Mode0, Self::Mode1, Self::Mode2, Self::Mode3];

    /// Its number, 0 to 3.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Whether the clock is high between messages (CPOL).
    pub const fn idles_high(self) -> bool {
        self.number() & 2 != 0
    }

    /// Whether data is sampled on the second edge (CPHA).
    pub const fn samples_second(self) -> bool {
        self.number() & 1 != 0
    }
}

/// Which bit of a word goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BitOrder {
    /// The most significant: nearly every device.
    #[default]
    MsbFirst,
    /// The least significant.
    LsbFirst,
}

/// How many wires data has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wires {
    /// One for each direction.
    #[default]
    Four,
    /// One for both: a transfer goes one way.
    Three,
}

/// The level of a chip-select line at which the device listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Polarity {
    /// Low: nearly every device.
    #[default]
    ActiveLow,
    /// High.
    ActiveHigh,
}

/// The line that selects the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    /// None: no line moves. For a device that is alone, and for the clocks that an
    /// SD card wants before it is first selected.
    None,
    /// The controller's line of this number.
    Line(u8, Polarity),
}

impl Select {
    /// As a number, to be compared at once.
    #[inline]
    pub(crate) const fn key(self) -> u32 {
        match self {
            Self::None => u32::MAX,
            Self::Line(number, polarity) => (number as u32) << 8 | polarity as u32,
        }
    }

    /// A line at which the device listens when it is low.
    pub const fn line(number: u8) -> Self {
        Self::Line(number, Polarity::ActiveLow)
    }
}

/// Bits in a word. In buffers, words are in the CPU's own byte order and need not
/// be aligned.
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
    /// All three.
    pub const ALL: [Self; 3] = [Self::Bits8, Self::Bits16, Self::Bits32];

    /// Bytes in a buffer, 1, 2 or 4.
    pub const fn bytes(self) -> usize {
        1 << self as usize
    }

    /// Bits on the wire.
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
    /// The clock's polarity and phase.
    pub mode: Mode,
    /// Which bit goes first.
    pub order: BitOrder,
    /// How many wires data has.
    pub wires: Wires,
    /// The line that selects it.
    pub select: Select,
    /// Hertz, at most. A controller that cannot have this rate takes the next lower.
    pub clock: u32,
    /// Bits in a word, where a transfer does not say.
    pub word: WordSize,
    /// Byte that is sent where there is nothing to send.
    pub fill: u8,
    /// From the edge that selects the device to the first clock.
    pub setup: Nanos,
    /// From the last clock to the edge that releases it.
    pub hold: Nanos,
}

impl Settings {
    /// Mode 0, 8 bits, most significant first, four wires, at `clock` hertz at most,
    /// selected by `select`; zeros where there is nothing to send.
    pub const fn new(clock: u32, select: Select) -> Self {
        Self {
            mode: Mode::Mode0,
            order: BitOrder::MsbFirst,
            wires: Wires::Four,
            select,
            clock,
            word: WordSize::Bits8,
            fill: 0,
            setup: Nanos::ZERO,
            hold: Nanos::ZERO,
        }
    }

    /// The same in another mode.
    pub const fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }
}

/// Settings of the controller for a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// The clock's polarity and phase.
    pub mode: Mode,
    /// Which bit goes first.
    pub order: BitOrder,
    /// How many wires data has.
    pub wires: Wires,
    /// The line that will be asserted; the others are at rest.
    pub select: Select,
    /// Hertz, at most.
    pub clock: u32,
    /// Bits in a word.
    pub word: WordSize,
}
