//! The memory of a crashed machine, from a dump in any supported format.
//!
//! An [`Image`] is a list of [`Segment`]s by physical address. It reads three formats:
//!
//! - raw dumps: one segment, whose file offset is the physical address;
//! - ELF core files: kdump's `vmcore`, QEMU's `dump-guest-memory`;
//! - LiME dumps.
//!
//! It refuses known formats that it cannot read (compressed dumps and archives). The error states
//! the command that converts them.
//!
//! A regular file is mapped, not read: a 4 GiB image costs only the accessed pages. Holes of a
//! sparse file are found with `SEEK_DATA` and are not in [`Image::data_ranges`]. [`Image::detect`]
//! searches only these ranges, so its time and memory depend on the data and not on the size.
//!
//! A pipe or device is read into memory, up to 256 MiB. Each wait for its next bytes is bounded:
//! see [`Error`].
//!
//! # Files that change
//!
//! The mapping is the file. If another process writes to it, bytes already read may change. If
//! another process truncates it, or if the disk fails, the lost bytes become zeros, and
//! [`Image::check`] returns an error. Call it after an image was read. On Unix, the first open image
//! installs a handler for SIGBUS. It passes the signals of other memory on to the previous one. Work
//! on a copy of any file that is still being written.
//!
//! # Example
//!
//! ```
//! use nostall_postmortem::image::{Image, DumpFormat};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("memory.bin");
//! # std::fs::write(&path, b"....DBGC....")?;
//! let image = Image::open(&path)?;
//! assert_eq!(image.format(), DumpFormat::Raw);
//! for (physical, bytes) in image.data_ranges() {
//!     println!("{physical:#x}: {} bytes", bytes.len());
//! }
//! assert_eq!(image.read(4, 4).as_deref(), Some(&b"DBGC"[..]));
//! # Ok(())
//! # }
//! ```

mod bytes;
mod elf;
mod error;
mod extents;
pub(crate) mod foreign;
mod lime;
mod mapped;
mod segment;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::ptr;

pub(crate) use bytes::Bytes;
pub use bytes::{MAX_READ, open_file, read_to_end};
pub use error::Error;
pub use segment::{DumpFormat, MAX_SEGMENTS, Segment};

use crate::detect::run::Run;
use crate::detect::{self, Detection};

/// Limit for the bytes that [`Image::read`] copies if they are not contiguous in the file.
pub const MAX_COPY: usize = 256 << 20;

/// An open memory dump.
#[derive(Debug)]
pub struct Image {
    bytes: Bytes,
    kind: DumpFormat,
    segments: Vec<Segment>,
    /// Segments without the file ranges that a longer one contains.
    unique: Vec<Segment>,
    /// File ranges that are not holes, in order.
    extents: Vec<Range<u64>>,
    missing: u64,
    unknown: u64,
    differing: u64,
}

