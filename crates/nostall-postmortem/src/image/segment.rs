//! Formats of dumps, and the runs of memory in them.

use std::ops::Range;

/// The most segments an image may have. The largest real dumps have some thousands (QEMU's, with
/// `-p`, one for every run of pages that is mapped alike).
pub const MAX_SEGMENTS: usize = 1 << 20;

/// Format of a file that an [`Image`](super::Image) is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display)]
pub enum DumpFormat {
    /// Memory and nothing else: the file's offset is the physical address.
    #[strum(to_string = "raw")]
    Raw,
    /// An ELF core file: kdump's `vmcore`, QEMU's `dump-guest-memory`.
    #[strum(to_string = "ELF core")]
    ElfCore,
    /// A dump by LiME, the Linux Memory Extractor.
    #[strum(to_string = "LiME")]
    Lime,
}

/// A run of physical memory that lies together in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// The physical address of its first byte.
    pub physical: u64,
    /// Where that byte is in the file.
    pub file_offset: u64,
    /// How many bytes the file has of it.
    pub len: u64,
}

impl Segment {
    /// The part of it that has these bytes of the file.
    pub(super) fn part(&self, file: Range<u64>) -> Self {
        Self {
            physical: self.physical + (file.start - self.file_offset),
            file_offset: file.start,
            len: file.end - file.start,
        }
    }
}
