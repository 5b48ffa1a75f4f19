//! Regions that nostall recorded, in files and in memory of crashed machines.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::Result;
use nostall_postmortem::cli::load_symbols;
use nostall_postmortem::ftrace_ring::RingSource;
use nostall_postmortem::symbols::Symbols;
use nostall_postmortem::{image as memory, trace_region};
use nostall_trace::layout::RegionHeader;
use nostall_trace::linux::Formats;
use nostall_trace::model::Source;
use nostall_trace::{HeaderFault, Image, ZoneEvents, recover};

use super::input::{Candidate, Options};

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

    fn read_once(&self, at: u64, into: &mut [u8]) -> bool {
        let mut file = &self.file;
        let sought = file.seek(SeekFrom::Start(at));
        sought.is_ok() && file.read_exact(into).is_ok()
    }
}

impl Image for FileImage {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        if !self.read_once(at, into) {
            return false;
        }
        if !self.is_written || into.len() <= 8 {
            return true;
        }
        // The recorder writes a slot's first word before its second. Of a slot that it writes
        // meanwhile, the second word must therefore be read first.
        let mut later = vec![0; into.len()];
        let is_read = self.read_once(at, &mut later);
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
    let symbols = symbols(options)?;
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

fn symbols(options: &Options) -> Result<Option<Symbols>> {
    options.symbols.as_deref().map(load_symbols).transpose()
}

/// Opens a recording of nostall. One with a damaged header is left to [`open_image`], which
/// restores more of it.
pub fn open(candidate: &Candidate<'_>) -> Result<Option<Box<dyn Source>>> {
    let header = candidate.head.first_chunk();
    if !header.is_some_and(|header| RegionHeader::decode(header).is_ok()) {
        return Ok(None);
    }
    let image = FileImage::open(candidate.path, false)?;
    let events = events(image, candidate.options)?.ok();
    Ok(events.map(|events| Box::new(events) as _))
}

/// Opens memory of a crashed machine, or a damaged recording.
pub fn open_image(candidate: &Candidate<'_>) -> Result<Option<Box<dyn Source>>> {
    let image = memory::Image::open(candidate.path)?;
    if let Some(source) = trace_region::open(image, symbols(candidate.options)?) {
        return Ok(Some(source));
    }
    // Linux's own trace. Without the formats of that kernel, its events are numbers.
    let symbols = symbols(candidate.options)?;
    let source = RingSource::open(candidate.path, symbols, Formats::default())?;
    Ok(source.map(|source| Box::new(source) as _))
}
