//! The program of the SD card on a model of the card, which may have a fault. A flash shares the bus.

use std::process::Command;

use embedded_sdmmc::{Error, SdCardError};
use nostall_devices::VirtualClock;
use nostall_devices::spi::{CardFault, Flash, SdCard, Wires};
use nostall_spi::controllers::{Configure, Hal};
use nostall_spi::{Bare, Bus, Capabilities, Fault, Settings, Wire};

/// Returns a file's content, and a card's image with that file, made with dosfstools and mtools.
fn image(name: &str) -> (Vec<u8>, Vec<u8>) {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let [content, image] = ["content", "image"].map(|kind| format!("{folder}/{name}.{kind}"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/spi-card");
    let made = Command::new(script).args([&content, &image]).status();
    assert!(made.expect("the script runs").success());
    [content, image]
        .map(|path| std::fs::read(path).expect("the script made it"))
        .into()
}

/// Sets the wires to any rate.
struct Rated;

impl Configure<Wires> for Rated {
    fn capabilities(&self, lines: u8) -> Capabilities {
        Capabilities::least(lines)
    }

    fn configure(&mut self, wires: &mut Wires, wire: &Wire) -> Result<u32, Fault> {
        wires.set_hertz(wire.clock);
        Ok(wire.clock)
    }
}

/// Reads the file of a card with this image; `None` is no card. The fault begins after as many
/// blocks. Identifies the flash after each piece of the file.
fn read(
    image: Option<&[u8]>,
    fault: Option<(CardFault, u32)>,
) -> Result<Vec<u8>, Error<SdCardError>> {
    let clock = VirtualClock::new();
    let wires = Wires::new(clock.clone());
    let line = match image {
        None => wires.unconnected(),
        Some(image) => {
            let mut card = SdCard::new(clock.clone(), image.to_vec());
            if let Some((fault, after)) = fault {
                card.set_fault(fault, after);
            }
            wires.connect(card)
        }
    };
    let lines = [line, wires.connect(Flash::new(clock.clone()))];
    let hal = Hal::new(wires, lines, Rated);
    let bus = Bus::new(hal, Bare(clock));
    let settings = Settings::new(8_000_000, 1);
    let flash = bus.device(settings).expect("a line");
    let mut content = Vec::new();
    spi_examples::card::read(&bus, "CONTENT.TXT", |piece| {
        let mut id = [0; 3];
        flash.write_then_read(&[0x9f], &mut id).expect("a flash");
        assert_eq!(id, [0x9d, 0x70, 0x19]);
        content.extend(piece);
    })?;
    Ok(content)
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let (content, image) = image("file");
    assert!(read(Some(&image), None).expect("the card works") == content);
}

#[test]
fn a_broken_card_is_reported() {
    let (_, image) = image("broken");
    use CardFault::*;
    for (fault, after, why) in [
        (BadCrc, 0, "CRC"),
        (BadCrc, 1, "CRC"),
        (Unreadable, 30, "read error"),
        (Silent, 0, "not found"),
        (Silent, 30, "timeout"),
        (NeverReady, 0, "timeout"),
    ] {
        let told = read(Some(&image), Some((fault, after))).expect_err("a fault");
        assert!(
            told.to_string().contains(why),
            "{fault:?} after {after}: {told}"
        );
    }
    let told = read(None, None).expect_err("no card");
    assert!(told.to_string().contains("not found"), "{told}");
}

#[test]
fn a_card_without_a_file_system_is_reported() {
    let told = read(Some(&[0; 1 << 20]), None).expect_err("no partition");
    assert!(matches!(told, Error::FormatError(_)), "{told}");
}
