//! A board's bus in a local variable of `main`, without an operating system.

use embedded_hal::{digital::OutputPin, spi::SpiBus};
use nostall_io::{Clock, Nanos};
use nostall_spi::controllers::{Configure, Hal};
use nostall_spi::{Bare, Bus, Config, Invalid, Settings};

/// Sends to two devices until one fails, with the bus, pins and timer of the board's HAL.
pub fn run<S: SpiBus>(
    spi: S,
    pins: [impl OutputPin; 2],
    clocked: impl Configure<S>,
    timer: impl Clock,
) -> Result<(), Invalid> {
    let idle_timeout = Nanos::from_millis(50);
    let config = Config {
        idle_timeout,
        ..Config::DEFAULT
    };
    let bus = Bus::new(Hal::new(spi, pins, clocked), Bare(timer)).with_config(config);
    let card = bus.device(Settings::new(400_000, 0))?; // each is an `SpiDevice`
    let display = bus.device(Settings::new(20_000_000, 1))?;
    while card.write(&[0xff; 10]).is_ok() && display.write(b"drawn").is_ok() {
        bus.poll(); // sends messages of interrupt handlers, puts an idle bus to sleep
    }
    Ok(())
}
