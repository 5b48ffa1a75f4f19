//! Images behind a machine's SPI controllers.

use std::fs::File;
use std::io;

use super::qcow2;
use crate::process::MemoryFile;

/// The fewest that a card is made to have: QEMU describes its size in units of 256 KiB.
const SMALLEST_CARD: u64 = 1 << 20;

/// An image that a guest finds on one of its machine's SPI buses. Of our machines
/// only `sifive_u` has any.
#[derive(Clone, Copy, Debug)]
pub enum Drive<'a> {
    /// The flash on the first SPI controller, an is25wp256. The guest's writes are in the file when
    /// it has ended.
    Flash(&'a MemoryFile),
    /// A card in the slot of the third SPI controller. The file is only read; the guest's writes go
    /// elsewhere. The card is as long as the image, rounded up to a power of two, and reads as
    /// zeros beyond it.
    SdCard(&'a File),
}

impl Drive<'_> {
    /// Bytes of the flash: 256 Mibit.
    pub const FLASH_BYTES: u64 = 32 << 20;

    /// The most bytes that a card's image may have: as many as a card of high capacity
    /// (SDHC).
    pub const LARGEST_CARD: u64 = 32 << 30;
}

/// Returns a file in front of a card's image: it takes the writes, and refers to `image` for all
/// other data.
pub(super) fn in_front_of(image: &File, name: &str) -> io::Result<MemoryFile> {
    let len = length(image)?;
    if !(1..=Drive::LARGEST_CARD).contains(&len) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "the SD card's image has {len} bytes: 1 to {} can be",
                Drive::LARGEST_CARD
            ),
        ));
    }
    let size = len.next_power_of_two().max(SMALLEST_CARD);
    MemoryFile::new(&qcow2::overlay(size, name))
}

/// Of a file, or of a block device.
fn length(mut file: &File) -> io::Result<u64> {
    use io::Seek;
    file.seek(io::SeekFrom::End(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_has_a_size_that_a_card_can_have() {
        let image = MemoryFile::new(&[]).unwrap();
        let file = image.share().unwrap();
        let card = |len| {
            image.resize(len)?;
            let overlay = in_front_of(&file, "image")?.read_from(0, 32)?;
            Ok::<_, io::Error>(u64::from_be_bytes(overlay[24..].try_into().unwrap()))
        };
        for (len, size) in [
            (1, 1 << 20),
            (3 << 20, 4 << 20),
            (4 << 20, 4 << 20),
            ((4 << 20) + 1, 8 << 20),
            (Drive::LARGEST_CARD, Drive::LARGEST_CARD),
        ] {
            assert_eq!(card(len).unwrap(), size, "{len}");
        }
        for len in [0, Drive::LARGEST_CARD + 1] {
            let error = card(len).unwrap_err().to_string();
            assert!(error.contains(&format!("has {len} bytes")), "{error}");
        }
    }
}
