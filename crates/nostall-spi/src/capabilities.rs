//! What a controller can do, and the refusal of what it cannot.

use crate::error::{Error, Invalid};
use crate::settings::{BitOrder, Mode, Polarity, Select, Settings, Wires, WordSize};
use crate::transfer::{Outline, Shape};

/// What a controller can do. What it cannot is refused when it is asked for, not
/// when it is too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    modes: u8,
    words: u8,
    lsb_first: bool,
    three_wire: bool,
    four_wire: bool,
    active_high: bool,
    lines: u8,
    slowest: u32,
    longest: usize,
}

impl Capabilities {
    /// Everything, with so many chip-select lines.
    pub const fn all(lines: u8) -> Self {
        Self {
            modes: 0b1111,
            words: 0b111,
            lsb_first: true,
            three_wire: true,
            four_wire: true,
            active_high: true,
            lines,
            slowest: 1,
            longest: usize::MAX,
        }
    }

    /// Mode 0, words of 8 bits, most significant first, four wires, lines active low.
    pub const fn least(lines: u8) -> Self {
        Self {
            modes: 1,
            words: 1,
            lsb_first: false,
            three_wire: false,
            active_high: false,
            ..Self::all(lines)
        }
    }

    /// These modes and no others.
    pub const fn modes(mut self, modes: &[Mode]) -> Self {
        self.modes = 0;
        let mut index = 0;
        while index < modes.len() {
            self.modes |= 1 << modes[index].number();
            index += 1;
        }
        self
    }

    /// Words of these sizes and no others.
    pub const fn words(mut self, words: &[WordSize]) -> Self {
        self.words = 0;
        let mut index = 0;
        while index < words.len() {
            self.words |= 1 << words[index] as u8;
            index += 1;
        }
        self
    }

    /// Either bit first.
    pub const fn with_lsb_first(mut self) -> Self {
        self.lsb_first = true;
        self
    }

    /// Three wires too.
    pub const fn with_three_wires(mut self) -> Self {
        self.three_wire = true;
        self
    }

    /// Three wires, always.
    pub const fn only_three_wires(mut self) -> Self {
        self.three_wire = true;
        self.four_wire = false;
        self
    }

    /// Lines of either polarity.
    pub const fn with_active_high(mut self) -> Self {
        self.active_high = true;
        self
    }

    /// The slowest clock it can have, in hertz.
    pub const fn slowest(mut self, hertz: u32) -> Self {
        self.slowest = hertz;
        self
    }

    /// The longest transfer it can do, in bytes.
    pub const fn longest(mut self, bytes: usize) -> Self {
        self.longest = bytes;
        self
    }

    /// Whether a device with such settings can be spoken to.
    ///
    /// # Errors
    ///
    /// What of it cannot be.
    pub fn check_device(&self, settings: &Settings) -> Result<(), Invalid> {
        if self.modes & 1 << settings.mode.number() == 0 {
            return Err(Invalid::Mode(settings.mode));
        }
        if settings.order == BitOrder::LsbFirst && !self.lsb_first {
            return Err(Invalid::LsbFirst);
        }
        if settings.wires == Wires::Three && !self.three_wire {
            return Err(Invalid::ThreeWire);
        }
        if settings.wires == Wires::Four && !self.four_wire {
            return Err(Invalid::FourWire);
        }
        match settings.select {
            Select::Line(number, _) if number >= self.lines => return Err(Invalid::Line(number)),
            Select::Line(_, Polarity::ActiveHigh) if !self.active_high => {
                return Err(Invalid::ActiveHigh);
            }
            _ => {}
        }
        self.check_word(settings.word)?;
        self.check_clock(settings.clock)
    }

    /// Whether a message can be run for a device with such settings; how many bytes
    /// it has.
    ///
    /// # Errors
    ///
    /// [`Error::NoTransfers`], or the first transfer that cannot be run, and why.
    #[inline]
    pub fn check<M: Outline + ?Sized>(
        &self,
        settings: &Settings,
        message: &M,
    ) -> Result<usize, Error> {
        let mut bytes = 0_usize;
        let transfers = message.transfers();
        if transfers == 0 {
            return Err(Error::NoTransfers);
        }
        for transfer in 0..transfers {
            let shape = message.shape(transfer);
            let checked = if shape.options.deselect.is_some() && transfer + 1 == transfers {
                Err(Invalid::DeselectAtEnd)
            } else {
                self.check_transfer(settings, &shape)
            };
            checked.map_err(|why| Error::Invalid { transfer, why })?;
            bytes = bytes.saturating_add(shape.len());
        }
        Ok(bytes)
    }

    #[inline]
    fn check_transfer(&self, settings: &Settings, shape: &Shape) -> Result<(), Invalid> {
        let word = shape.options.word.unwrap_or(settings.word);
        let whole = |bytes: usize| bytes & (word.bytes() - 1) == 0;
        if shape.options.word.is_some() {
            self.check_word(word)?;
        }
        if let Some(hertz) = shape.options.clock {
            self.check_clock(hertz)?;
        }
        if !whole(shape.write) || !whole(shape.read) {
            return Err(Invalid::PartOfWord(word));
        }
        if settings.wires == Wires::Three && shape.write != 0 && shape.read != 0 {
            return Err(Invalid::BothOnThreeWires);
        }
        if shape.len() > self.longest {
            return Err(Invalid::TooLong(self.longest));
        }
        Ok(())
    }

    fn check_word(&self, word: WordSize) -> Result<(), Invalid> {
        match self.words & 1 << word as u8 {
            0 => Err(Invalid::Word(word)),
            _ => Ok(()),
        }
    }

    fn check_clock(&self, hertz: u32) -> Result<(), Invalid> {
        match hertz {
            0 => Err(Invalid::ClockZero),
            _ if hertz < self.slowest => Err(Invalid::TooSlow(self.slowest)),
            _ => Ok(()),
        }
    }
}
