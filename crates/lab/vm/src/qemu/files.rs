//! The files that QEMU reads and writes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use crate::guest::Guest;
use crate::process::MemoryFile;

// Descriptor numbers in QEMU's process.
pub(super) const KERNEL: RawFd = 10;
pub(super) const INPUT: RawFd = 11;
pub(super) const SERIAL: RawFd = 12;
pub(super) const REPORTS: RawFd = 13;
pub(super) const PERSISTENT: RawFd = 14;
pub(super) const FLASH: RawFd = 15;

/// Files instead of pipes: a full pipe would slow the guest down, or make QEMU drop bytes.
pub(super) struct Files {
    kernel: MemoryFile,
    input: MemoryFile,
    pub(super) serial: MemoryFile,
    pub(super) reports: MemoryFile,
    /// QEMU's own output.
    pub(super) said: MemoryFile,
}

impl Files {
    pub(super) fn new(guest: &Guest<'_>) -> io::Result<Self> {
        Ok(Self {
            kernel: MemoryFile::new(guest.kernel)?,
            input: MemoryFile::new(guest.input)?,
            serial: MemoryFile::new(&[])?,
            reports: MemoryFile::new(&[])?,
            said: MemoryFile::new(&[])?,
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
        files.extend(guest.flash.map(|file| (file.as_fd(), FLASH)));
        files
    }
}
