//! Linux's spidev with a serial NOR flash. `nostall-lab/tests/it/spi_linux.rs` runs this test in QEMU. On
//! a board, run it with
//!
//! ```text
//! NOSTALL_SPIDEV_FLASH=/dev/spidev0.0 cargo test -p nostall-spi --features spidev --test spidev
//! ```
//!
//! This erases and writes the first sector of the flash. Without the variable, the test accesses no
//! device.

#![cfg(all(feature = "spidev", target_os = "linux"))]

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nostall_io::{Clock as _, HostClock, Nanos};
use nostall_spi::controllers::Spidev;
use nostall_spi::{
    BitOrder, Bus, Device, Error, Fault, Invalid, MODE_3, Polarity, Select, Settings, Threads,
    Transfer, Wires, WordSize,
};

const VARIABLE: &str = "NOSTALL_SPIDEV_FLASH";

// Instructions of every serial NOR flash (JESD216, and the table of instructions in any data
// sheet).
const READ_ID: u8 = 0x9f;
const READ_STATUS: u8 = 0x05;
const WRITE_ENABLE: u8 = 0x06;
const WRITE_DISABLE: u8 = 0x04;
const SECTOR_ERASE: u8 = 0x20;
const PAGE_PROGRAM: u8 = 0x02;
const READ: u8 = 0x03;

// Bits of the status register.
const BUSY: u8 = 1;
const WRITE_ENABLED: u8 = 2;

const CLOCK: u32 = 10_000_000;

/// Lock for the flash: one test at a time uses it.
static FLASH: Mutex<()> = Mutex::new(());

struct Flash {
    path: PathBuf,
    bus: Bus<Spidev, Threads>,
    _alone: MutexGuard<'static, ()>,
}

type FlashDevice<'b> = Device<'b, Spidev, Threads>;

fn flash(test: &str) -> Option<Flash> {
    let Some(path) = std::env::var_os(VARIABLE).map(PathBuf::from) else {
        // Not with a macro of std, because the test harness would capture the text.
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {VARIABLE} is not set");
        return None;
    };
    let alone = FLASH.lock().unwrap_or_else(PoisonError::into_inner);
    let controller = Spidev::open(&path).unwrap();
    let bus = Bus::new(controller, Threads::new());
    Some(Flash {
        path,
        bus,
        _alone: alone,
    })
}

impl Flash {
    fn device(&self) -> FlashDevice<'_> {
        self.bus.device(settings()).unwrap()
    }

    /// Returns the mode that another program sees.
    fn mode(&self) -> u32 {
        let other = spidev::Spidev::open(&self.path).unwrap();
        let options = other.query_configuration().unwrap();
        options.spi_mode.unwrap().bits()
    }
}

/// Mode bits that `Settings` define (linux/spi/spi.h).
const OURS: u32 = 0x5f;

fn settings() -> Settings {
    Settings::new(CLOCK, 0)
}

fn id(flash: &FlashDevice<'_>) -> [u8; 3] {
    let mut id = [0; 3];
    flash.write_then_read(&[READ_ID], &mut id).unwrap();
    assert!(
        id != [0; 3] && id != [0xff; 3],
        "{id:02x?}: there is no flash"
    );
    id
}

fn status(flash: &FlashDevice<'_>) -> u8 {
    let mut status = [0];
    flash.write_then_read(&[READ_STATUS], &mut status).unwrap();
    status[0]
}

fn ready(flash: &FlashDevice<'_>) {
    // An erase takes under a second, and each of these reads a microsecond or more.
    let ready = (0..100_000_000).any(|_| status(flash) & BUSY == 0);
    assert!(ready, "the flash stays busy");
}

fn refused(settings: Settings, bus: &Bus<Spidev, Threads>) -> Error {
    let device = bus.device(settings).unwrap();
    device.write(&[READ_STATUS]).unwrap_err()
}

