//! Bare metal: the bus in a static, and a message submitted from an interrupt handler.
//! On a board: `scripts/spi-bare-metal` runs its sibling on QEMU's lm3s6965evb.
//!
//!     cargo run -p nostall-spi --features std --example bare_metal

use nostall_io::{Clock, Nanos};
use nostall_spi::controllers::Loopback;
use nostall_spi::{Bare, Bus, Completed, Config, Select, Settings, Transfer};

/// The chip's free-running counter; or `DelayClock::new(delay)` of the HAL's delay.
struct Timer;

impl Clock for Timer {
    fn now(&self) -> Nanos {
        Nanos(0) // systick, mtime, ...
    }
}

// In place of Loopback: `Hal::new(spi, (flash_pin, radio_pin))`.
static BUS: Bus<Loopback, Bare<Timer>, 4, 2, 16> = Bus::new(Loopback, Bare(Timer), Config::DEFAULT);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let flash = BUS.device(Settings::new(20_000_000, Select::line(0)))?;
    let radio = BUS.device(Settings::new(8_000_000, Select::line(1)))?;
    // The main loop's own message, from its own memory.
    let mut id = [0; 3];
    flash.write_then_read(&[0x9f], &mut id)?;
    // In the radio's interrupt handler.
    radio.submit_then(&mut [Transfer::in_place(&mut [0x07, 0])], &on_status, 0)?;
    // In the main loop: runs it, and lets the hardware sleep.
    BUS.poll(Timer.now());
    Ok(())
}

/// Called by the owner of the bus: it must be short, and must not wait.
fn on_status(completed: Completed<'_>) {
    println!("status: {:02x?}", completed.received(0));
}
