//! An SD card: reads every file in the root directory of its file system, with the `embedded-sdmmc`
//! crate.
//!
//! Source of the steps before that crate's work: SD Specifications, Part 1, Physical Layer
//! Simplified Specification. Before its first command, a deselected card needs at least 74 clock
//! cycles ("Power Up", from memory).

mod clocked;
mod disk;
mod volume;

use core::cell::Cell;
use core::fmt;
use core::ops::ControlFlow;

use embedded_sdmmc::embedded_sdmmc_types::sdcard::CardType;
use embedded_sdmmc::sdcard::spi::AcquireOpts;
use embedded_sdmmc::{
    DirEntry, LfnBuffer, Mode, RawDirectory, SdCard, SdCardError, ShortFileName, TimeSource,
    Timestamp, VolumeIdx, VolumeManager,
};
use nostall_spi::{Bus, Controller, Delay, Device, Error, Invalid, Platform, Select, Settings};
use sha2::{Digest as _, Sha256};

use super::told::{CardKind, CardRead, FoundVolume, ShortName, Told};
use crate::checksum::Checksum;
use crate::text;
use clocked::Clocked;
use disk::{Disk, Wrong};

/// Clock rate in hertz during initialisation ("Clock Control": 100 to 400 kHz).
const SLOW: u32 = 400_000;

/// Clock rate in hertz after initialisation (default speed allows 25 MHz).
const FAST: u32 = 20_000_000;

/// Byte sent without data: the data line is high when idle.
const FILL: u8 = 0xff;

/// Initial clock cycles, at least 74.
const WAKE: [u8; 10] = [FILL; 10];

/// Number of times that the crate tries to reset a card, 100 ms each.
const TRIES: u32 = 3;

/// Number of files read per pass over the directory.
const BATCH: usize = 16;

/// Maximum size of a long name in bytes: 255 UTF-16 units.
const LONGEST_NAME: usize = 255 * 3 + 3;

/// Number of bytes read between two [progress](Told::Progress) reports.
pub const PROGRESS: u64 = 256 << 10;

/// Reason why the job failed.
#[derive(Debug)]
enum Failed {
    Refused(Invalid),
    Bus(Error),
    /// Card error before a file system was found.
    Card(SdCardError),
    Wrong(Wrong),
    /// The crate's file system error.
    Crate(embedded_sdmmc::Error<Wrong>),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("card: ")?;
        match self {
            Self::Refused(why) => write!(f, "{why}"),
            Self::Bus(error) => write!(f, "{error}"),
            Self::Card(SdCardError::CardNotFound | SdCardError::TimeoutCommand(_)) => {
                f.write_str("there is none, or it does not answer")
            }
            Self::Card(error) => write!(f, "{error}"),
            Self::Wrong(wrong) => write!(f, "{wrong}"),
            Self::Crate(error) => write!(f, "{error}"),
        }
    }
}

type Sd<'b, C, P, const W: usize, const S: usize, const B: usize> =
    SdCard<Clocked<'b, C, P, W, S, B>, Delay<'b, P>>;
type Files<'b, C, P, const W: usize, const S: usize, const B: usize> =
    VolumeManager<Disk<Sd<'b, C, P, W, S, B>>, NoTime, 1, 1, 1>;

/// Initialises the card at `line`, and reports every file in the root directory of its first FAT16
/// or FAT32 file system. Nothing is written.
pub fn card<C: Controller, P: Platform, const W: usize, const S: usize, const B: usize>(
    bus: &Bus<C, P, W, S, B>,
    line: Select,
    tell: &mut dyn FnMut(Told),
) {
    if let Err(failed) = read(bus, line, tell) {
        tell(Told::Fault(text(format_args!("{failed}"))));
    }
}

fn read<C: Controller, P: Platform, const W: usize, const S: usize, const B: usize>(
    bus: &Bus<C, P, W, S, B>,
    line: Select,
    tell: &mut dyn FnMut(Told),
) -> Result<(), Failed> {
    let clock = bus.platform();
    let start = clock.now();
    let messages = bus.statistics().messages;
    let at = |hertz, select| {
        let fill = FILL;
        let settings = Settings {
            fill,
            ..Settings::new(hertz, select)
        };
        bus.device(settings).map_err(Failed::Refused)
    };
    wake(&at(SLOW, Select::None)?)?;
    let clocked = Clocked::new(at(SLOW, line)?, at(FAST, line)?);
    let options = AcquireOpts {
        acquire_retries: TRIES,
        ..AcquireOpts::default()
    };
    let card = SdCard::new_with_options(clocked, bus.delay(), options);
    let bytes = card.num_bytes().map_err(Failed::Card)?;
    card.spi(Clocked::speed_up);
    tell(Told::Card {
        kind: match card.get_card_type() {
            Some(CardType::SdhcSdxc) => CardKind::Sdhc,
            Some(CardType::SD2) => CardKind::Sd2,
            _ => CardKind::Sd1,
        },
        bytes,
    });

    let disk = Disk::new(card, bytes / 512).map_err(Failed::Wrong)?;
    tell(Told::Volume(FoundVolume {
        partition: disk.partition(),
        fat: disk.volume().fat,
        cluster: disk.volume().cluster,
    }));
    let files: Files<'_, C, P, W, S, B> = VolumeManager::new_with_limits(disk, NoTime, 0);
    let mut sums = Sums::default();
    let walked = walk(&files, &mut sums, tell);
    // The crate's error is not always the cause.
    if let Some(wrong) = files.device(Disk::wrong) {
        return Err(Failed::Wrong(wrong));
    }
    walked?;
    tell(Told::CardDone(CardRead {
        files: sums.files,
        directories: sums.directories,
        bytes: sums.bytes,
        ns: (clock.now() - start).0,
        messages: bus.statistics().messages.wrapping_sub(messages) as u64,
    }));
    Ok(())
}