#[test]
fn every_method_reads_the_same_id() {
    let Some(flash) = flash("every_method_reads_the_same_id") else {
        return;
    };
    let device = flash.device();
    let id = id(&device);
    println!("JEDEC ID {id:02x?}");

    let mut both = [0; 4];
    device
        .sync(&mut [Transfer::transfer(&[READ_ID], &mut both)])
        .unwrap();
    assert_eq!(both[1..], id);

    let mut in_place = [READ_ID, 0, 0, 0];
    device
        .sync(&mut [Transfer::in_place(&mut in_place)])
        .unwrap();
    assert_eq!(in_place[1..], id);

    // One transfer per byte, in one selection, with a delay, and with a slower clock for one of the
    // transfers.
    let [mut first, mut second, mut third] = [[0]; 3];
    device
        .sync(&mut [
            Transfer::write(&[READ_ID]).delay(Nanos::from_micros(20)),
            Transfer::read(&mut first),
            Transfer::write(&[]),
            Transfer::read(&mut second).clock(1_000_000),
            Transfer::read(&mut third),
        ])
        .unwrap();
    assert_eq!([first[0], second[0], third[0]], id);

    // With a fill value other than 0, and in the other mode that every flash supports.
    let odd = Settings {
        fill: 0xa5,
        ..settings().mode(MODE_3)
    };
    let odd = flash.bus.device(odd).unwrap();
    let mut again = [0; 3];
    odd.write_then_read(&[READ_ID], &mut again).unwrap();
    assert_eq!(again, id);
    assert_eq!(flash.mode() & 3, 3);

    // A submitted message reads the same, in memory of the bus.
    let pending = device
        .submit(&mut [Transfer::write(&[READ_ID]), Transfer::read(&mut [0; 3])])
        .unwrap();
    flash.bus.poll();
    assert!(pending.is_done());
    let mut again = [0; 3];
    pending.received(1, &mut again);
    assert_eq!(again, id);
    assert_eq!(flash.mode() & 3, 0);
}

#[test]
fn a_transfer_that_deselects_begins_a_new_instruction() {
    let Some(flash) = flash("a_transfer_that_deselects_begins_a_new_instruction") else {
        return;
    };
    let device = flash.device();
    let id = id(&device);
    // Linux's own delay, and one for which the message is split.
    for span in [Nanos(0), Nanos::from_millis(2)] {
        let [mut first, mut second] = [[0; 3]; 2];
        device
            .sync(&mut [
                Transfer::write(&[READ_ID]),
                Transfer::read(&mut first).cs_change(span),
                Transfer::write(&[READ_ID]),
                Transfer::read(&mut second),
            ])
            .unwrap();
        assert_eq!((first, second), (id, id), "{span:?}");
    }
    // Without a deselection, the second transfer is not an instruction.
    let [mut first, mut second] = [[0; 3]; 2];
    device
        .sync(&mut [
            Transfer::write(&[READ_ID]),
            Transfer::read(&mut first),
            Transfer::write(&[READ_ID]),
            Transfer::read(&mut second),
        ])
        .unwrap();
    assert_eq!(first, id);
    assert_ne!(second, id);
}

#[test]
fn a_sector_is_erased_written_and_read_back() {
    let Some(flash) = flash("a_sector_is_erased_written_and_read_back") else {
        return;
    };
    let device = flash.device();
    id(&device);
    // The pattern differs from the page's old contents, for any contents.
    let mut page = [0; 256];
    let read = |page: &mut [u8; 256]| {
        device
            .write_then_read(&[READ, 0, 0, 0], &mut page[..])
            .unwrap();
    };
    read(&mut page);
    let pattern: [u8; 256] = std::array::from_fn(|i| !page[i] ^ (i as u8 & 1));
    assert_ne!(page, pattern);

    // One message enables writing, deselects, reads the status and sends the erase command.
    let mut enabled = [0];
    device
        .sync(&mut [
            Transfer::write(&[WRITE_ENABLE]).cs_change(Nanos(0)),
            Transfer::write(&[READ_STATUS]),
            Transfer::read(&mut enabled).cs_change(Nanos::from_micros(50)),
            Transfer::write(&[SECTOR_ERASE, 0, 0, 0]),
        ])
        .unwrap();
    assert_eq!(enabled[0] & WRITE_ENABLED, WRITE_ENABLED);
    ready(&device);
    read(&mut page);
    assert_eq!(page, [0xff; 256]);

    let mut held = device.lock().unwrap();
    held.sync(&mut [Transfer::write(&[WRITE_ENABLE])]).unwrap();
    held.sync(&mut [
        Transfer::write(&[PAGE_PROGRAM, 0, 0, 0]),
        Transfer::write(&pattern),
    ])
    .unwrap();
    drop(held);
    ready(&device);
    read(&mut page);
    assert_eq!(page, pattern);
    device.write(&[WRITE_DISABLE]).unwrap();
    assert_eq!(status(&device) & WRITE_ENABLED, 0);
}

