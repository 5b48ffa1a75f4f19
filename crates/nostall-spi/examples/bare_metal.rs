//! Bare metal: one thread, interrupt handlers, no allocator. The bus is a static.
//!
//!     cargo run -p nostall-spi --example bare_metal

use nostall_io::{Clock, Nanos};
use nostall_spi::controllers::Loopback;
use nostall_spi::{Bare, Bus, Completed, Config, Error, Part, Select, Settings, Transfer};

/// The chip's free-running counter.
struct SystemTimer;

impl Clock for SystemTimer {
    fn now(&self) -> Nanos {
        Nanos(0) // systick, mtime, ...
    }
}

// In place of Loopback: controllers::Sifive, BitBang, or any SpiBus by
// `Hal::new(bus, [select_flash, select_radio])`.
type Spi = Bus<Loopback, Bare<SystemTimer>, 4, 32>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bus = Spi::new(Loopback, Bare(SystemTimer), Config::DEFAULT);
    let flash = bus.device(Settings::new(20_000_000, Select::line(0)))?;
    let radio = bus.device(Settings::new(8_000_000, Select::line(1)))?;

    // The main loop's own: here and now, from its own memory.
    let mut id = [0; 3];
    flash.write_then_read(&[0x9f], &mut id)?;

    // The radio's interrupt handler: tries, and leaves it for later where it has
    // interrupted somebody who has the bus.
    let on_radio = || -> Result<(), Error> {
        let mut status = [0x07, 0];
        match radio.sync(&mut [Transfer::in_place(&mut status)]) {
            Err(Error::WouldBlock) => {
                radio.submit_then(&[Part::exchange(&[0x07, 0])], &on_status, 0)
            }
            result => result,
        }
    };
    on_radio()?;

    // And now and then, for what was submitted, and to let the hardware sleep.
    bus.poll(SystemTimer.now());
    println!("{:?}", bus.statistics());
    Ok(())
}

/// Called by whoever has run it: short, and it must not wait.
fn on_status(completed: Completed<'_>) {
    let _ = completed;
}
