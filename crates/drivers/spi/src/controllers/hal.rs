//! Controller on embedded-hal's blocking bus and output pins.

use embedded_hal::spi::{Mode, SpiBus};

use super::lines::Lines;
use super::parts::{Configure, Parts, move_words, move_words_awaited};
use crate::capabilities::Capabilities;
use crate::controller::{AsyncController, Controller, Level, Progress, Waits};
use crate::error::Fault;
use crate::settings::Wire;
use crate::words::Words;

/// Controller on a blocking embedded-hal bus and chip-select [`Lines`].
///
/// ```
/// use embedded_hal::{digital::OutputPin, spi::SpiBus};
/// use nostall_io::Clock;
/// use nostall_spi::controllers::Hal;
/// use nostall_spi::{Bare, Bus, MODE_0, Settings};
///
/// fn run(
///     spi: impl SpiBus,
///     pins: [impl OutputPin; 2],
///     timer: impl Clock,
/// ) -> Result<(), Box<dyn std::error::Error>> {
///     let bus = Bus::new(Hal::new(spi, pins, (8_000_000, MODE_0)), Bare(timer));
///     let flash = bus.device(Settings::new(20_000_000, 0))?; // runs at the bus's 8 MHz
///     let sensor = bus.device(Settings::new(8_000_000, 1))?; // a slower one is refused
///     flash.write(&[0x9f])?;
///     sensor.write(&[0x20, 0x57])?;
///     Ok(())
/// }
/// ```
///
/// In a `static`, its type is `Hal<Spi, [Pin; 2]>`.
///
/// It is an [`AsyncController`] if the bus also has the asynchronous interface; then a transfer's
/// future must stop the DMA when it is dropped. [`AsyncHal`](super::AsyncHal) takes a bus that has
/// only the asynchronous interface.
///
/// A blocking transfer ends when the bus's method returns: it has no time limit. `SpiBus::read` is
/// not called: to receive only, `transfer_in_place` sends [`Settings::fill`](crate::Settings::fill).
/// embedded-hal has no method that puts the hardware to sleep: [`Configure::unprepare`] is one.
#[derive(Debug)]
pub struct Hal<B, L, K = (u32, Mode)>(Parts<B, L, K>);

impl<B: SpiBus, L: Lines, K: Configure<B>> Hal<B, L, K> {
    /// Creates the controller. `lines` must be in the state in which no device is selected.
    /// `settings` are the clock and mode of a bus that keeps them, and is always awake. Or they
    /// [`Configure`] the bus.
    pub const fn new(bus: B, lines: L, settings: K) -> Self {
        Self(Parts::new(bus, lines, settings))
    }

    /// Returns the bus and the lines. A bus that is awake stays so.
    pub fn release(self) -> (B, L) {
        (self.0.bus, self.0.lines)
    }
}

impl<B: SpiBus, L: Lines, K: Configure<B>> Controller for Hal<B, L, K> {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn prepare(&mut self) -> Result<(), Fault> {
        self.0.prepare()
    }

    fn unprepare(&mut self) {
        self.0.unprepare();
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

impl<B, L, K> AsyncController for Hal<B, L, K>
where
    B: SpiBus + embedded_hal_async::spi::SpiBus,
    L: Lines,
    K: Configure<B>,
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
