//! A file's bytes: mapped where it can be, read where it must be.

use std::fs::File;
use std::io::Read;
use std::ops::Deref;

use memmap2::Mmap;

use super::Error;

/// The most that is read into memory of what cannot be mapped: pipes, devices, some of /proc.
pub(crate) const MAX_READ: u64 = 1 << 30;

#[derive(Debug)]
pub(crate) enum Bytes {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl Bytes {
    pub(crate) fn of(file: &File) -> Result<Self, Error> {
        let meta = file.metadata()?;
        // Files in /proc say 0 and have something.
        if meta.is_file() && meta.len() > 0 {
            // SAFETY: the mapping is only ever read, as bytes, for which every value is valid.
            // memmap2 asks that the file be left alone while it is mapped; no program can force
            // that on others, and the documentation of `image` says what happens otherwise.
            if let Ok(map) = unsafe { Mmap::map(file) } {
                return Ok(Self::Mapped(map));
            }
        }
        let mut read = Vec::new();
        file.take(MAX_READ + 1).read_to_end(&mut read)?;
        if read.len() as u64 > MAX_READ {
            return Err(Error::TooLarge);
        }
        Ok(Self::Read(read))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(read) => read,
        }
    }
}
