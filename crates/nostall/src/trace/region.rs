//! Regions that nostall recorded, in files.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use nostall_postmortem::symbols::Symbols;
use nostall_trace::layout::RegionHeader;
use nostall_trace::model::Source;
use nostall_trace::{HeaderFault, Image, ZoneEvents, recover};

use super::candidate::{Candidate, Options};

/// Bytes of a region in a file, which are not kept in memory.
pub struct FileImage {
    file: File,
    len: u64,
    is_written: bool,
}

impl FileImage {
    /// The file at `path`. `is_written`: a recorder may still write it.
    pub fn open(path: &Path, is_written: bool) -> Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self {
            file,
            len,
            is_written,
        })
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
        if !read_at(&self.file, at, into) {
            return false;
        }
        if !self.is_written || into.len() <= 8 {
            return true;
        }
        // The recorder writes a slot's first word before its second. Of a slot that it writes
        // meanwhile, the second word must therefore be read first.
        let mut later = vec![0; into.len()];
        let is_read = read_at(&self.file, at, &mut later);
        for (at, word) in later.chunks(8).enumerate().step_by(2) {
            into[at * 8..at * 8 + word.len()].copy_from_slice(word);
        }
        is_read
    }
}

/// Events of the region in this image.
pub fn events(
    image: FileImage,
    options: &Options,
) -> Result<Result<ZoneEvents<'static, FileImage>, HeaderFault>> {
    let symbols = options.symbols.as_deref().map(|path| {
        let name = path.display();
        Symbols::load(path).with_context(|| format!("--symbols {name}"))
    });
    let symbols = symbols.transpose()?;
    let region = match recover(image) {
        Ok(region) => region,
        Err(fault) => return Ok(Err(fault)),
    };
    let name = move |address| {
        let symbol = symbols.as_ref()?.lookup(address)?;
        Some(symbol.name.to_string())
    };
    Ok(Ok(ZoneEvents::new(region, Box::new(name))))
}

/// Opens a recording of nostall. One with a damaged header is read as memory, which restores more
/// of it.
pub fn open(candidate: &Candidate<'_>) -> Result<Option<Box<dyn Source>>> {
    let header = candidate.head.first_chunk();
    if header.is_none_or(|header| RegionHeader::decode(header).is_err()) {
        return Ok(None);
    }
    let image = FileImage::open(candidate.path, false)?;
    let events = events(image, candidate.options)?.ok();
    Ok(events.map(|events| Box::new(events) as _))
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