impl Image {
    /// Opens a memory image of any supported format.
    ///
    /// # Errors
    ///
    /// [`Error`] if the file cannot be read, or is not a memory image. Segments beyond the end of
    /// the file are no error: their available part is kept, see [`Image::missing`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::from_file(open_file(path)?)
    }

    /// Opens the memory image in an open file, for example one whose bytes were hashed. A file that
    /// cannot be mapped is read from its position on.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open).
    pub fn from_file(file: File) -> Result<Self, Error> {
        let (bytes, extents) = load(file)?;
        Self::of(bytes, extents)
    }

    /// Creates an image from bytes in memory, for example from a network or an archive.
    ///
    /// ```
    /// use nostall_postmortem::image::{Image, DumpFormat};
    ///
    /// let dump = [&0x4C69_4D45_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0; 24], b"!"].concat();
    /// let image = Image::from_bytes(dump)?;
    /// assert_eq!(image.format(), DumpFormat::Lime);
    /// assert_eq!(image.read(0, 1).as_deref(), Some(&b"!"[..]));
    /// # Ok::<(), nostall_postmortem::image::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open).
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Err(Error::Empty);
        }
        let extents = extents::all(bytes.len() as u64);
        Self::of(Bytes::Read(bytes), extents)
    }

    fn of(bytes: Bytes, extents: Vec<Range<u64>>) -> Result<Self, Error> {
        if let Some(error) = foreign::refuse(&bytes) {
            return Err(error);
        }
        let mut unknown = 0;
        let (kind, declared) = if let Some(segments) = elf::segments(&bytes)? {
            (DumpFormat::ElfCore, segments)
        } else if let Some(found) = lime::segments(&bytes, &extents)? {
            unknown = found.1;
            (DumpFormat::Lime, found.0)
        } else {
            (DumpFormat::Raw, vec![whole(&bytes)])
        };
        Ok(Self {
            unknown,
            ..Self::with(bytes, kind, declared, extents)
        })
    }

    fn with(
        bytes: Bytes,
        kind: DumpFormat,
        declared: Vec<Segment>,
        extents: Vec<Range<u64>>,
    ) -> Self {
        let (segments, repeated, missing) = settle(declared, bytes.len() as u64);
        let mut image = Self {
            unique: unique(&segments),
            bytes,
            kind,
            segments,
            extents,
            missing,
            unknown: 0,
            differing: 0,
        };
        image.differing = image.differing(&repeated);
        image
    }

    /// Returns the number of bytes in these repeated parts that differ from the segments, or are too
    /// many to compare.
    fn differing(&self, repeated: &[Segment]) -> u64 {
        // Maximum number of compared bytes. A comparison counts as at least 1 KiB, so that their
        // number is limited, too.
        let (mut left, mut differing) = (MAX_COPY, 0_u64);
        for part in repeated {
            let (mut at, mut own) = (part.physical, self.file(part.file_offset, part.len));
            while let Some(kept) = self.from(at).filter(|_| !own.is_empty()) {
                let (now, later) = own.split_at(own.len().min(kept.len()));
                let is_same = ptr::eq(now.as_ptr(), kept.as_ptr());
                let cost = if is_same { 0 } else { now.len() }.max(1024);
                if cost > left {
                    break;
                }
                left -= cost;
                if !is_same {
                    differing += now.iter().zip(kept).filter(|(a, b)| a != b).count() as u64;
                }
                (at, own) = (at.wrapping_add(now.len() as u64), later);
            }
            differing = differing.saturating_add(own.len() as u64);
        }
        differing
    }

    /// Opens a file as raw memory, regardless of its format: addresses are file offsets.
    ///
    /// # Errors
    ///
    /// [`Error`] if the file cannot be read or is empty.
    pub fn open_raw(path: impl AsRef<Path>) -> Result<Self, Error> {
        let (bytes, extents) = load(open_file(path)?)?;
        let segments = vec![whole(&bytes)];
        Ok(Self::with(bytes, DumpFormat::Raw, segments, extents))
    }

    /// Returns the format of the file.
    pub fn format(&self) -> DumpFormat {
        self.kind
    }

    /// Returns the memory in the image, by physical address, without overlaps.
    ///
    /// If the file's segments overlap (kdump stores the kernel's text twice), an address belongs to
    /// the segment that starts lower. Segments that are adjacent both in memory and in the file are
    /// joined.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the number of bytes that headers describe beyond the end of the file or of the address
    /// space. It is not 0 if the file was cut off.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns the number of bytes at the end of a LiME dump that are in no range. They do not begin
    /// with a known header. Zeros between ranges and behind the last one do not count.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Checks that all bytes read so far were in the file: no process has truncated it meanwhile, and
    /// the disk has not failed.
    ///
    /// # Errors
    ///
    /// [`Error::Shrunk`]: some bytes may have been read as zeros.
    pub fn check(&self) -> Result<(), Error> {
        self.bytes.check()
    }

    /// Returns whether zeros were read for bytes that the file had lost.
    pub(crate) fn has_lost(&self) -> bool {
        self.bytes.has_lost()
    }

    /// Returns text about [missing](Self::missing) or [unknown](Self::unknown) bytes, and about
    /// overlapping segments that differ, if there are any.
    pub fn doubt(&self) -> Option<String> {
        let (missing, unknown, differing) = (self.missing, self.unknown, self.differing);
        let doubts = [
            (
                missing,
                format!("the image is cut short: {missing} bytes that it promises are missing"),
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
        ];
        let doubts = doubts.into_iter().filter(|(count, _)| *count > 0);
        let doubts: Vec<_> = doubts.map(|(_, doubt)| doubt).collect();
        (!doubts.is_empty()).then(|| doubts.join("; "))
    }

    /// Returns the memory ranges with data and their physical addresses, in order. Only the file's
    /// holes are left out.
    ///
    /// No byte of the file is in two ranges. If segments share a part of the file, it belongs to
    /// the segment in the longest contiguous memory.
    pub fn data_ranges(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.unique.iter().flat_map(move |segment| {
            let (start, end) = (segment.file_offset, segment.file_offset + segment.len);
            let first = self.extents.partition_point(|extent| extent.end <= start);
            let extents = self.extents[first..]
                .iter()
                .take_while(move |extent| extent.start < end);
            extents.map(move |extent| {
                let (from, to) = (extent.start.max(start), extent.end.min(end));
                (
                    segment.physical + (from - start),
                    self.file(from, to - from),
                )
            })
        })
    }

    /// Searches the image for pstore regions with unknown addresses and parameters.
    ///
    /// A region may extend over segments with adjacent addresses, and into holes of the file.
    ///
    /// ```
    /// use nostall_postmortem::image::Image;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../drivers/pstore/tests/fixtures/plain/image.bin");
    /// let image = Image::open(path)?;
    /// let detection = image.detect();
    /// for found in detection.convincing() {
    ///     println!("{:#x}: {} bytes", found.start, found.len);
    /// }
    /// for found in detection.doubtful() {
    ///     println!("perhaps at {:#x}: {}", found.start, found.doubts.join("; "));
    /// }
    /// # assert_eq!(detection.convincing().len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn detect(&self) -> Detection {
        self.detect_within(0..u64::MAX)
    }

    /// Searches a part of the memory, as [`detect`](Self::detect) does. An end of [`u64::MAX`] is
    /// the end of the address space.
    pub fn detect_within(&self, window: Range<u64>) -> Detection {
        let last = match window.end {
            u64::MAX => Some(u64::MAX),
            end => end.checked_sub(1),
        };
        // Last addresses are compared, because an end may be 2^64.
        let clip = |start: u64, len: u64| {
            let first = start.max(window.start);
            let last = last?.min(start + (len - 1));
            (first <= last).then(|| (first, last - first + 1))
        };
        let pieces = self.segments.iter().filter_map(|segment| {
            let (start, len) = clip(segment.physical, segment.len)?;
            let offset = segment.file_offset + (start - segment.physical);
            Some((start, self.file(offset, len)))
        });
        let data = self.data_ranges().filter_map(|(physical, bytes)| {
            let (start, len) = clip(physical, bytes.len() as u64)?;
            Some((start, len as usize))
        });
        let file = self.bytes.as_ptr().addr();
        let prefetch = |part: &[u8]| self.bytes.prefetch(part.as_ptr().addr() - file, part.len());
        let is_sparse = self.extents.len() > 1;
        detect::in_runs(Run::join(pieces, data), is_sparse.then_some(&prefetch as _))
    }

    /// Returns `len` bytes at a physical address; `None` if the image lacks any of them.
    ///
    /// The bytes are copied only if they straddle segments, and then at most [`MAX_COPY`].
    pub fn read(&self, physical: u64, len: usize) -> Option<Cow<'_, [u8]>> {
        let mut at = self
            .segments
            .partition_point(|segment| segment.physical <= physical);
        at = at.checked_sub(1)?;
        let first = self.rest(at, physical)?;
        if let Some(together) = first.get(..len) {
            return Some(Cow::Borrowed(together));
        }
        if len > MAX_COPY {
            return None;
        }
        let mut copy = first.to_vec();
        while copy.len() < len {
            at += 1;
            let next = self.rest(at, physical.checked_add(copy.len() as u64)?)?;
            copy.extend_from_slice(&next[..next.len().min(len - copy.len())]);
        }
        Some(Cow::Owned(copy))
    }

    /// Returns the bytes from a physical address to the end of its segment.
    fn from(&self, physical: u64) -> Option<&[u8]> {
        let next = self
            .segments
            .partition_point(|segment| segment.physical <= physical);
        self.rest(next.checked_sub(1)?, physical)
    }

    /// Returns the bytes of segment `at` from a physical address on; `None` if the address is
    /// outside it.
    fn rest(&self, at: usize, physical: u64) -> Option<&[u8]> {
        let segment = self.segments.get(at)?;
        let skip = physical
            .checked_sub(segment.physical)
            .filter(|skip| *skip < segment.len)?;
        Some(self.file(segment.file_offset + skip, segment.len - skip))
    }

    /// Returns a part of the file. Segments and extents end with the file, so it fits in `usize`.
    fn file(&self, offset: u64, len: u64) -> &[u8] {
        &self.bytes[offset as usize..][..len as usize]
    }
}

