//! Controller on embedded-hal's blocking bus and output pins.

use embedded_hal::spi::{ErrorType, SpiBus};

use super::lines::Lines;
use super::parts::{Configure, Parts, move_words, move_words_awaited};
use crate::capabilities::Capabilities;
use crate::controller::{AsyncController, Controller, Level, Progress, Waits};
use crate::error::Fault;
use crate::settings::{Settings, Wire};
use crate::words::Words;

/// Bus with fixed settings. Messages that need other settings are refused.
#[derive(Clone, Copy, Debug)]
pub struct Fixed<B> {
    bus: B,
    settings: Settings,
}

impl<B> Fixed<B> {
    /// Creates the wrapper for a bus that has the mode, bit order and clock of `settings`.
    pub const fn new(bus: B, settings: Settings) -> Self {
        Self { bus, settings }
    }

    /// Returns the bus.
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

/// Controller on a blocking embedded-hal bus and chip-select [`Lines`].
///
/// It is an [`AsyncController`] if the bus also has the asynchronous interface; then a transfer's
/// future must stop the DMA when it is dropped. [`AsyncHal`](super::AsyncHal) takes a bus that has
/// only the asynchronous interface.
///
/// A blocking transfer ends when the bus's method returns: it has no time limit.
#[derive(Debug)]
pub struct Hal<B, L>(Parts<B, L>);

impl<B: SpiBus + Configure, L: Lines> Hal<B, L> {
    /// Creates the controller. `lines` must be in the state in which no device is selected.
    pub const fn new(bus: B, lines: L) -> Self {
        Self(Parts::new(bus, lines))
    }

    /// Returns the bus and the lines.
    pub fn release(self) -> (B, L) {
        (self.0.bus, self.0.lines)
    }
}

impl<B: SpiBus + Configure, L: Lines> Controller for Hal<B, L> {
    fn capabilities(&self) -> Capabilities {
        self.0.bus.capabilities(L::COUNT)
    }

    fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
        self.0.set(wire)
    }

    #[inline]
    fn select(&mut self, level: Level) -> Result<(), Fault> {
        self.0.select(level)
    }

    /// Moves all words in one call, because `SpiBus` blocks.
    #[inline]
    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        move_words(&mut self.0.bus, words).map(|()| Progress::Done)
    }

    fn abort(&mut self) -> Result<(), Fault> {
        self.0.abort()
    }
}

impl<B, L> AsyncController for Hal<B, L>
where
    B: SpiBus + embedded_hal_async::spi::SpiBus + Configure,
    L: Lines,
{
    fn set_async(&mut self, wire: &Wire) -> impl Future<Output = Result<u32, Fault>> {
        self.0.set_awaited(wire)
    }

    fn transfer_async(
        &mut self,
        words: &mut Words<'_>,
        _waits: &impl Waits,
    ) -> impl Future<Output = Result<(), Fault>> {
        move_words_awaited(&mut self.0.bus, words)
    }
}
