//! Pins, moved by the CPU.

use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{InputPin, OutputPin, PinState};
use embedded_hal::spi::ErrorKind;

use super::lines::{self, Lines};
use crate::capabilities::Capabilities;
use crate::controller::{AsyncController, Controller, Level, Progress};
use crate::error::Fault;
use crate::settings::{BitOrder, Mode, Select, Wire, Wires, WordSize};
use crate::words::{Directions, Words};

/// The pins for data.
pub trait Data {
    /// How many wires they are.
    const WIRES: Wires;

    /// Puts out a level.
    ///
    /// # Errors
    ///
    /// If the pin cannot be set.
    fn put(&mut self, level: PinState) -> Result<(), Fault>;

    /// The level that is there.
    ///
    /// # Errors
    ///
    /// If the pin cannot be read.
    fn is_high(&mut self) -> Result<bool, Fault>;
}

/// A wire for each direction.
#[derive(Clone, Copy, Debug)]
pub struct Separate<O, I> {
    out: O,
    input: I,
}

impl<O: OutputPin, I: InputPin> Data for Separate<O, I> {
    const WIRES: Wires = Wires::Four;

    #[inline]
    fn put(&mut self, level: PinState) -> Result<(), Fault> {
        pin(self.out.set_state(level))
    }
    #[inline]
    fn is_high(&mut self) -> Result<bool, Fault> {
        pin(self.input.is_high())
    }
}

/// One wire for both directions: a pin with an open drain and a pull-up, which a high
/// level releases.
#[derive(Clone, Copy, Debug)]
pub struct Shared<P>(P);

impl<P: OutputPin + InputPin> Data for Shared<P> {
    const WIRES: Wires = Wires::Three;

    #[inline]
    fn put(&mut self, level: PinState) -> Result<(), Fault> {
        pin(self.0.set_state(level))
    }
    #[inline]
    fn is_high(&mut self) -> Result<bool, Fault> {
        pin(self.0.is_high())
    }
}

/// A controller of pins for clock, data and chip selects.
///
/// All modes, either bit first, words of 8, 16 and 32 bits, lines of either polarity;
/// four wires or three. The clock is what `D` makes of half a period, and no faster.
#[derive(Debug)]
pub struct BitBang<K, W, L, D> {
    clock: K,
    data: W,
    lines: L,
    delay: D,
    mode: Mode,
    order: BitOrder,
    word: WordSize,
    select: Select,
    /// Nanoseconds.
    half: u32,
}

impl<K, O: OutputPin, I: InputPin, L, D> BitBang<K, Separate<O, I>, L, D> {
    /// Four wires. `lines` are the chip selects ([`Lines`]), in the state in which no
    /// device listens. `delay` waits for half a clock's period, again and again.
    pub const fn new(clock: K, out: O, input: I, lines: L, delay: D) -> Self {
        Self::on(clock, Separate { out, input }, lines, delay)
    }
}

impl<K, P: OutputPin + InputPin, L, D> BitBang<K, Shared<P>, L, D> {
    /// Three wires: `data` has an open drain and a pull-up, and goes both ways. The
    /// rest is as with [`new`](BitBang::new); devices have
    /// [`Wires::Three`].
    pub const fn three_wire(clock: K, data: P, lines: L, delay: D) -> Self {
        Self::on(clock, Shared(data), lines, delay)
    }
}

impl<K, W, L, D> BitBang<K, W, L, D> {
    const fn on(clock: K, data: W, lines: L, delay: D) -> Self {
        Self {
            clock,
            data,
            lines,
            delay,
            mode: Mode::Mode0,
            order: BitOrder::MsbFirst,
            word: WordSize::Bits8,
            select: Select::None,
            half: 0,
        }
    }
}

impl<K: OutputPin, W: Data, L, D: DelayNs> BitBang<K, W, L, D> {
    /// A word out, a word in.
    fn exchange(&mut self, word: u32) -> Result<u32, Fault> {
        let bits = self.word.bits();
        let mut came = 0;
        for index in 0..bits {
            let bit = match self.order {
                BitOrder::MsbFirst => bits - 1 - index,
                BitOrder::LsbFirst => index,
            };
            let level = self.bit(word >> bit & 1)?;
            came |= u32::from(level) << bit;
        }
        Ok(came)
    }

    /// A clock: away from where it rests, and back. What is not sampled on an edge is
    /// put out on it.
    fn bit(&mut self, bit: u32) -> Result<bool, Fault> {
        let (away, back) = match self.mode.idles_high() {
            true => (PinState::Low, PinState::High),
            false => (PinState::High, PinState::Low),
        };
        let put = PinState::from(bit != 0);
        if self.mode.samples_second() {
            pin(self.clock.set_state(away))?;
            self.data.put(put)?;
            self.delay.delay_ns(self.half);
            pin(self.clock.set_state(back))?;
            let level = self.data.is_high()?;
            self.delay.delay_ns(self.half);
            Ok(level)
        } else {
            self.data.put(put)?;
            self.delay.delay_ns(self.half);
            pin(self.clock.set_state(away))?;
            let level = self.data.is_high()?;
            self.delay.delay_ns(self.half);
            pin(self.clock.set_state(back))?;
            Ok(level)
        }
    }
}

/// A pin that cannot be moved is a bus that does not work.
fn pin<T, E>(moved: Result<T, E>) -> Result<T, Fault> {
    moved.map_err(|_| Fault::Bus(ErrorKind::Other))
}

impl<K, W, L, D> Controller for BitBang<K, W, L, D>
where
    K: OutputPin,
    W: Data,
    L: Lines,
    D: DelayNs,
{
    fn capabilities(&self) -> Capabilities {
        let capabilities = Capabilities::least(L::COUNT)
            .modes(&Mode::ALL)
            .words(&WordSize::ALL)
            .with_lsb_first()
            .with_active_high();
        match W::WIRES {
            Wires::Four => capabilities,
            Wires::Three => capabilities.only_three_wires(),
        }
    }

    fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
        self.mode = wire.mode;
        self.order = wire.order;
        self.word = wire.word;
        self.select = wire.select;
        let half = 500_000_000_u32.div_ceil(wire.clock.max(1));
        self.half = half;
        pin(self.clock.set_state(PinState::from(wire.mode.idles_high())))?;
        Ok(wire.clock)
    }

    fn select(&mut self, level: Level) -> Result<(), Fault> {
        lines::set(&mut self.lines, self.select, level)
    }

    /// All at once: pins are never waited for, however slow they are.
    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        // The device has the wire.
        let released = W::WIRES == Wires::Three && words.directions() == Directions::In;
        while let Some(word) = words.next_word() {
            let word = if released { u32::MAX } else { word };
            let came = self.exchange(word)?;
            words.receive(came);
        }
        Ok(Progress::Done)
    }

    fn abort(&mut self) {
        // The line must move. If it does not, there is nothing else to be done.
        let _ = self.select(Level::Released);
        let _ = self.clock.set_state(PinState::from(self.mode.idles_high()));
    }
}

impl<K, W, L, D> AsyncController for BitBang<K, W, L, D>
where
    K: OutputPin,
    W: Data,
    L: Lines,
    D: DelayNs,
{
}
