//! Raw dumps: the file offset is the physical address.

use std::sync::Arc;

use super::container::{Container, Facts};
use super::file::DumpFile;
use super::format::DumpFormat;
use super::segments::{FileSegments, Segment};

impl DumpFormat {
    /// Memory only: the file offset is the physical address.
    pub const RAW: Self = Self {
        name: "raw",
        word: "raw",
    };
}

/// Opens any file.
pub(super) fn container(file: &Arc<DumpFile>) -> Box<dyn Container> {
    let whole = Segment {
        physical: 0,
        file_offset: 0,
        len: file.bytes.len() as u64,
    };
    let facts = Facts::of(DumpFormat::RAW);
    Box::new(FileSegments::new(file, facts, vec![whole]))
}
