//! Regions that nostall recorded, in files.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use anyhow::Result;
use nostall_trace::layout::{REGION_HEADER, RegionHeader};
use nostall_trace::model::Source;
use nostall_trace::{HeaderFault, Image, Recovered, ZoneEvents, recover};

use super::candidate::Candidate;
use super::names::{Names, Shared};

/// Bytes of a region in a file, which are not kept in memory.
pub struct FileImage {
    file: File,
    start: u64,
    len: u64,
    is_written: bool,
}

impl FileImage {
    /// Opens the file at `path`. With `is_written`, a recorder may still be writing it.
    pub fn open(path: &Path, is_written: bool) -> Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self {
            file,
            start: 0,
            len,
            is_written,
        })
    }

    /// Returns the bytes at a place in a file that a recorder may be writing.
    pub const fn part(file: File, place: &Range<u64>) -> Self {
        Self {
            file,
            start: place.start,
            len: place.end - place.start,
            is_written: true,
        }
    }

    /// Returns the header of the region that begins at `at`.
    pub fn header(&self, at: u64) -> Result<RegionHeader, HeaderFault> {
        let mut header = [0; REGION_HEADER];
        match self.read(at, &mut header) {
            true => RegionHeader::decode(&header),
            false => Err(HeaderFault::Magic),
        }
    }

    pub const fn file(&self) -> &File {
        &self.file
    }
}

impl Image for FileImage {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let end = at.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > self.len) {
            return false;
        }
        let at = self.start + at;
        if !read_at(&self.file, at, into) {
            return false;
        }
        if !self.is_written || into.len() <= 8 {
            return true;
        }
        // The recorder writes a slot's first word before its second. The second word must therefore
        // be read first, so the first words are taken from a later read.
        let mut later = vec![0; into.len()];
        let is_read = read_at(&self.file, at, &mut later);
        for (at, word) in later.chunks(8).enumerate().step_by(2) {
            into[at * 8..at * 8 + word.len()].copy_from_slice(word);
        }
        is_read
    }
}

/// Returns the region in this image, and the names of its functions.
///
/// # Errors
///
/// The fault of a damaged header, which may have a wrong clock rate.
pub fn recovered(
    image: FileImage,
    names: &Rc<Names>,
) -> Result<(Recovered<FileImage>, Shared), HeaderFault> {
    let region = recover(image)?;
    if let Some(fault) = region.fault() {
        return Err(fault);
    }
    let names = names.of(&region);
    Ok((region, names))
}

/// Opens a recording of nostall with an intact header. `None` for a damaged one, from which the
/// search in memory restores more.
pub fn open(candidate: &Candidate<'_>) -> Result<Option<Box<dyn Source>>> {
    let header = candidate.head.first_chunk();
    if header.is_none_or(|header| RegionHeader::decode(header).is_err()) {
        return Ok(None);
    }
    let image = FileImage::open(candidate.path, false)?;
    let names = Names::new(candidate.path, candidate.options)?;
    let region = recovered(image, &names).ok();
    Ok(region.map(|(region, names)| Box::new(ZoneEvents::new(region, Box::new(names))) as _))
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
