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
//! # While an image is open, no program may truncate it
//!
//! The mapping is the file. If another process truncates the file, the next access beyond its new
//! end raises SIGBUS. If another process writes to it, bytes already read may change. Work on a
//! copy of any file that is still being written.
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
mod segment;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

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
}

impl Image {
    /// Opens a memory image of any supported format.
    ///
    /// # Errors
    ///
    /// [`Error`] if the file cannot be read, or is not a memory image. Segments beyond the end of
    /// the file are no error: their available part is kept, see [`Image::missing`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let (bytes, extents) = load(path.as_ref())?;
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
    /// As for [`open`](Self::open).
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
        let (kind, declared) = if let Some(segments) = elf::segments(&bytes)? {
            (DumpFormat::ElfCore, segments)
        } else if let Some(segments) = lime::segments(&bytes)? {
            (DumpFormat::Lime, segments)
        } else {
            (DumpFormat::Raw, vec![whole(&bytes)])
        };
        Ok(Self::with(bytes, kind, declared, extents))
    }

    fn with(
        bytes: Bytes,
        kind: DumpFormat,
        declared: Vec<Segment>,
        extents: Vec<Range<u64>>,
    ) -> Self {
        let (segments, missing) = settle(declared, bytes.len() as u64);
        Self {
            unique: unique(&segments),
            bytes,
            kind,
            segments,
            extents,
            missing,
        }
    }

    /// Opens a file as raw memory, regardless of its format: addresses are file offsets.
    ///
    /// # Errors
    ///
    /// [`Error`] if the file cannot be read or is empty.
    pub fn open_raw(path: impl AsRef<Path>) -> Result<Self, Error> {
        let (bytes, extents) = load(path.as_ref())?;
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

    /// Returns the number of bytes that headers describe beyond the end of the file. It is not 0 if
    /// the file was cut off.
    pub fn missing(&self) -> u64 {
        self.missing
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
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../nostall-pstore/tests/fixtures/plain/image.bin");
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

    /// Searches a part of the memory, as [`detect`](Self::detect) does.
    pub fn detect_within(&self, window: Range<u64>) -> Detection {
        let clip = |start: u64, end: u64| start.max(window.start)..end.min(window.end);
        let pieces = self.segments.iter().filter_map(|segment| {
            let part = clip(segment.physical, segment.physical + segment.len);
            let len = part.end.checked_sub(part.start).filter(|&len| len > 0)?;
            let offset = segment.file_offset + (part.start - segment.physical);
            Some((part.start, self.file(offset, len)))
        });
        let data = self.data_ranges().filter_map(|(physical, bytes)| {
            let part = clip(physical, physical + bytes.len() as u64);
            (part.start < part.end).then_some(part)
        });
        let file = self.bytes.as_ptr().addr();
        let prefetch = |part: &[u8]| self.bytes.prefetch(part.as_ptr().addr() - file, part.len());
        let is_sparse = self.extents.len() > 1;
        detect::in_runs(
            &Run::join(pieces, data),
            is_sparse.then_some(&prefetch as _),
        )
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

fn load(path: &Path) -> Result<(Bytes, Vec<Range<u64>>), Error> {
    let (file, bytes) = Bytes::open(path)?;
    if bytes.is_empty() {
        return Err(Error::Empty);
    }
    let extents = match bytes {
        Bytes::Mapped(_) => extents::of(&file, bytes.len() as u64),
        Bytes::Read(_) => extents::all(bytes.len() as u64),
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
/// and no empty segments. Also returns the number of bytes that the file lacks.
fn settle(mut segments: Vec<Segment>, file_len: u64) -> (Vec<Segment>, u64) {
    let mut missing: u64 = 0;
    for segment in &mut segments {
        let there = file_len.saturating_sub(segment.file_offset);
        let fits = segment.len.min(there).min(u64::MAX - segment.physical);
        missing = missing.saturating_add(segment.len.saturating_sub(there));
        segment.len = fits;
    }
    segments.sort_by_key(|segment| (segment.physical, Reverse(segment.len)));
    let mut end = 0;
    segments.retain_mut(|segment| {
        let known = end.max(segment.physical) - segment.physical;
        if known >= segment.len {
            return false;
        }
        segment.physical += known;
        segment.file_offset += known;
        segment.len -= known;
        end = segment.physical + segment.len;
        true
    });
    segments.dedup_by(|next, before| {
        let goes_on = before.physical + before.len == next.physical
            && before.file_offset + before.len == next.file_offset;
        if goes_on {
            before.len += next.len;
        }
        goes_on
    });
    (segments, missing)
}

/// Returns the segments without shared file ranges, by address. The segment in the longest
/// contiguous memory keeps a shared range.
fn unique(segments: &[Segment]) -> Vec<Segment> {
    let mut by_length: Vec<(u64, &Segment)> = Vec::with_capacity(segments.len());
    for run in segments.chunk_by(|a, b| a.physical + a.len == b.physical) {
        let len = run.iter().map(|segment| segment.len).sum();
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