#[test]
fn long_delays_are_kept() {
    let Some(flash) = flash("long_delays_are_kept") else {
        return;
    };
    let device = flash.device();
    let id = id(&device);
    let mut read = [0; 3];
    let clock = HostClock::new();
    let begun = clock.now();
    device
        .sync(&mut [
            Transfer::write(&[READ_ID]).delay(Nanos::from_millis(200)),
            Transfer::read(&mut read),
        ])
        .unwrap();
    // The read is still in the same selection.
    assert_eq!(read, id);
    // A pause of the machine only makes it longer.
    assert!(clock.now() - begun >= Nanos::from_millis(200));
}

#[test]
fn a_message_may_have_bufsiz_bytes_and_no_more() {
    let Some(flash) = flash("a_message_may_have_bufsiz_bytes_and_no_more") else {
        return;
    };
    let device = flash.device();
    id(&device);
    let bufsiz = Spidev::open(&flash.path).unwrap().bufsiz();
    let mut whole = vec![0; bufsiz];
    device
        .write_then_read(&[READ, 0, 0, 0], &mut whole)
        .unwrap();
    // Reads the same bytes in pieces.
    for (number, piece) in whole.chunks(64).enumerate() {
        let [_, _, high, low] = ((number * 64) as u32).to_be_bytes();
        let mut again = [0; 64];
        device
            .write_then_read(&[READ, 0, high, low], &mut again[..piece.len()])
            .unwrap();
        assert_eq!(again[..piece.len()], *piece);
    }
    let mut more = vec![0; bufsiz + 1];
    let too_long = Error::Invalid {
        transfer: 0,
        why: Invalid::TooLong(bufsiz),
    };
    assert_eq!(device.sync(&mut [Transfer::read(&mut more)]), Err(too_long));
    let mut one = [0];
    let too_much = Error::Failed {
        transfer: 2,
        fault: Fault::System(libc::EMSGSIZE),
    };
    let result = device.sync(&mut [
        Transfer::write(&[READ, 0, 0, 0]),
        Transfer::read(&mut whole),
        Transfer::read(&mut one),
    ]);
    assert_eq!(result, Err(too_much));
    // This is more than a request's limit. Linux would run none of the transfers.
    let mut many: Vec<_> = (0..512).map(|_| Transfer::write(&[])).collect();
    let too_many = Error::Failed {
        transfer: 255,
        fault: Fault::System(libc::EMSGSIZE),
    };
    assert_eq!(device.sync(&mut many), Err(too_many));
    id(&device);
}

#[test]
fn a_setting_beyond_the_controllers_capabilities_is_an_error_and_the_bus_continues() {
    let Some(flash) =
        flash("a_setting_beyond_the_controllers_capabilities_is_an_error_and_the_bus_continues")
    else {
        return;
    };
    let device = flash.device();
    let at_first = flash.mode();
    let id = id(&device);
    let before = flash.mode();
    // For example the data wires in the device tree.
    assert_eq!(before & !OURS, at_first & !OURS);
    // Controllers differ: the message succeeds, or it fails and the mode lacks the flag.
    for (wish, flag) in [
        (
            Settings {
                wires: Wires::Three,
                ..settings()
            },
            0x10,
        ),
        (
            Settings {
                order: BitOrder::LsbFirst,
                ..settings()
            },
            0x08,
        ),
        (Settings::new(CLOCK, 0).select(Select::None), 0x40),
        (
            Settings::new(CLOCK, 0).select(Select::Line(0, Polarity::ActiveHigh)),
            0x04,
        ),
    ] {
        let wish = flash.bus.device(wish).unwrap();
        match wish.write(&[0xff]) {
            Ok(()) => {
                let mode = flash.mode();
                println!("mode {flag:#x}: is supported, {mode:#x}");
                assert_eq!(mode & !OURS, before & !OURS);
            }
            Err(error) => {
                println!("mode {flag:#x}: {error}");
                let fault = Fault::System(libc::EINVAL);
                assert_eq!(error, Error::Failed { transfer: 0, fault });
                assert_eq!(flash.mode() & flag, 0);
            }
        }
        let mut again = [0; 3];
        device.write_then_read(&[READ_ID], &mut again).unwrap();
        assert_eq!((again, flash.mode()), (id, before));
    }

    let wide = Settings {
        word: WordSize::Bits32,
        ..settings()
    };
    let part = Error::Invalid {
        transfer: 0,
        why: Invalid::PartOfWord(WordSize::Bits32),
    };
    assert_eq!(refused(wide, &flash.bus), part);
    let nowhere = flash.bus.device(Settings::new(CLOCK, 1));
    assert_eq!(nowhere.err(), Some(Invalid::Line(1)));
}
