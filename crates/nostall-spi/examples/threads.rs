//! Two drivers of others share a bus: a flash and a display, each on a thread.
//!
//!     cargo run -p nostall-spi --features std --example threads

use std::thread;

use embedded_hal::spi::SpiDevice;
use nostall_spi::controllers::Loopback;
use nostall_spi::{Bus, Config, Select, Settings, Threads, Worker};

/// A driver that knows nothing of nostall.
fn draw<D: SpiDevice>(display: &mut D, line: u8) -> Result<(), D::Error> {
    display.write(&[0x2c, line])?;
    display.write(&[line; 320])
}

// In place of Loopback: controllers::Spidev, Hal, Sifive, or your own.
static BUS: std::sync::LazyLock<Bus<Loopback, Threads>> =
    std::sync::LazyLock::new(|| Bus::new(Loopback, Threads::new(), Config::DEFAULT));

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut flash = BUS.device(Settings::new(20_000_000, Select::line(0)))?;
    let mut display = BUS.device(Settings::new(40_000_000, Select::line(1)))?;
    // Puts the hardware to sleep when the bus has been idle for a second.
    let worker = Worker::start(&BUS)?;
    let draws = thread::spawn(move || (0..100).try_for_each(|line| draw(&mut display, line)));
    let mut id = [0x9f, 0, 0, 0];
    for _ in 0..1000 {
        flash.transfer_in_place(&mut id)?;
    }
    draws.join().map_err(|_| "the drawing thread panicked")??;
    drop(worker);
    println!("{id:02x?} {:?}", BUS.statistics());
    Ok(())
}