fn wake<C: Controller, P: Platform, const W: usize, const S: usize, const B: usize>(
    unselected: &Device<'_, C, P, W, S, B>,
) -> Result<(), Failed> {
    unselected.write(&WAKE).map_err(Failed::Bus)
}

#[derive(Default)]
struct Sums {
    files: u32,
    directories: u32,
    bytes: u64,
}

/// A file to read.
struct Found {
    entry: u32,
    name: ShortFileName,
    size: u32,
}

/// Reads all files, batch by batch: the directory cannot be read while a file is open.
fn walk<C: Controller, P: Platform, const W: usize, const S: usize, const B: usize>(
    files: &Files<'_, C, P, W, S, B>,
    sums: &mut Sums,
    tell: &mut dyn FnMut(Told),
) -> Result<(), Failed> {
    let volume = files.open_raw_volume(VolumeIdx(0)).map_err(Failed::Crate)?;
    let root = files.open_root_dir(volume).map_err(Failed::Crate)?;
    // Read once, because the crate's block cache is lost each time.
    let room = files.device(|disk| disk.volume().bytes());
    let mut seen = 0;
    loop {
        let (batch, there_is_more) = list(files, root, &mut seen, sums, tell)?;
        for found in &batch {
            sums.files += 1;
            sums.bytes += u64::from(found.size);
            if sums.bytes > room {
                return Err(Failed::Wrong(Wrong::TooLarge));
            }
            digest(files, root, found, sums.bytes - u64::from(found.size), tell)?;
        }
        if !there_is_more {
            return Ok(());
        }
    }
}

/// Reports entries from number `seen` on, as many as fit. Returns the files among them, and whether
/// more entries follow.
fn list<C: Controller, P: Platform, const W: usize, const S: usize, const B: usize>(
    files: &Files<'_, C, P, W, S, B>,
    root: RawDirectory,
    seen: &mut u32,
    sums: &mut Sums,
    tell: &mut dyn FnMut(Told),
) -> Result<(heapless::Vec<Found, BATCH>, bool), Failed> {
    let mut batch = heapless::Vec::new();
    let mut there_is_more = false;
    let mut entry = 0;
    let before = Cell::new(None);
    let mut storage = [0; LONGEST_NAME];
    let mut long_name = LfnBuffer::new(&mut storage);
    files.device(Disk::begin_directory);
    let look = |found: &DirEntry, name: Option<&str>| {
        // The crate keeps a long name until the next one. It returns it twice if two short names
        // have the same checksum.
        let hash = name.map(|name| Checksum::of(name.as_bytes()));
        let name = name.filter(|_| hash != before.get());
        before.set(hash);
        if found.attributes.is_volume() {
            return ControlFlow::Continue(());
        }
        let number = entry;
        entry += 1;
        if number < *seen {
            return ControlFlow::Continue(());
        }
        if batch.is_full() {
            there_is_more = true;
            return ControlFlow::Break(());
        }
        *seen = entry;
        tell_of(number, found, name, tell);
        if found.attributes.is_directory() {
            sums.directories += 1;
        } else {
            // The batch has room for it.
            let _ = batch.push(Found {
                entry: number,
                name: found.name,
                size: found.size,
            });
        }
        ControlFlow::Continue(())
    };
    files
        .iterate_dir_lfn(root, &mut long_name, look)
        .map_err(Failed::Crate)?;
    files.device(Disk::end_directory);
    Ok((batch, there_is_more))
}

fn tell_of(entry: u32, found: &DirEntry, name: Option<&str>, tell: &mut dyn FnMut(Told)) {
    let mut short = ShortName::new();
    // Twelve characters of at most two bytes each.
    let _ = fmt::write(&mut short, format_args!("{}", found.name));
    tell(Told::Entry {
        entry,
        short,
        size: found.size,
        directory: found.attributes.is_directory(),
    });
    let mut rest = name.unwrap_or_default();
    while !rest.is_empty() {
        let piece = text(format_args!("{rest}"));
        rest = &rest[piece.len()..];
        tell(Told::Name(piece));
    }
}

/// Reads a whole file. `before` is the number of bytes read of earlier files.
fn digest<C: Controller, P: Platform, const W: usize, const S: usize, const B: usize>(
    files: &Files<'_, C, P, W, S, B>,
    root: RawDirectory,
    found: &Found,
    before: u64,
    tell: &mut dyn FnMut(Told),
) -> Result<(), Failed> {
    let file = files
        .open_file_in_dir(root, found.name, Mode::ReadOnly)
        .map_err(Failed::Crate)?;
    let mut sha = Sha256::new();
    let mut buffer = [0; 512];
    let mut bytes = 0;
    while bytes < u64::from(found.size) {
        let read = files.read(file, &mut buffer).map_err(Failed::Crate)?;
        if read == 0 {
            return Err(Failed::Wrong(Wrong::Short(found.entry)));
        }
        sha.update(&buffer[..read]);
        let was = before + bytes;
        bytes += read as u64;
        if was / PROGRESS != (before + bytes) / PROGRESS {
            let bytes = before + bytes;
            tell(Told::Progress { bytes });
        }
    }
    files.close_file(file).map_err(Failed::Crate)?;
    let sha256 = sha.finalize().into();
    let entry = found.entry;
    tell(Told::Read { entry, sha256 });
    Ok(())
}

/// A time source that is never used, because nothing is written.
struct NoTime;

impl TimeSource for NoTime {
    fn get_timestamp(&self) -> Timestamp {
        Timestamp {
            year_since_1970: 0,
            zero_indexed_month: 0,
            zero_indexed_day: 0,
            hours: 0,
            minutes: 0,
            seconds: 0,
        }
    }
}
