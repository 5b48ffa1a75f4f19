//! Fakes of a bus, a pin and a clock, without hardware.

use std::cell::Cell;
use std::convert::Infallible;
use std::hint::black_box;
use std::time::{Duration, Instant};

use embedded_hal::digital::{ErrorType as PinError, OutputPin};
use embedded_hal::spi::{ErrorType, MODE_0, Mode, SpiBus};
use nostall_io::{Clock, Nanos};
use nostall_spi::controllers::{AsyncHal, Hal};
use nostall_spi::{
    Bare, Bus, Capabilities, Config, Controller as Driver, Fault, Level, Platform, Progress,
    Settings, Wire, Words,
};

/// A bus whose transfers each take this time. With `None`, it neither waits nor reads a clock.
#[derive(Clone, Copy)]
pub struct Nowhere(pub Option<Duration>);

impl Nowhere {
    fn pass(&self, bytes: &[u8]) {
        black_box(bytes);
        if let Some(span) = self.0 {
            let start = Instant::now();
            while start.elapsed() < span {
                std::hint::spin_loop();
            }
        }
    }
}

impl ErrorType for Nowhere {
    type Error = Infallible;
}

impl SpiBus for Nowhere {
    fn read(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        self.pass(words);
        Ok(())
    }
    fn write(&mut self, words: &[u8]) -> Result<(), Infallible> {
        self.pass(words);
        Ok(())
    }
    fn transfer(&mut self, _read: &mut [u8], write: &[u8]) -> Result<(), Infallible> {
        self.pass(write);
        Ok(())
    }
    fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        self.pass(words);
        Ok(())
    }
    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// An asynchronous transfer is ready immediately.
impl embedded_hal_async::spi::SpiBus for Nowhere {
    async fn read(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        SpiBus::read(self, words)
    }
    async fn write(&mut self, words: &[u8]) -> Result<(), Infallible> {
        SpiBus::write(self, words)
    }
    async fn transfer(&mut self, read: &mut [u8], write: &[u8]) -> Result<(), Infallible> {
        SpiBus::transfer(self, read, write)
    }
    async fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        SpiBus::transfer_in_place(self, words)
    }
    async fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// The same bus as a driver with a FIFO sees it. The FIFO takes a whole message, and the CPU has no
/// work until the message is sent.
pub struct Fifo {
    transfer: Option<Duration>,
    through: Option<Instant>,
}

impl Fifo {
    pub const fn new(transfer: Option<Duration>) -> Self {
        Self {
            transfer,
            through: None,
        }
    }
}

impl Driver for Fifo {
    fn capabilities(&self) -> Capabilities {
        Capabilities::all(64)
    }
    fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
        Ok(wire.clock)
    }
    fn select(&mut self, _level: Level) -> Result<(), Fault> {
        Ok(())
    }
    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        if let Some(span) = self.transfer {
            let now = Instant::now();
            let through = *self.through.get_or_insert(now + span);
            if now < through {
                let left = (through - now).as_nanos();
                return Ok(Progress::After(Nanos(left as u64)));
            }
            self.through = None;
        }
        black_box(words.operation());
        words.complete();
        Ok(Progress::Done)
    }
    fn abort(&mut self) -> Result<(), Fault> {
        self.through = None;
        Ok(())
    }
}

/// A pin that only stores its state.
#[derive(Clone, Copy, Default)]
pub struct Pin(bool);

impl PinError for Pin {
    type Error = Infallible;
}

impl OutputPin for Pin {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.0 = black_box(false);
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        self.0 = black_box(true);
        Ok(())
    }
}

/// A clock that counts its reads.
#[derive(Default)]
pub struct Counted(Cell<u64>);

impl Counted {
    pub fn reads(&self) -> u64 {
        self.0.get()
    }

    /// Advances the clock.
    pub fn pass(&self, span: Nanos) {
        self.0.set(self.0.get() + span.0);
    }
}

impl Clock for Counted {
    fn now(&self) -> Nanos {
        self.0.set(self.0.get() + 1);
        Nanos(self.0.get())
    }
}

pub type Controller = Hal<Nowhere, [Pin; 64]>;

const FIXED: (u32, Mode) = (8_000_000, MODE_0);

/// Returns settings for a device at 8 MHz.
pub fn settings(line: u8) -> Settings {
    Settings::new(8_000_000, line)
}

/// Returns a bus on `Nowhere`, with lines for 64 devices.
pub fn bus<P: Platform>(
    transfer: Option<Duration>,
    platform: P,
    config: Config,
) -> Bus<Controller, P> {
    let hal = Hal::new(Nowhere(transfer), [Pin::default(); 64], FIXED);
    Bus::new(hal, platform).with_config(config)
}

/// Returns a bus for futures.
pub fn awaited() -> Bus<AsyncHal<Nowhere, [Pin; 64]>, Bare<Counted>> {
    let controller = AsyncHal::new(Nowhere(None), [Pin::default(); 64], FIXED);
    Bus::new(controller, Bare(Counted::default()))
}

/// Returns a bus for one thread.
pub fn bare() -> Bus<Controller, Bare<Counted>> {
    bus(None, Bare(Counted::default()), Config::DEFAULT)
}
