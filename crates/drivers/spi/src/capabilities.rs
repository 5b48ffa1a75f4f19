//! Capabilities of a controller, and the refusal of everything else.

use core::num::NonZeroU32;

use embedded_hal::spi::Mode;

use crate::error::{Error, Invalid};
use crate::settings::{BitOrder, Polarity, Select, Settings, Wires, WordSize, mode_number};
use crate::transfer::{Message, Transfer};

/// Capabilities of a controller. Everything else is refused before a bit is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// One bit for each mode number, and the bits below.
    modes: u8,
    /// One bit for each word size.
    words: u8,
    lines: u8,
    /// Not 0, which leaves room for an `Option`.
    slowest: NonZeroU32,
    fastest: u32,
    /// `u32::MAX` is no limit.
    longest: u32,
}

const MODES: u8 = 0b1111;
const LSB_FIRST: u8 = 1 << 4;
const THREE_WIRE: u8 = 1 << 5;
const ACTIVE_HIGH: u8 = 1 << 6;

impl Capabilities {
    /// Creates the capabilities of a controller that supports everything, with `lines` chip-select
    /// lines.
    pub const fn all(lines: u8) -> Self {
        Self {
            modes: MODES | LSB_FIRST | THREE_WIRE | ACTIVE_HIGH,
            words: 0b111,
            lines,
            slowest: NonZeroU32::MIN,
            fastest: u32::MAX,
            longest: u32::MAX,
        }
    }

    /// Creates the least capabilities: mode 0, 8-bit words, most significant bit first, four wires,
    /// and `lines` active-low chip-select lines.
    pub const fn least(lines: u8) -> Self {
        Self {
            modes: 1,
            words: 1,
            ..Self::all(lines)
        }
    }

    /// Allows these modes only.
    pub const fn modes(mut self, modes: &[Mode]) -> Self {
        self.modes &= !MODES;
        let mut index = 0;
        while index < modes.len() {
            self.modes |= 1 << mode_number(modes[index]);
            index += 1;
        }
        self
    }

    /// Allows these word sizes only.
    pub const fn words(mut self, words: &[WordSize]) -> Self {
        self.words = 0;
        let mut index = 0;
        while index < words.len() {
            self.words |= 1 << words[index] as u8;
            index += 1;
        }
        self
    }

    /// Allows both bit orders.
    pub const fn with_lsb_first(mut self) -> Self {
        self.modes |= LSB_FIRST;
        self
    }

    /// Allows chip-select lines of both polarities.
    pub const fn with_active_high(mut self) -> Self {
        self.modes |= ACTIVE_HIGH;
        self
    }

    /// Sets the slowest possible clock, in hertz.
    pub const fn slowest(mut self, hertz: u32) -> Self {
        self.slowest = NonZeroU32::MIN.saturating_add(hertz.saturating_sub(1));
        self
    }

    /// Sets the fastest possible clock, in hertz. It is used for devices that allow a faster one.
    pub const fn fastest(mut self, hertz: u32) -> Self {
        self.fastest = hertz;
        self
    }

    /// Sets the longest possible transfer, in bytes.
    pub const fn longest(mut self, bytes: usize) -> Self {
        self.longest = if bytes > u32::MAX as usize {
            u32::MAX
        } else {
            bytes as u32
        };
        self
    }

    /// Checks whether the controller supports a device with these settings.
    ///
    /// # Errors
    ///
    /// The first setting that the controller does not support.
    pub fn check_device(&self, settings: &Settings) -> Result<(), Invalid> {
        if self.modes & 1 << mode_number(settings.mode) == 0 {
            return Err(Invalid::Mode(settings.mode));
        }
        if settings.order == BitOrder::LsbFirst && self.modes & LSB_FIRST == 0 {
            return Err(Invalid::LsbFirst);
        }
        if settings.wires == Wires::Three && self.modes & THREE_WIRE == 0 {
            return Err(Invalid::ThreeWire);
        }
        match settings.select {
            Select::Line(number, _) if number >= self.lines => return Err(Invalid::Line(number)),
            Select::Line(_, Polarity::ActiveHigh) if self.modes & ACTIVE_HIGH == 0 => {
                return Err(Invalid::ActiveHigh);
            }
            _ => {}
        }
        self.check_word(settings.word)?;
        self.check_clock(settings.clock)
    }

    /// Checks whether the controller can run a message for a device with these settings. Returns
    /// its number of bytes on the wire.
    ///
    /// # Errors
    ///
    /// [`Error::NoTransfers`], or [`Error::Invalid`] with the first transfer that cannot be run and
    /// the reason.
    #[inline]
    pub fn check<M: Message + ?Sized>(
        &self,
        settings: &Settings,
        message: &mut M,
    ) -> Result<usize, Error> {
        let mut bytes = 0_usize;
        let mut index = 0;
        let transfers = message.transfers();
        while let Some(transfer) = message.transfer(index) {
            let len = transfer.len();
            let plain = transfer.options.word.is_none()
                & transfer.options.clock.is_none()
                & transfer.options.cs_change.is_none()
                & (settings.word as u8 == WordSize::Bits8 as u8)
                & (settings.wires as u8 == Wires::Four as u8);
            if !plain || len > self.longest as usize {
                let checked = match transfer.options.cs_change {
                    Some(_) if index + 1 == transfers => Err(Invalid::CsChangeAtEnd),
                    _ => self.check_transfer(settings, &transfer),
                };
                checked.map_err(|why| Error::Invalid {
                    transfer: index,
                    why,
                })?;
            }
            bytes = bytes.saturating_add(len);
            index += 1;
        }
        match index {
            0 => Err(Error::NoTransfers),
            _ => Ok(bytes),
        }
    }

    #[cold]
    fn check_transfer(&self, settings: &Settings, transfer: &Transfer<'_>) -> Result<(), Invalid> {
        let (sends, receives) = (transfer.sends(), transfer.receives());
        let word = transfer.options.word.unwrap_or(settings.word);
        let whole = |bytes: usize| bytes & (word.bytes() - 1) == 0;
        if transfer.options.word.is_some() {
            self.check_word(word)?;
        }
        if let Some(hertz) = transfer.options.clock {
            self.check_clock(hertz)?;
        }
        if !whole(sends) || !whole(receives) {
            return Err(Invalid::PartOfWord(word));
        }
        if settings.wires == Wires::Three && sends != 0 && receives != 0 {
            return Err(Invalid::BothOnThreeWires);
        }
        if self.longest < u32::MAX && transfer.len() > self.longest as usize {
            return Err(Invalid::TooLong(self.longest as usize));
        }
        Ok(())
    }

    fn check_word(&self, word: WordSize) -> Result<(), Invalid> {
        match self.words & 1 << word as u8 {
            0 => Err(Invalid::Word(word)),
            _ => Ok(()),
        }
    }

    /// Returns the fastest clock, in hertz, for a device that allows `hertz`.
    pub(crate) fn rate(&self, hertz: u32) -> u32 {
        hertz.min(self.fastest)
    }

    fn check_clock(&self, hertz: u32) -> Result<(), Invalid> {
        match hertz {
            0 => Err(Invalid::ClockZero),
            _ if hertz < self.slowest.get() => Err(Invalid::TooSlow {
                asked: hertz,
                slowest: self.slowest.get(),
            }),
            _ => Ok(()),
        }
    }
}
