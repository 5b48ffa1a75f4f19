//! The interface of all dump formats.

use std::borrow::Cow;
use std::fmt;

use super::error::Error;
use super::format::DumpFormat;

/// A range of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PhysicalRange {
    /// Address of the first byte.
    pub start: u64,
    /// Length in bytes. A range may end at 2^64.
    pub len: u64,
}

impl PhysicalRange {
    /// Returns whether `next` has the address behind this range.
    pub fn is_before(&self, next: &Self) -> bool {
        self.start.checked_add(self.len) == Some(next.start)
    }

    /// Returns the part between two addresses, `last` included; `None` if it is empty.
    pub(crate) fn between(&self, first: u64, last: u64) -> Option<Self> {
        // Last addresses are compared, because an end may be 2^64.
        let start = first.max(self.start);
        let last = last.min(self.start.saturating_add(self.len.checked_sub(1)?));
        let len = last.checked_sub(start)?.checked_add(1)?;
        Some(Self { start, len })
    }
}

/// Contents of a dump at an address.
#[derive(Debug)]
pub(crate) enum Chunk<'a> {
    /// Bytes from there on: at least one, unless none are wanted.
    Bytes(Cow<'a, [u8]>),
    /// The dump lacks this number of bytes, at least one. It reaches to the next byte of the dump,
    /// or to the end of the address space.
    Missing(u64),
}

/// Statements of a dump about itself, and its faults.
#[derive(Debug)]
pub(crate) struct Facts {
    pub format: DumpFormat,
    /// Number of bytes that headers describe beyond the end of the file or of the address space.
    pub missing: u64,
    /// Number of bytes at the end that are in no range.
    pub unknown: u64,
    /// Number of bytes in parts of a split dump that were not opened.
    pub elsewhere: u64,
    /// The address ranges of these parts, in order.
    pub absent: Vec<PhysicalRange>,
    /// VMCOREINFO text of the crashed kernel, if a header of the dump has it: at most
    /// [`MAX_VMCOREINFO`] bytes.
    pub vmcoreinfo: Option<Vec<u8>>,
}

/// Limit for the VMCOREINFO text. Linux's has one page (`VMCOREINFO_BYTES`, include/linux/crash_core.h),
/// and that of a kernel with 64 KiB pages one of these.
pub(crate) const MAX_VMCOREINFO: usize = 64 << 10;

impl Facts {
    /// Returns the facts about a dump in which nothing is wrong.
    pub const fn of(format: DumpFormat) -> Self {
        Self {
            format,
            missing: 0,
            unknown: 0,
            elsewhere: 0,
            absent: Vec::new(),
            vmcoreinfo: None,
        }
    }

    /// Returns text about what is wrong, if anything is. `damaged` is the number of bytes that
    /// could not be decompressed, and `differing` that of overlapping bytes that differ from those
    /// read.
    pub fn doubt(&self, damaged: u64, differing: u64) -> Option<String> {
        let (missing, unknown) = (self.missing, self.unknown);
        // A range's header does not tell of the next one.
        let is_least = [DumpFormat::LIME, DumpFormat::AVML].contains(&self.format);
        let least = if is_least { "at least " } else { "" };
        let doubts = [
            (
                missing,
                format!(
                    "the image is cut short, as by a broken copy or a full disk: {least}{missing} \
                     bytes of memory that it promises are missing"
                ),
            ),
            (
                unknown,
                format!(
                    "{unknown} bytes at the end are in no known range, so records may be missing"
                ),
            ),
            (
                differing,
                format!("{differing} bytes in overlapping segments may differ from those read"),
            ),
            (
                damaged,
                format!("{damaged} bytes are missing, because their compressed blocks are damaged"),
            ),
            (self.elsewhere, self.absent()),
        ];
        let doubts = doubts.into_iter().filter(|(count, _)| *count > 0);
        let doubts: Vec<_> = doubts.map(|(_, doubt)| doubt).collect();
        (!doubts.is_empty()).then(|| doubts.join("; "))
    }
}

impl Facts {
    /// Returns text about the parts of a split dump that were not opened.
    fn absent(&self) -> String {
        /// Number of ranges in the text.
        const FEW: usize = 4;

        let ranges = self.absent.iter().take(FEW).map(|range| {
            let last = range.start.saturating_add(range.len.saturating_sub(1));
            format!("{:#x} to {last:#x}", range.start)
        });
        let more = if self.absent.len() > FEW { ", ..." } else { "" };
        format!(
            "{} bytes are in other parts of this split dump: addresses {}{more}; give all parts in one call",
            self.elsewhere,
            ranges.collect::<Vec<_>>().join(", "),
        )
    }
}

/// The memory in a dump, by physical address.
pub(crate) trait Container: fmt::Debug + Send + Sync {
    /// Returns the facts about the dump.
    fn facts(&self) -> &Facts;

    /// Returns the memory in the dump, by address, without overlaps and empty ranges.
    fn segments(&self) -> &[PhysicalRange];

    /// Returns the dump's contents at an address, at most `most` bytes. Contiguous bytes are returned
    /// together and without a copy where the file has them so.
    fn chunk(&self, at: u64, most: usize) -> Chunk<'_>;

    /// Returns the memory to search, by address. Holes of the file, and memory that repeats a part
    /// of the file, are left out.
    fn data(&self) -> Box<dyn Iterator<Item = PhysicalRange> + '_>;

    /// Returns the number of bytes to search at once, of which [`prefetch`](Self::prefetch) starts
    /// the loading. `None` if the system loads well ahead.
    fn ahead(&self) -> Option<usize> {
        None
    }

    /// Starts to load memory that is needed next.
    fn prefetch(&self, _range: PhysicalRange) {}

    /// Returns the number of bytes that were missing so far because their compressed form is damaged.
    fn damaged(&self) -> u64 {
        0
    }

    /// Returns the number of bytes in overlapping segments that differ from those read. They are
    /// compared here, after the search, because that takes a while.
    fn differing(&self) -> u64 {
        0
    }

    /// Returns whether some bytes could not be read, although the dump had them when it was opened.
    fn has_lost(&self) -> bool {
        false
    }

    /// Checks that all bytes read so far were in the dump.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// Returns the index of the range that contains an address, or the number of bytes to the next one.
pub(crate) fn find(segments: &[PhysicalRange], at: u64) -> Result<usize, u64> {
    let next = segments.partition_point(|segment| segment.start <= at);
    if let Some(index) = next.checked_sub(1)
        && at - segments[index].start < segments[index].len
    {
        return Ok(index);
    }
    let end = segments.get(next).map_or(u64::MAX, |next| next.start);
    Err((end - at).max(1))
}

/// Returns `len` bytes at an address; `None` if the dump lacks any of them. They are copied only if
/// they are not contiguous, and then at most `most`.
pub(crate) fn read(
    container: &dyn Container,
    at: u64,
    len: usize,
    most: usize,
) -> Option<Cow<'_, [u8]>> {
    let Chunk::Bytes(first) = container.chunk(at, len) else {
        return None;
    };
    if first.len() == len {
        return Some(first);
    }
    if len > most {
        return None;
    }
    let mut copy = first.into_owned();
    while copy.len() < len {
        let at = at.checked_add(copy.len() as u64)?;
        let Chunk::Bytes(next) = container.chunk(at, len - copy.len()) else {
            return None;
        };
        copy.extend_from_slice(&next);
    }
    Some(Cow::Owned(copy))
}
