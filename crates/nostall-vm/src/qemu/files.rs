//! The files that QEMU reads and writes.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use super::drive::{Drive, in_front_of};
use crate::guest::Guest;
use crate::process::{MemoryFile, name};

// Descriptor numbers in QEMU's process.
pub(super) const KERNEL: RawFd = 10;
pub(super) const INPUT: RawFd = 11;
pub(super) const SERIAL: RawFd = 12;
pub(super) const REPORTS: RawFd = 13;
pub(super) const PERSISTENT: RawFd = 14;
pub(super) const FLASH: RawFd = 15;
pub(super) const CARD: RawFd = 16;
pub(super) const CARD_IMAGE: RawFd = 17;

/// Path with which QEMU opens a card's image: the inherited descriptor, read-only.
const CARD_IMAGE_NAME: &str = "/dev/fdset/1";

/// Files instead of pipes: a full pipe would slow the guest down, or make QEMU drop bytes.
pub(super) struct Files {
    kernel: MemoryFile,
    input: MemoryFile,
    pub(super) serial: MemoryFile,
    pub(super) reports: MemoryFile,
    /// QEMU's own output.
    pub(super) said: MemoryFile,
    card: Option<Card>,
}

/// An SD card: an overlay for the guest's writes, and a read-only image.
struct Card {
    written: MemoryFile,
    image: File,
}

impl Files {
    pub(super) fn new(guest: &Guest<'_>) -> io::Result<Self> {
        let mut card = None;
        for drive in guest.drives {
            if let Drive::SdCard(image) = drive {
                card = Some(Card {
                    written: in_front_of(image, CARD_IMAGE_NAME)?,
                    // Opened again read-only, so that QEMU cannot write through the descriptor.
                    image: File::open(name(image.as_raw_fd()))?,
                });
            }
        }
        Ok(Self {
            kernel: MemoryFile::new(guest.kernel)?,
            input: MemoryFile::new(guest.input)?,
            serial: MemoryFile::new(&[])?,
            reports: MemoryFile::new(&[])?,
            said: MemoryFile::new(&[])?,
            card,
        })
    }

    /// Returns each file with its descriptor number in QEMU's process.
    pub(super) fn for_child<'a>(&'a self, guest: &Guest<'a>) -> Vec<(BorrowedFd<'a>, RawFd)> {
        let mut files = vec![
            (self.kernel.as_fd(), KERNEL),
            (self.input.as_fd(), INPUT),
            (self.serial.as_fd(), SERIAL),
            (self.reports.as_fd(), REPORTS),
        ];
        files.extend(guest.ram.map(|ram| (ram.file.as_fd(), PERSISTENT)));
        files.extend(guest.drives.iter().find_map(|drive| match drive {
            Drive::Flash(file) => Some((file.as_fd(), FLASH)),
            Drive::SdCard(_) => None,
        }));
        if let Some(Card { written, image }) = &self.card {
            files.extend([(written.as_fd(), CARD), (image.as_fd(), CARD_IMAGE)]);
        }
        files
    }
}
