//! embedded-hal's bus and output pins as a controller.

use embedded_hal::digital::OutputPin;
use embedded_hal::spi::{Error as _, ErrorKind, ErrorType, SpiBus};

use crate::capabilities::Capabilities;
use crate::controller::{Controller, Level, Progress};
use crate::error::Fault;
use crate::settings::{Polarity, Select, Settings, Wire};
use crate::transfer::Buffers;
use crate::words::Words;

/// What embedded-hal's [`SpiBus`] does not have: to be set to a mode and a clock.
///
/// Implemented for the bus of a chip, by whoever has its driver; or the bus is taken
/// as it [is](Fixed).
pub trait Configure {
    /// What can be set, with so many chip-select lines of either polarity. Words are
    /// of 8 bits.
    fn capabilities(&self, lines: u8) -> Capabilities;

    /// Sets it.
    ///
    /// # Errors
    ///
    /// [`Fault`] if that cannot be done.
    fn configure(&mut self, wire: &Wire) -> Result<(), Fault>;
}

/// A bus that is set already, and stays so: messages that need anything else are
/// refused.
#[derive(Clone, Copy, Debug)]
pub struct Fixed<B> {
    bus: B,
    settings: Settings,
}

impl<B> Fixed<B> {
    /// `bus` is set to the mode, the bit order and the clock of `settings`.
    pub const fn new(bus: B, settings: Settings) -> Self {
        Self { bus, settings }
    }

    /// The bus.
    pub fn release(self) -> B {
        self.bus
    }
}

impl<B: ErrorType> ErrorType for Fixed<B> {
    type Error = B::Error;
}

impl<B: SpiBus> SpiBus for Fixed<B> {
    #[inline]
    fn read(&mut self, words: &mut [u8]) -> Result<(), B::Error> {
        self.bus.read(words)
    }
    #[inline]
    fn write(&mut self, words: &[u8]) -> Result<(), B::Error> {
        self.bus.write(words)
    }
    #[inline]
    fn transfer(&mut self, read: &mut [u8], write: &[u8]) -> Result<(), B::Error> {
        self.bus.transfer(read, write)
    }
    #[inline]
    fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), B::Error> {
        self.bus.transfer_in_place(words)
    }
    #[inline]
    fn flush(&mut self) -> Result<(), B::Error> {
        self.bus.flush()
    }
}

impl<B> Configure for Fixed<B> {
    fn capabilities(&self, lines: u8) -> Capabilities {
        let capabilities = Capabilities::least(lines)
            .modes(&[self.settings.mode])
            .slowest(self.settings.clock)
            .with_active_high();
        match self.settings.order {
            crate::BitOrder::MsbFirst => capabilities,
            crate::BitOrder::LsbFirst => capabilities.with_lsb_first(),
        }
    }

    fn configure(&mut self, wire: &Wire) -> Result<(), Fault> {
        let same = wire.mode == self.settings.mode && wire.order == self.settings.order;
        same.then_some(()).ok_or(Fault::Refused)
    }
}

/// A controller of embedded-hal's parts: a bus, and an output pin for each
/// chip-select line.
#[derive(Debug)]
pub struct Hal<B, P, const LINES: usize> {
    bus: B,
    pins: [P; LINES],
    select: Select,
}

impl<B: SpiBus + Configure, P: OutputPin, const LINES: usize> Hal<B, P, LINES> {
    /// `pins` are the lines, numbered from 0, and in the state in which no device
    /// listens. At most 255.
    pub const fn new(bus: B, pins: [P; LINES]) -> Self {
        Self {
            bus,
            pins,
            select: Select::None,
        }
    }

    /// The parts.
    pub fn release(self) -> (B, [P; LINES]) {
        (self.bus, self.pins)
    }

    #[inline]
    fn drive(&mut self, level: Level) -> Result<(), Fault> {
        let Select::Line(number, polarity) = self.select else {
            return Ok(());
        };
        let pin = self.pins.get_mut(usize::from(number));
        let pin = pin.ok_or(Fault::Refused)?;
        let driven = match (level, polarity) {
            (Level::Asserted, Polarity::ActiveHigh) | (Level::Released, Polarity::ActiveLow) => {
                pin.set_high()
            }
            _ => pin.set_low(),
        };
        driven.map_err(|_| Fault::Bus(ErrorKind::ChipSelectFault))
    }
}

impl<B: SpiBus + Configure, P: OutputPin, const LINES: usize> Controller for Hal<B, P, LINES> {
    fn capabilities(&self) -> Capabilities {
        self.bus
            .capabilities(u8::try_from(LINES).unwrap_or(u8::MAX))
    }

    fn set(&mut self, wire: &Wire) -> Result<(), Fault> {
        self.select = wire.select;
        self.bus.configure(wire)
    }

    #[inline]
    fn select(&mut self, level: Level) -> Result<(), Fault> {
        self.drive(level)
    }

    /// All at once: `SpiBus` waits. What is sent where there is nothing to send is
    /// the bus's own choice.
    #[inline]
    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        let bus = &mut self.bus;
        let moved = match words.buffers() {
            Buffers::Write(bytes) => bus.write(bytes),
            Buffers::Read(into) => bus.read(into),
            Buffers::Both { write, read } => bus.transfer(read, write),
            Buffers::InPlace(bytes) => bus.transfer_in_place(bytes),
        };
        // The last bit must be out before a line moves.
        moved
            .and_then(|()| bus.flush())
            .map_err(|error| Fault::Bus(error.kind()))?;
        words.complete();
        Ok(Progress::Done)
    }

    fn abort(&mut self) {
        // Whatever comes of it: the line must move, and nobody could do more.
        let _ = self.bus.flush();
        let _ = self.drive(Level::Released);
    }
}
