//! Recordings of nostall in files.

use std::fs::File;
use std::path::Path;

use anyhow::Result;
use nostall_trace::model::Source;
use nostall_trace::{Image, ZoneEvents, recover};

/// Magic of a region, in both byte orders.
const MAGICS: [&[u8]; 2] = [b"NOSTRACE", b"ECARTSON"];

/// Opens a file that begins with a region.
pub fn open(path: &Path, head: &[u8]) -> Result<Option<Box<dyn Source>>> {
    if !MAGICS.iter().any(|magic| head.starts_with(magic)) {
        return Ok(None);
    }
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    let region = recover(Contents { file, len })?;
    Ok(Some(Box::new(ZoneEvents::new(region, Box::new(|_| None)))))
}

/// Contents of a file, read in small parts: a trace may be larger than the memory.
#[derive(Debug)]
struct Contents {
    file: File,
    len: u64,
}

impl Image for Contents {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        read_at(&self.file, at, into)
    }
}

#[cfg(unix)]
fn read_at(file: &File, at: u64, into: &mut [u8]) -> bool {
    std::os::unix::fs::FileExt::read_exact_at(file, into, at).is_ok()
}

#[cfg(not(unix))]
fn read_at(mut file: &File, at: u64, into: &mut [u8]) -> bool {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(at)).is_ok() && file.read_exact(into).is_ok()
}
