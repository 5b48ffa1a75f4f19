//! Dumps whose memory is in the file as it was: the container of raw files, ELF cores and LiME
//! dumps.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;
use std::ptr;
use std::sync::{Arc, OnceLock};

use super::container::{Chunk, Container, Facts, PhysicalRange, find};
use super::error::Error;
use super::file::DumpFile;
use super::taken::Taken;

/// Limit for the bytes of overlapping segments that are compared.
const MOST_COMPARED: usize = 256 << 20;

/// Number of bytes that are compared at once. An identical part costs 1 KiB of the limit in each.
const PIECE: usize = 1 << 20;

/// Number of bytes that systems load at once.
const AHEAD: usize = 128 << 10;

/// A range of physical memory that is contiguous in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Physical address of the first byte.
    pub physical: u64,
    /// Offset of the first byte in the file.
    pub file_offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Segment {
    const fn range(&self) -> PhysicalRange {
        PhysicalRange {
            start: self.physical,
            len: self.len,
        }
    }

    /// Returns whether `next` has the address behind this segment.
    fn is_before(&self, next: &Self) -> bool {
        self.range().is_before(&next.range())
    }

    /// Returns the part of the segment that contains this file range.
    fn part(&self, file: Range<u64>) -> Self {
        Self {
            physical: self.physical + (file.start - self.file_offset),
            file_offset: file.start,
            len: file.end - file.start,
        }
    }
}

/// Segments of memory in a file.
#[derive(Debug)]
pub(super) struct FileSegments {
    file: Arc<DumpFile>,
    facts: Facts,
    segments: Vec<PhysicalRange>,
    /// Offset of each segment in the file.
    offsets: Vec<u64>,
    /// Segments without the file ranges that a longer one contains.
    unique: Vec<Segment>,
    /// Parts of segments that repeat others.
    repeated: Vec<Segment>,
    differing: OnceLock<u64>,
}

impl FileSegments {
    /// Creates the container of the segments that a file declares, in any order. Overlaps, and parts
    /// outside the file or the address space, are left out and counted. Offsets are those in the
    /// file as it is, not in a flattened one's contents.
    pub(super) fn new(file: &Arc<DumpFile>, mut facts: Facts, declared: Vec<Segment>) -> Self {
        let (segments, repeated, missing) = settle(declared, file.bytes.len() as u64);
        facts.missing = facts.missing.saturating_add(missing);
        Self {
            file: Arc::clone(file),
            facts,
            unique: unique(&segments),
            offsets: segments.iter().map(|segment| segment.file_offset).collect(),
            segments: segments.iter().map(Segment::range).collect(),
            repeated,
            differing: OnceLock::new(),
        }
    }

    /// Returns the number of bytes in repeated parts that differ from the segments, or are too many
    /// to compare.
    fn compare(&self) -> u64 {
        // Maximum number of compared bytes. A comparison counts as at least 1 KiB, so that their
        // number is limited, too.
        let (mut left, mut differing) = (MOST_COMPARED, 0_u64);
        for part in &self.repeated {
            let (mut at, mut own) = (part.physical, self.part(part.file_offset, part.len));
            while let Ok((_, kept)) = self.from(at)
                && !own.is_empty()
            {
                let (now, later) = own.split_at(own.len().min(kept.len()).min(PIECE));
                let is_same = ptr::eq(now.as_ptr(), kept.as_ptr());
                let cost = if is_same { 0 } else { now.len() }.max(1024);
                if cost > left {
                    break;
                }
                left -= cost;
                if !is_same && *now != kept[..now.len()] {
                    differing += now.iter().zip(kept).filter(|(a, b)| a != b).count() as u64;
                }
                self.file.used(2 * now.len() as u64);
                (at, own) = (at.wrapping_add(now.len() as u64), later);
            }
            differing = differing.saturating_add(own.len() as u64);
        }
        differing
    }

    /// Returns the bytes from a physical address to the end of its segment, and their offset in the
    /// file.
    fn from(&self, physical: u64) -> Result<(u64, &[u8]), u64> {
        let index = find(&self.segments, physical)?;
        let segment = self.segments[index];
        let skip = physical - segment.start;
        let offset = self.offsets[index] + skip;
        Ok((offset, self.part(offset, segment.len - skip)))
    }

    /// Returns a part of the file. Segments and extents end with the file, so it fits in `usize`.
    fn part(&self, offset: u64, len: u64) -> &[u8] {
        &self.file.bytes[offset as usize..][..len as usize]
    }
}

