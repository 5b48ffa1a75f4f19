//! A file of an SD card's FAT file system. The bus, its platform and the board may be any.

use embedded_hal::delay::DelayNs;
use embedded_hal::spi::{Operation, SpiDevice};
use embedded_sdmmc::embedded_sdmmc_types::sdcard::CardType;
use embedded_sdmmc::{
    Error, Mode, SdCard, SdCardError, TimeSource, Timestamp, VolumeIdx, VolumeManager,
};
use nostall_spi::{AnySlots, Bus, Controller, Platform, Polarity, Select, Settings};

/// Hands the file `name` to `take`, piece by piece. It is in the root directory of the first
/// partition, a FAT16 or FAT32.
pub fn read<C: Controller, P: Platform>(
    bus: &Bus<C, P, dyn AnySlots>,
    name: &str,
    mut take: impl FnMut(&[u8]),
) -> Result<(), Error<SdCardError>> {
    let device = |clock, select| {
        let settings = Settings {
            fill: 0xff,
            select,
            ..Settings::new(clock, 0)
        };
        bus.device(settings).expect("the controller has this line")
    };
    // SD Physical Layer Simplified Specification, "Power Up" and "Clock Control": a card needs 74
    // clock cycles before its first command. The clock is slow until the card is ready.
    let unselected = device(400_000, Select::None);
    unselected
        .write(&[0xff; 10])
        .map_err(|_| SdCardError::Transport)?;
    let line = Select::Line(0, Polarity::ActiveLow);
    let card = SdCard::new(device(400_000, line), bus.delay());
    start(&card)?;
    card.spi(|slow| *slow = device(20_000_000, line));

    let files = VolumeManager::new(card, NoTime);
    let volume = files.open_volume(VolumeIdx(0))?;
    let root = volume.open_root_dir()?;
    let file = root.open_file_in_dir(name, Mode::ReadOnly)?;
    let mut piece = [0; 512];
    while !file.is_eof() {
        let len = file.read(&mut piece)?;
        take(&piece[..len]);
    }
    Ok(())
}

/// Initialises the card.
///
/// QEMU 7.2's card answers the last command as if it were still idle, and the driver stops there.
/// That command reads the register OCR, whose bit CCS distinguishes large cards from small ones.
pub fn start<S: SpiDevice, D: DelayNs>(card: &SdCard<S, D>) -> Result<(), SdCardError> {
    let started = card.num_bytes();
    if !matches!(started, Err(SdCardError::Cmd58Error)) {
        return started.map(drop);
    }
    let mut answer = [0xff; 16];
    let asked = card.spi(|device| {
        device.write(&[0xff; 4])?; // the rest of that answer
        let again = Operation::Write(&[0x40 | 58, 0, 0, 0, 0, 0xfd]);
        device.transaction(&mut [again, Operation::TransferInPlace(&mut answer)])
    });
    asked.map_err(|_| SdCardError::Transport)?;
    // Bit 7 of the first byte is clear. OCR follows, with CCS in its bit 30.
    let ocr = answer.iter().skip_while(|byte| **byte >= 0x80).nth(1);
    let kind = match ocr.ok_or(SdCardError::Cmd58Error)? & 0x40 {
        0 => CardType::SD2,
        _ => CardType::SdhcSdxc,
    };
    // SAFETY: the card got every command of the initialisation, and reported its kind.
    unsafe { card.mark_card_as_init(kind) }
    Ok(())
}

/// Nothing is written, and no time is needed.
struct NoTime;

impl TimeSource for NoTime {
    fn get_timestamp(&self) -> Timestamp {
        unreachable!()
    }
}
