//! Dump formats, and memory segments.

use std::ops::Range;

/// Maximum number of segments. The largest real dumps have thousands: QEMU's with `-p` has one for
/// each range of pages with the same mapping. An open image needs 48 bytes for each.
pub const MAX_SEGMENTS: usize = 1 << 18;

/// Format of a file from which an [`Image`](super::Image) is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display)]
pub enum DumpFormat {
    /// Memory only: the file offset is the physical address.
    #[strum(to_string = "raw")]
    Raw,
    /// An ELF core file: kdump's `vmcore`, QEMU's `dump-guest-memory`.
    #[strum(to_string = "ELF core")]
    ElfCore,
    /// A dump by LiME, the Linux Memory Extractor.
    #[strum(to_string = "LiME")]
    Lime,
}

/// A range of physical memory that is contiguous in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Physical address of the first byte.
    pub physical: u64,
    /// Offset of the first byte in the file.
    pub file_offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Segment {
    /// Returns whether `next` has the address behind this segment.
    pub fn is_before(&self, next: &Self) -> bool {
        self.physical.checked_add(self.len) == Some(next.physical)
    }

    /// Returns the part of the segment that contains this file range.
    pub(super) fn part(&self, file: Range<u64>) -> Self {
        Self {
            physical: self.physical + (file.start - self.file_offset),
            file_offset: file.start,
            len: file.end - file.start,
        }
    }
}
