//! Embassy's executor: two drivers of others share a bus, awaited.
//!
//!     cargo run -p nostall-spi --features embassy-time --example executor

use embassy_executor::Spawner;
use embassy_time as _; // its driver
use embedded_hal_async::spi::SpiDevice;
use nostall_spi::controllers::Loopback;
use nostall_spi::{Bus, Config, Device, Embassy, Select, Settings};

// In place of Loopback: `Hal::new(spi, (flash_pin, display_pin))`.
static BUS: Bus<Loopback, Embassy> = Bus::new(Loopback, Embassy, Config::DEFAULT);

/// A driver that knows nothing of nostall.
async fn identify<D: SpiDevice>(flash: &mut D) -> Result<[u8; 4], D::Error> {
    let mut id = [0x9f, 0, 0, 0];
    flash.transfer_in_place(&mut id).await?;
    Ok(id)
}

#[embassy_executor::task]
async fn draw(mut display: Device<'static, Loopback, Embassy>) {
    for line in 0..100 {
        let drawn = SpiDevice::write(&mut display, &[line; 320]).await;
        drawn.expect("the display is there");
    }
    println!("{:?}", BUS.statistics());
    std::process::exit(0);
}

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    let settings = Settings::new(40_000_000, Select::line(1));
    let display = BUS.device(settings).expect("it can be had");
    spawner.spawn(draw(display).expect("there is room"));
    let settings = Settings::new(20_000_000, Select::line(0));
    let mut flash = BUS.device(settings).expect("it can be had");
    println!("{:02x?}", identify(&mut flash).await);
}
