//! Two blocking drivers from crates.io, which do not depend on the sharing of their bus.

use mfrc522::{Mfrc522, Uid, comm::blocking::spi::SpiInterface};
use nostall_spi::{Bus, Error, Platform, Settings};
use w25q32jv::W25q32jv;

use crate::board::{Controller, TiedHigh};

type FlashError = w25q32jv::Error<Error, core::convert::Infallible>;

/// Writes `page` to the flash, and reads it back.
pub fn store<P: Platform>(bus: &Bus<Controller, P>, page: &mut [u8]) -> Result<(), FlashError> {
    let settings = Settings::new(8_000_000, 0);
    let device = bus.device(settings).expect("the controller has this line");
    let mut flash = W25q32jv::new(device, TiedHigh, TiedHigh)?;
    flash.erase_sector(0)?;
    flash.write_blocking(0, page)?;
    page.fill(0);
    flash.read(0, page)
}

/// Reads the number of the card at the reader.
pub fn card<P: Platform>(bus: &Bus<Controller, P>) -> Result<Uid, mfrc522::Error<Error>> {
    let settings = Settings::new(8_000_000, 1);
    let device = bus.device(settings).expect("the controller has this line");
    let mut reader = Mfrc522::new(SpiInterface::new(device)).init()?;
    let answer = reader.wupa()?;
    reader.select(&answer)
}