fn load(file: File) -> Result<(Bytes, Vec<Range<u64>>), Error> {
    let bytes = Bytes::of(file)?;
    if bytes.is_empty() {
        return Err(Error::Empty);
    }
    let len = bytes.len() as u64;
    let extents = match &bytes {
        Bytes::Mapped(map) => extents::of(map.file(), len),
        Bytes::Read(_) => extents::all(len),
    };
    if extents.len() > 1 {
        bytes.look_in_places();
    }
    Ok((bytes, extents))
}

fn whole(bytes: &[u8]) -> Segment {
    Segment {
        physical: 0,
        file_offset: 0,
        len: bytes.len() as u64,
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

    // File ranges already assigned, from start to end. They do not touch.
    let mut taken = BTreeMap::<u64, u64>::new();
    let mut unique = Vec::with_capacity(segments.len());
    for (_, segment) in by_length {
        let (mut at, end) = (segment.file_offset, segment.file_offset + segment.len);
        let mut joined = at..end;
        let before = taken.range(..at).next_back();
        let first = before.map_or(at, |(start, _)| *start);
        let near = taken.range(first..=end).map(|(start, end)| *start..*end);
        let touching: Vec<_> = near.filter(|part| part.end >= at).collect();
        for part in touching {
            if at < part.start {
                unique.push(segment.part(at..part.start));
            }
            at = at.max(part.end);
            joined = joined.start.min(part.start)..joined.end.max(part.end);
            taken.remove(&part.start);
        }
        if at < end {
            unique.push(segment.part(at..end));
        }
        taken.insert(joined.start, joined.end);
    }
    unique.sort_by_key(|segment| segment.physical);
    unique
}
