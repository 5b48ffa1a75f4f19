//! Embassy: a flash and a display share a bus, each awaited in a task.

use display_interface_spi::SPIInterface;
use embassy_executor::Spawner;
use nostall_spi::{Bus, Embassy, Error, Settings};
use ssd1306::{Ssd1306Async, command::AddrMode, mode::BasicMode, prelude::*};
use w25q32jv::W25q32jv;

use crate::board::{self, Controller, DataCommand, TiedHigh};

static BUS: Bus<Controller, Embassy> = Bus::new(board::controller(), Embassy);

type FlashError = w25q32jv::Error<Error, core::convert::Infallible>;

/// Fills the display, while another task uses the flash.
#[embassy_executor::task]
async fn draw() {
    let device = BUS.device(Settings::new(8_000_000, 2));
    let interface = SPIInterface::new(device.expect("the controller has this line"), DataCommand);
    let mut display: Ssd1306Async<_, _, BasicMode> =
        Ssd1306Async::new(interface, DisplaySize128x64, DisplayRotation::Rotate0);
    let ready = display.init_with_addr_mode(AddrMode::Horizontal).await;
    ready.expect("the display is connected");
    let drawn = display.draw(&[0xa5; 1024]).await;
    drawn.expect("the display is connected");
}

/// Runs submitted messages, and puts the hardware to sleep.
#[embassy_executor::task]
async fn worker() {
    let error = BUS.serve().await;
    panic!("{error}");
}

/// Writes `page` to the flash, and reads it back.
pub async fn main(spawner: Spawner, page: &mut [u8]) -> Result<(), FlashError> {
    spawner.spawn(worker().expect("the task is not running"));
    spawner.spawn(draw().expect("the task is not running"));
    let device = BUS.device(Settings::new(8_000_000, 0));
    let device = device.expect("the controller has this line");
    let mut flash = W25q32jv::new(device, TiedHigh, TiedHigh)?;
    flash.erase_sector_async(1).await?;
    flash.write_async(4096, page).await?;
    page.fill(0);
    flash.read_async(4096, page).await
}
