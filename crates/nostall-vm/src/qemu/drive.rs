//! Images for a machine's SPI devices.

use std::fs::File;
use std::io;

use super::qcow2;
use crate::process::MemoryFile;

/// Minimum size of a card in bytes. QEMU describes its size in units of 256 KiB.
const SMALLEST_CARD: u64 = 1 << 20;

/// An image behind one of the machine's SPI controllers. Only `sifive_u` has any.
#[derive(Clone, Copy, Debug)]
pub enum Drive<'a> {
    /// The flash on the first SPI controller, an is25wp256. The file contains the guest's writes
    /// after the run.
    Flash(&'a MemoryFile),
    /// The card on the third SPI controller. The file is only read; the guest's writes are
    /// discarded. The card's size is that of the image, rounded up to a power of two. It reads as
    /// zeros beyond the image.
    SdCard(&'a File),
}

impl Drive<'_> {
    /// Size of the flash in bytes: 256 Mibit.
    pub const FLASH_BYTES: u64 = 32 << 20;

    /// Maximum size of a card's image in bytes: the capacity limit of SDHC.
    pub const LARGEST_CARD: u64 = 32 << 30;
}

/// Returns a copy-on-write overlay for a card's image: it stores the writes and refers to the file
/// `name` for all other data.
pub(super) fn in_front_of(image: &File, name: &str) -> io::Result<MemoryFile> {
    let len = length(image)?;
    if !(1..=Drive::LARGEST_CARD).contains(&len) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "the SD card's image has {len} bytes; it must have 1 to {}",
                Drive::LARGEST_CARD
            ),
        ));
    }
    let size = len.next_power_of_two().max(SMALLEST_CARD);
    MemoryFile::new(&qcow2::overlay(size, name))
}

/// Returns the length of a file or block device in bytes.
fn length(mut file: &File) -> io::Result<u64> {
    use io::Seek;
    file.seek(io::SeekFrom::End(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cards_size_is_a_power_of_two_within_its_limits() {
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
