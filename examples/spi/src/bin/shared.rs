//! Two threads share an SPI bus: one blocks, one awaits.
//!
//!     cargo run --manifest-path examples/spi/Cargo.toml --bin shared

use std::sync::LazyLock;
use std::thread;

use nostall_spi::controllers::Loopback;
use nostall_spi::{Bus, Error, Settings, Threads};

/// The input of this controller is its output. Replace it with yours.
static BUS: LazyLock<Bus<Loopback, Threads>> = LazyLock::new(|| Bus::new(Loopback, Threads::new()));

const MESSAGES: usize = 1000;

/// A driver for `embedded-hal`.
fn blocking(mut device: impl embedded_hal::spi::SpiDevice<Error = Error>) -> Result<(), Error> {
    for _ in 0..MESSAGES {
        let mut bytes = *b"blocking";
        device.transfer_in_place(&mut bytes)?;
        assert_eq!(&bytes, b"blocking");
    }
    Ok(())
}

/// A driver for `embedded-hal-async`.
async fn awaited(
    mut device: impl embedded_hal_async::spi::SpiDevice<Error = Error>,
) -> Result<(), Error> {
    for _ in 0..MESSAGES {
        let mut bytes = *b"awaited";
        device.transfer_in_place(&mut bytes).await?;
        assert_eq!(&bytes, b"awaited");
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let flash = BUS.device(Settings::new(8_000_000, 0))?;
    let display = BUS.device(Settings::new(1_000_000, 1))?;
    let thread = thread::spawn(|| blocking(flash));
    pollster::block_on(awaited(display))?;
    thread.join().expect("the driver's thread must not panic")?;
    let counted = BUS.statistics();
    println!("{} messages, {} errors", counted.messages, counted.errors);
    Ok(())
}
