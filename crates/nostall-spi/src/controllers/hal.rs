//! embedded-hal's blocking bus and output pins as a controller.

use embedded_hal::spi::{ErrorType, Operation, SpiBus};

use super::async_hal::move_words;
use super::lines::{self, Lines};
use crate::capabilities::Capabilities;
use crate::controller::{AsyncController, Controller, Level, Progress, Waits};
use crate::error::Fault;
use crate::settings::{Select, Settings, Wire};
use crate::words::Words;

/// Configuration of a bus, which embedded-hal's [`SpiBus`] and its asynchronous twin leave
/// out.
///
/// Implemented for the bus of a chip; or the bus is taken as it [is](Fixed).
pub trait Configure {
    /// The settings that can be had, with so many chip-select lines of either polarity.
    /// Words have 8 bits.
    fn capabilities(&self, lines: u8) -> Capabilities;

    /// Sets the bus, and returns the clock that was set, in hertz.
    ///
    /// # Errors
    ///
    /// [`Fault`] if that cannot be done.
    fn configure(&mut self, wire: &Wire) -> Result<u32, Fault>;
}

/// A bus that is set already, and stays so: messages that need anything else are refused.
#[derive(Clone, Copy, Debug)]
pub struct Fixed<B> {
    bus: B,
    settings: Settings,
}

impl<B> Fixed<B> {
    /// Takes a bus that is set to the mode, the bit order and the clock of `settings`.
    pub const fn new(bus: B, settings: Settings) -> Self {
        Self { bus, settings }
    }

    /// Gives the bus back.
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

impl<B: embedded_hal_async::spi::SpiBus> embedded_hal_async::spi::SpiBus for Fixed<B> {
    async fn read(&mut self, words: &mut [u8]) -> Result<(), B::Error> {
        self.bus.read(words).await
    }
    async fn write(&mut self, words: &[u8]) -> Result<(), B::Error> {
        self.bus.write(words).await
    }
    async fn transfer(&mut self, read: &mut [u8], write: &[u8]) -> Result<(), B::Error> {
        self.bus.transfer(read, write).await
    }
    async fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), B::Error> {
        self.bus.transfer_in_place(words).await
    }
    async fn flush(&mut self) -> Result<(), B::Error> {
        self.bus.flush().await
    }
}

impl<B> Configure for Fixed<B> {
    fn capabilities(&self, lines: u8) -> Capabilities {
        let capabilities = Capabilities::least(lines)
            .modes(&[self.settings.mode])
            .slowest(self.settings.clock)
            .fastest(self.settings.clock)
            .with_active_high();
        match self.settings.order {
            crate::BitOrder::MsbFirst => capabilities,
            crate::BitOrder::LsbFirst => capabilities.with_lsb_first(),
        }
    }

    fn configure(&mut self, wire: &Wire) -> Result<u32, Fault> {
        let same = wire.mode == self.settings.mode && wire.order == self.settings.order;
        same.then_some(self.settings.clock).ok_or(Fault::Refused)
    }
}

/// A controller made of embedded-hal's parts: a blocking bus, and chip-select [`Lines`].
///
/// It is an [`AsyncController`] if the bus has the asynchronous face too; a transfer's future
/// must stop the DMA when it is dropped. [`AsyncHal`](super::AsyncHal) takes a bus with that
/// face alone.
#[derive(Debug)]
pub struct Hal<B, L> {
    bus: B,
    lines: L,
    select: Select,
    /// A transfer was given up, and may still be in the FIFO.
    stale: bool,
}

impl<B: SpiBus + Configure, L: Lines> Hal<B, L> {
    /// `lines` are in the state in which no device listens.
    pub const fn new(bus: B, lines: L) -> Self {
        Self {
            bus,
            lines,
            select: Select::None,
            stale: false,
        }
    }

    /// Gives the parts back.
    pub fn release(self) -> (B, L) {
        (self.bus, self.lines)
    }
}

#[inline]
pub(super) fn fault<E: embedded_hal::spi::Error>(error: E) -> Fault {
    Fault::Bus(error.kind())
}

impl<B: SpiBus + Configure, L: Lines> Controller for Hal<B, L> {
    fn capabilities(&self) -> Capabilities {
        self.bus.capabilities(L::COUNT)
    }

    fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
        if self.stale {
            self.bus.flush().map_err(fault)?;
            self.stale = false;
        }
        self.select = wire.select;
        self.bus.configure(wire)
    }

    #[inline]
    fn select(&mut self, level: Level) -> Result<(), Fault> {
        lines::set(&mut self.lines, self.select, level)
    }

    /// All at once: `SpiBus` waits.
    #[inline]
    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        let fill = words.fill();
        let bus = &mut self.bus;
        let moved = match words.operation() {
            Operation::Write(bytes) => bus.write(bytes),
            Operation::Read(into) => {
                into.fill(fill);
                bus.transfer_in_place(into)
            }
            Operation::Transfer(read, write) if read.len() > write.len() => {
                let (both, rest) = read.split_at_mut(write.len());
                rest.fill(fill);
                bus.transfer(both, write)
                    .and_then(|()| bus.transfer_in_place(rest))
            }
            Operation::Transfer(read, write) => bus.transfer(read, write),
            Operation::TransferInPlace(bytes) => bus.transfer_in_place(bytes),
            Operation::DelayNs(_) => Ok(()),
        };
        // The last bit must be out before a line moves.
        moved.and_then(|()| bus.flush()).map_err(fault)?;
        words.complete();
        Ok(Progress::Done)
    }

    fn abort(&mut self) {
        self.stale = true;
        // The line must move. If it does not, there is nothing else to be done.
        let _ = self.select(Level::Released);
    }
}

impl<B, L> AsyncController for Hal<B, L>
where
    B: SpiBus + embedded_hal_async::spi::SpiBus + Configure,
    L: Lines,
{
    async fn set_async(&mut self, wire: &Wire) -> Result<u32, Fault> {
        if self.stale {
            let flush = embedded_hal_async::spi::SpiBus::flush(&mut self.bus);
            flush.await.map_err(fault)?;
            self.stale = false;
        }
        self.set(wire)
    }

    fn transfer_async(
        &mut self,
        words: &mut Words<'_>,
        _waits: &impl Waits,
    ) -> impl Future<Output = Result<(), Fault>> {
        move_words(&mut self.bus, words)
    }
}
