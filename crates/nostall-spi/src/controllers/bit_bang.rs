//! Four pins, moved by the CPU.

use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{InputPin, OutputPin, PinState};
use embedded_hal::spi::ErrorKind;
use nostall_io::Nanos;

use crate::capabilities::Capabilities;
use crate::controller::{Controller, Level, Progress};
use crate::error::Fault;
use crate::settings::{BitOrder, Mode, Polarity, Select, Wire, WordSize};
use crate::words::Words;

/// Words that are moved before the bus looks whether all is well.
const AT_ONCE: usize = 16;

/// A controller of output pins for clock, data and chip selects, and an input pin.
///
/// All modes, either bit first, words of 8, 16 and 32 bits. The clock is what `D`
/// makes of half a period, and no faster.
#[derive(Debug)]
pub struct BitBang<K, O, I, S, D, const LINES: usize> {
    clock: K,
    out: O,
    input: I,
    lines: [S; LINES],
    delay: D,
    mode: Mode,
    order: BitOrder,
    word: WordSize,
    select: Select,
    /// Nanoseconds.
    half: u32,
}

impl<K, O, I, S, D, const LINES: usize> BitBang<K, O, I, S, D, LINES>
where
    K: OutputPin,
    O: OutputPin,
    I: InputPin,
    S: OutputPin,
    D: DelayNs,
{
    /// `lines` are the chip selects, numbered from 0, and in the state in which no
    /// device listens. `delay` waits for half a clock's period, again and again.
    pub const fn new(clock: K, out: O, input: I, lines: [S; LINES], delay: D) -> Self {
        Self {
            clock,
            out,
            input,
            lines,
            delay,
            mode: Mode::Mode0,
            order: BitOrder::MsbFirst,
            word: WordSize::Bits8,
            select: Select::None,
            half: 0,
        }
    }

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
            pin(self.out.set_state(put))?;
            self.delay.delay_ns(self.half);
            pin(self.clock.set_state(back))?;
            let level = pin(self.input.is_high())?;
            self.delay.delay_ns(self.half);
            Ok(level)
        } else {
            pin(self.out.set_state(put))?;
            self.delay.delay_ns(self.half);
            pin(self.clock.set_state(away))?;
            let level = pin(self.input.is_high())?;
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

impl<K, O, I, S, D, const LINES: usize> Controller for BitBang<K, O, I, S, D, LINES>
where
    K: OutputPin,
    O: OutputPin,
    I: InputPin,
    S: OutputPin,
    D: DelayNs,
{
    fn capabilities(&self) -> Capabilities {
        Capabilities::least(u8::try_from(LINES).unwrap_or(u8::MAX))
            .modes(&Mode::ALL)
            .words(&WordSize::ALL)
            .with_lsb_first()
            .with_active_high()
    }

    fn set(&mut self, wire: &Wire) -> Result<(), Fault> {
        self.mode = wire.mode;
        self.order = wire.order;
        self.word = wire.word;
        self.select = wire.select;
        let half = 500_000_000_u32.div_ceil(wire.clock.max(1));
        self.half = half;
        pin(self.clock.set_state(PinState::from(wire.mode.idles_high())))
    }

    fn select(&mut self, level: Level) -> Result<(), Fault> {
        let Select::Line(number, polarity) = self.select else {
            return Ok(());
        };
        let line = self.lines.get_mut(usize::from(number));
        let asserted = level == Level::Asserted;
        let high = asserted == (polarity == Polarity::ActiveHigh);
        pin(line.ok_or(Fault::Refused)?.set_state(PinState::from(high)))
    }

    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        for _ in 0..AT_ONCE {
            let Some(word) = words.next_word() else {
                break;
            };
            let came = self.exchange(word)?;
            words.receive(came);
        }
        Ok(match words.is_complete() {
            true => Progress::Done,
            false => Progress::After(Nanos::ZERO),
        })
    }

    fn abort(&mut self) {
        // Whatever comes of it: the line must move, and nobody could do more.
        let _ = self.select(Level::Released);
        let _ = self.clock.set_state(PinState::from(self.mode.idles_high()));
    }
}
