//! Common parts of the controllers on embedded-hal buses.

use embedded_hal::spi::{Mode, Operation};
use nostall_io::Nanos;

use super::lines::{self, Lines};
use crate::capabilities::Capabilities;
use crate::controller::Level;
use crate::error::Fault;
use crate::settings::{Select, Wire};
use crate::twins::{awaited, blocked};
use crate::words::Words;

/// Clock, mode and sleep of a bus `B`, which embedded-hal's `SpiBus` traits do not cover.
///
/// Implement it for a type of your own, with the functions of the bus's HAL. For a bus whose
/// settings are made elsewhere, its clock and mode suffice: `(8_000_000, MODE_0)`.
pub trait Configure<B> {
    /// Returns the possible settings, with `lines` chip-select lines:
    /// [`Capabilities::least`] and more modes or clocks. Words have 8 bits.
    fn capabilities(&self, lines: u8) -> Capabilities;

    /// Sets the bus. Returns the actual clock in hertz; with 0, the message is refused. Called when
    /// and as [`Controller::set`](crate::Controller::set) is: after a change, an abort, a sleep or a new
    /// controller, with no device selected. It cannot wait for the bus.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the settings are not possible.
    fn configure(&mut self, bus: &mut B, wire: &Wire) -> Result<u32, Fault>;

    /// Wakes the bus: clocks, power, pins, DMA. Called when and as
    /// [`Controller::prepare`](crate::Controller::prepare) is. By default, the bus is always awake.
    /// The bus's `flush` works afterwards, and [`configure`](Self::configure) follows.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the bus does not wake. The message is not run; the next one tries again.
    fn prepare(&mut self, _bus: &mut B) -> Result<(), Fault> {
        Ok(())
    }

    /// Puts the bus to sleep, until [`prepare`](Self::prepare). By default, it stays awake.
    fn unprepare(&mut self, _bus: &mut B) {}
}

/// A bus that keeps its clock, in hertz, and its mode. A device with another mode, or that allows
/// only a slower clock, is refused.
impl<B> Configure<B> for (u32, Mode) {
    fn capabilities(&self, lines: u8) -> Capabilities {
        let capabilities = Capabilities::least(lines).modes(&[self.1]);
        capabilities.slowest(self.0).fastest(self.0)
    }

    fn configure(&mut self, _bus: &mut B, _wire: &Wire) -> Result<u32, Fault> {
        Ok(self.0)
    }
}

/// A bus, its chip-select lines, and their state.
#[derive(Debug)]
pub(super) struct Parts<B, L, K> {
    pub(super) bus: B,
    pub(super) lines: L,
    settings: K,
    select: Select,
    /// Actual clock in hertz.
    rate: u32,
    /// A transfer was aborted, and its words may still be in the FIFO.
    stale: bool,
}

impl<B, L, K> Parts<B, L, K> {
    pub(super) const fn new(bus: B, lines: L, settings: K) -> Self {
        Self {
            bus,
            lines,
            settings,
            select: Select::None,
            rate: 1,
            stale: false,
        }
    }
}

#[inline]
pub(super) fn fault<E: embedded_hal::spi::Error>(error: E) -> Fault {
    Fault::Bus(error.kind())
}

impl<B, L: Lines, K: Configure<B>> Parts<B, L, K> {
    /// Returns the capabilities of the settings. The pins have either polarity.
    pub(super) fn capabilities(&self) -> Capabilities {
        self.settings.capabilities(L::COUNT).with_active_high()
    }

    pub(super) fn prepare(&mut self) -> Result<(), Fault> {
        self.settings.prepare(&mut self.bus)
    }

    pub(super) fn unprepare(&mut self) {
        self.settings.unprepare(&mut self.bus);
    }

    /// Sets the bus. Flushes it first after an aborted transfer.
    pub(super) fn set(&mut self, wire: &Wire) -> Result<u32, Fault>
    where
        B: embedded_hal::spi::SpiBus,
    {
        if self.stale {
            self.bus.flush().map_err(fault)?;
        }
        self.set_flushed(wire)
    }

    /// Does the same, asynchronously.
    pub(super) async fn set_awaited(&mut self, wire: &Wire) -> Result<u32, Fault>
    where
        B: embedded_hal_async::spi::SpiBus,
    {
        if self.stale {
            self.bus.flush().await.map_err(fault)?;
        }
        self.set_flushed(wire)
    }

    fn set_flushed(&mut self, wire: &Wire) -> Result<u32, Fault> {
        self.stale = false;
        self.select = wire.select;
        self.rate = self.settings.configure(&mut self.bus, wire)?;
        Ok(self.rate)
    }

    /// Returns the time of `words` 8-bit words on the wire.
    pub(super) fn time_of(&self, words: usize) -> Nanos {
        Nanos::from_secs(words as u64 * 8) / u64::from(self.rate)
    }

    #[inline]
    pub(super) fn select(&mut self, level: Level) -> Result<(), Fault> {
        lines::set(&mut self.lines, self.select, level)
    }

    pub(super) fn abort(&mut self) -> Result<(), Fault> {
        self.stale = true;
        self.select(Level::Released)
    }
}

/// Moves all words, and returns when the last bit is sent. `$wait!` blocks or awaits.
macro_rules! move_words {
    ($bus:ident, $words:ident, $wait:ident) => {{
        let fill = $words.fill();
        match $words.operation() {
            Operation::Write(bytes) => $wait!($bus.write(bytes)),
            Operation::Read(into) => {
                into.fill(fill);
                $wait!($bus.transfer_in_place(into))
            }
            Operation::Transfer(read, write) if read.len() > write.len() => {
                let (both, rest) = read.split_at_mut(write.len());
                rest.fill(fill);
                $wait!($bus.transfer(both, write)).map_err(fault)?;
                $wait!($bus.transfer_in_place(rest))
            }
            Operation::Transfer(read, write) => $wait!($bus.transfer(read, write)),
            Operation::TransferInPlace(bytes) => $wait!($bus.transfer_in_place(bytes)),
            Operation::DelayNs(_) => Ok(()),
        }
        .map_err(fault)?;
        // The last bit must be sent before a line changes.
        $wait!($bus.flush()).map_err(fault)?;
        $words.complete();
        Ok(())
    }};
}

#[inline]
pub(super) fn move_words<B: embedded_hal::spi::SpiBus>(
    bus: &mut B,
    words: &mut Words<'_>,
) -> Result<(), Fault> {
    move_words!(bus, words, blocked)
}

/// Does the same, asynchronously.
pub(super) async fn move_words_awaited<B: embedded_hal_async::spi::SpiBus>(
    bus: &mut B,
    words: &mut Words<'_>,
) -> Result<(), Fault> {
    move_words!(bus, words, awaited)
}
