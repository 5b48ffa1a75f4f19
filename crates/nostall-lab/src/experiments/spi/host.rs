//! The host's reading of a card's image, using the `fatfs` crate: other code than the guest's.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::panic;
use std::rc::Rc;

use anyhow::{Result, bail, ensure};
use fatfs::{FatType, FileSystem, FsOptions};
use fscommon::{BufStream, StreamSlice};
use sha2::{Digest, Sha256};

use crate::escape::escape_name;

/// Entries of the longest directory.
const ENTRIES: usize = 65_536;

/// Bytes that may be read before the first file is: several times the longest directory
/// and its part of the largest table.
const DIRECTORY: u64 = 256 << 20;

/// Something in the root directory, as the host reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostEntry {
    /// Long name, or else the short one.
    pub name: String,
    pub bytes: u64,
    pub directory: bool,
    /// Checksum of its content, if it is a file.
    pub sha256: Option<[u8; 32]>,
}

/// Reads every file in the root directory of the first FAT on an image.
///
/// The crate trusts some fields of the image, a file's first cluster for example, and panics where
/// such a number is impossible.
pub fn read(file: &File, bytes: u64) -> Result<Vec<HostEntry>> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let read = panic::catch_unwind(|| read_first(file, bytes));
    panic::set_hook(hook);
    read.unwrap_or_else(|_| bail!("the file system is damaged: a number in it cannot be"))
}

fn read_first(file: &File, bytes: u64) -> Result<Vec<HostEntry>> {
    let mut first = [0; 512];
    let len = usize::try_from(bytes).unwrap_or(usize::MAX).min(512);
    file.read_exact_at(&mut first[..len], 0)?;
    if let Some(kind) = kind_of(&first) {
        bail!("{kind}: only FAT16 and FAT32 are read, with an MBR or without");
    }
    let why = match Files::open(file, 0, bytes) {
        Ok(files) => return files.read(bytes),
        Err(why) => why,
    };
    let signed = first[510..] == [0x55, 0xaa];
    for at in [446, 462, 478, 494] {
        let number = |at| u64::from(u32::from_le_bytes([0, 1, 2, 3].map(|n| first[at + n])));
        let (start, len) = (number(at + 8) * 512, number(at + 12) * 512);
        let end = start.saturating_add(len).min(bytes);
        let is_fat = matches!(first[at + 4], 0x04 | 0x06 | 0x0b | 0x0c | 0x0e);
        if signed && is_fat && start > 0 && start < end {
            return Files::open(file, start, end)?.read(bytes);
        }
    }
    bail!("no FAT16 or FAT32 file system on it ({why})")
}

/// Returns the name of a known format that is no FAT.
fn kind_of(first: &[u8; 512]) -> Option<&'static str> {
    match &first[3..11] {
        b"EXFAT   " => Some("an exFAT file system"),
        b"NTFS    " => Some("an NTFS file system"),
        _ if first[446 + 4] == 0xee && first[510..] == [0x55, 0xaa] => {
            Some("a GUID partition table")
        }
        _ => None,
    }
}

/// A file system on the image.
struct Files {
    system: FileSystem<BufStream<StreamSlice<ReadOnly>>>,
    /// Bytes that may yet be read.
    left: Rc<Cell<u64>>,
}

impl Files {
    fn open(file: &File, start: u64, end: u64) -> Result<Self> {
        let left = Rc::new(Cell::new(DIRECTORY));
        let stream = ReadOnly {
            file: file.try_clone()?,
            at: 0,
            left: Rc::clone(&left),
        };
        let stream = BufStream::new(StreamSlice::new(stream, start, end)?);
        let system = FileSystem::new(stream, FsOptions::new())?;
        Ok(Self { system, left })
    }

    /// Reads all files, which have no more than `most` bytes together.
    fn read(self, most: u64) -> Result<Vec<HostEntry>> {
        ensure!(
            self.system.fat_type() != FatType::Fat12,
            "a FAT12 file system: only FAT16 and FAT32 are read"
        );
        let mut entries = Vec::new();
        let mut files = Vec::new();
        for entry in self.system.root_dir().iter() {
            let entry = entry?;
            ensure!(entries.len() < ENTRIES, "its root directory never ends");
            entries.push(HostEntry {
                name: entry.file_name(),
                bytes: if entry.is_dir() { 0 } else { entry.len() },
                directory: entry.is_dir(),
                sha256: None,
            });
            files.push(entry);
        }
        let sum: u64 = entries.iter().map(|entry| entry.bytes).sum();
        ensure!(
            sum <= most,
            "the file system is damaged: its files are larger than the volume"
        );
        self.left.set(u64::MAX);
        for (entry, file) in entries.iter_mut().zip(files) {
            if !entry.directory {
                entry.sha256 = Some(digest(&mut file.to_file(), entry.bytes, &entry.name)?);
            }
        }
        Ok(entries)
    }
}

fn digest(file: &mut impl Read, bytes: u64, name: &str) -> Result<[u8; 32]> {
    let mut sha = Sha256::new();
    let mut left = bytes;
    let mut buffer = vec![0; 64 << 10];
    while left > 0 {
        let len = file.read(&mut buffer)?;
        ensure!(len > 0, "{}: it ends too early", escape_name(name));
        sha.update(&buffer[..len]);
        left = left.saturating_sub(len as u64);
    }
    Ok(sha.finalize().into())
}

/// A file of which only is read, at a place of its own.
struct ReadOnly {
    file: File,
    at: u64,
    /// Bytes that may yet be read.
    left: Rc<Cell<u64>>,
}

impl Read for ReadOnly {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read_at(into, self.at)?;
        let left = self.left.get().checked_sub(len as u64);
        self.left.set(left.ok_or_else(|| {
            io::Error::new(ErrorKind::InvalidData, "its root directory never ends")
        })?);
        self.at += len as u64;
        Ok(len)
    }
}

impl Write for ReadOnly {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(ErrorKind::ReadOnlyFilesystem.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for ReadOnly {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(to) => Some(to),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.file.seek(SeekFrom::End(0))?.checked_add_signed(by),
        };
        self.at = to.ok_or(ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;
    use crate::experiments::spi::card::make;

    fn read_image(image: &[u8]) -> Result<Vec<HostEntry>> {
        let mut file = tempfile::tempfile()?;
        file.write_all(image)?;
        read(&file, image.len() as u64)
    }

    #[test]
    fn a_written_image_is_read_back() {
        let entries = read_image(&make().unwrap()).unwrap();
        let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(
            names[..2],
            ["README.TXT", "A long name, with spaces. And with dots.text"]
        );
        assert_eq!(entries.len(), 7);
        assert!(entries[6].directory && entries[6].sha256.is_none());
        assert_eq!(entries[4].bytes, 300_007);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_damaged_image_is_read_or_refused(
            patches in prop::collection::vec((0..70_000_usize, any::<u8>()), 1..40),
        ) {
            let mut image = make().unwrap();
            for (at, byte) in patches {
                // The table of partitions is as it is; all the rest may be anything.
                image[(1 << 20) + at] = byte;
            }
            let _ = read_image(&image);
        }
    }
}
