//! A Linux board: reads the JEDEC identity of a serial flash with spidev.
//!
//!     cargo run -p nostall-spi --features spidev --example spidev -- /dev/spidev0.0

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("which? /dev/spidev0.0")?;
    identify(&path)
}

#[cfg(target_os = "linux")]
fn identify(path: &str) -> Result<(), Box<dyn Error>> {
    use nostall_spi::controllers::Spidev;
    use nostall_spi::{Bus, Settings, Threads};

    let controller = Spidev::open(path)?;
    let bus = Bus::new(controller, Threads::new());
    // The file selects one chip-select line, which has number 0 here.
    let flash = bus.device(Settings::new(10_000_000, 0))?;
    let mut id = [0; 3];
    flash.write_then_read(&[0x9f], &mut id)?;
    println!("{id:02x?}");
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn identify(_path: &str) -> Result<(), Box<dyn Error>> {
    Err("spidev exists only on Linux".into())
}
