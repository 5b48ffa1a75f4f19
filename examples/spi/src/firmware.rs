//! A board's bus in a local variable of `main`, without an operating system.

use embedded_hal::{digital::OutputPin, spi::SpiBus};
use nostall_io::Clock;
use nostall_spi::controllers::Hal;
use nostall_spi::{Bare, Bus, Invalid, MODE_0, Settings};

/// Sends to two devices until one fails, with the bus, pins and timer of the board's HAL.
pub fn run(spi: impl SpiBus, pins: [impl OutputPin; 2], timer: impl Clock) -> Result<(), Invalid> {
    let bus = Bus::new(Hal::new(spi, pins, (400_000, MODE_0)), Bare(timer));
    let card = bus.device(Settings::new(400_000, 0))?; // each is an `SpiDevice`
    let display = bus.device(Settings::new(20_000_000, 1))?;
    while card.write(&[0xff; 10]).is_ok() && display.write(b"drawn").is_ok() {
        bus.poll(); // sends messages of interrupt handlers
    }
    Ok(())
}
