//! Regions that nostall recorded, in files.

use std::fs::File;
use std::path::Path;
use std::rc::Rc;

use anyhow::Result;
use nostall_trace::layout::RegionHeader;
use nostall_trace::{HeaderFault, Image, Recovered, recover};
use nostall_tracefile::ZoneEvents;
use nostall_tracefile::model::Source;

use super::candidate::Candidate;
use super::names::{Names, Shared};

/// Bytes of a region in a file, which are not kept in memory. A recorder may be writing them.
pub struct FileImage {
    file: File,
    len: u64,
}

impl FileImage {
    /// Opens the file at `path`.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, len })
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
        if !read_at(&self.file, at, into) {
            return false;
        }
        if into.len() <= 8 {
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
    let image = FileImage::open(candidate.path)?;
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