impl Container for FileSegments {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn segments(&self) -> &[PhysicalRange] {
        &self.segments
    }

    fn chunk(&self, at: u64, most: usize) -> Chunk<'_> {
        match self.from(at) {
            Ok((offset, bytes)) => {
                let bytes = &bytes[..bytes.len().min(most)];
                self.file.touched(offset, bytes.len() as u64);
                Chunk::Bytes(Cow::Borrowed(bytes))
            }
            Err(missing) => Chunk::Missing(missing),
        }
    }

    /// No byte of the file is in two ranges. If segments share a part of the file, it belongs to
    /// the segment in the longest contiguous memory.
    fn data(&self) -> Box<dyn Iterator<Item = PhysicalRange> + '_> {
        Box::new(self.unique.iter().flat_map(|segment| {
            let (start, end) = (segment.file_offset, segment.file_offset + segment.len);
            let extents = &self.file.extents;
            let first = extents.partition_point(|extent| extent.end <= start);
            let extents = extents[first..]
                .iter()
                .take_while(move |extent| extent.start < end);
            extents.map(move |extent| {
                let (from, to) = (extent.start.max(start), extent.end.min(end));
                segment.part(from..to).range()
            })
        }))
    }

    fn ahead(&self) -> Option<usize> {
        (self.file.extents.len() > 1).then_some(AHEAD)
    }

    fn prefetch(&self, range: PhysicalRange) {
        if let Ok(index) = find(&self.segments, range.start) {
            let offset = self.offsets[index] + (range.start - self.segments[index].start);
            self.file
                .bytes
                .prefetch(offset as usize, range.len as usize);
        }
    }

    fn differing(&self) -> u64 {
        *self.differing.get_or_init(|| self.compare())
    }

    fn has_lost(&self) -> bool {
        self.file.bytes.has_lost()
    }

    fn check(&self) -> Result<(), Error> {
        self.file.bytes.check()
    }
}

/// Sorts segments and truncates them to the file and the address space. The result has no overlaps
/// and no empty segments. Also returns the overlapping parts that were left out, and the number of
/// bytes that were cut off.
fn settle(mut segments: Vec<Segment>, file_len: u64) -> (Vec<Segment>, Vec<Segment>, u64) {
    let mut missing: u64 = 0;
    for segment in &mut segments {
        let there = file_len.saturating_sub(segment.file_offset);
        // A segment may end at 2^64.
        let most = (u64::MAX - segment.physical).saturating_add(1);
        let len = segment.len.min(there).min(most);
        missing = missing.saturating_add(segment.len - len);
        segment.len = len;
    }
    segments.sort_by_key(|segment| (segment.physical, Reverse(segment.len)));
    let mut last = None;
    let mut repeated = Vec::new();
    segments.retain_mut(|segment| {
        let known = last.and_then(|last: u64| last.checked_sub(segment.physical));
        let known = known.map_or(0, |known| known.saturating_add(1));
        let known = known.min(segment.len);
        if known > 0 {
            repeated.push(Segment {
                len: known,
                ..*segment
            });
        }
        if known == segment.len {
            return false;
        }
        segment.physical += known;
        segment.file_offset += known;
        segment.len -= known;
        last = Some(segment.physical + (segment.len - 1));
        true
    });
    segments.dedup_by(|next, before| {
        let goes_on = before.is_before(next) && before.file_offset + before.len == next.file_offset;
        if goes_on {
            before.len += next.len;
        }
        goes_on
    });
    (segments, repeated, missing)
}

/// Returns the segments without shared file ranges, by address. The segment in the longest
/// contiguous memory keeps a shared range.
fn unique(segments: &[Segment]) -> Vec<Segment> {
    let mut by_length: Vec<(u64, &Segment)> = Vec::with_capacity(segments.len());
    for run in segments.chunk_by(Segment::is_before) {
        let lens = run.iter().map(|segment| segment.len);
        let len = lens.fold(0, u64::saturating_add);
        by_length.extend(run.iter().map(|segment| (len, segment)));
    }
    by_length.sort_by_key(|(len, _)| Reverse(*len));

    let mut taken = Taken::default();
    let mut unique = Vec::with_capacity(segments.len());
    for (_, segment) in by_length {
        let file = segment.file_offset..segment.file_offset + segment.len;
        taken.take(file, |free| unique.push(segment.part(free)));
    }
    unique.sort_by_key(|segment| segment.physical);
    unique
}
