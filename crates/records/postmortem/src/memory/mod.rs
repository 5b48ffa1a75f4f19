//! The memory of a crashed machine, from a dump in any supported format.
//!
//! A [`Memory`] has bytes at physical addresses, in [segments](Memory::segments). It reads these
//! formats:
//!
//! - raw dumps: one segment, whose file offset is the physical address;
//! - ELF core files: kdump's `vmcore`, QEMU's `dump-guest-memory`, makedumpfile's `-E`;
//! - kdump files of 64-bit little-endian machines: makedumpfile's, and QEMU's `dump-guest-memory -z`.
//!   Pages in zlib, LZO, Snappy or Zstandard are decompressed when they are read;
//! - LiME dumps;
//! - AVML's compressed dumps, whose blocks are decompressed when they are read.
//!
//! A kdump file or ELF core may be flattened (`makedumpfile -F`). Any of them may be compressed as a
//! whole, with gzip, Zstandard, xz or lz4. Such a file is unpacked into memory, up to
//! [`MAX_UNPACKED`]; if it is cut off, up to there. [`Memory::open_split`] opens the parts of a split dump.
//!
//! A page that the dump's writer left out is missing, and never zeros. So is a page whose compressed
//! form is damaged. Only zlib's pages have a checksum.
//!
//! It refuses known formats that it cannot read. The error states the command that converts them.
//!
//! A regular file is mapped, not read: a 4 GiB dump costs only the accessed pages. Holes of a
//! sparse file are found with `SEEK_DATA` and are not in [`Memory::data`]. [`Discovery`](crate::discovery::Discovery)
//! searches only this data, so its time and memory depend on the data and not on the size.
//!
//! A pipe or device is read into memory, up to 256 MiB. Each wait for its next bytes is bounded:
//! see [`Error`].
//!
//! # Files that change
//!
//! The mapping is the file. If another process writes to it, bytes already read may change. If
//! another process truncates it, or if the disk fails, the lost bytes become zeros, and
//! [`Memory::check`] returns an error. Call it after a dump was read. On Unix, the first open dump
//! installs a handler for SIGBUS. It passes the signals of other memory on to the previous one. Work
//! on a copy of any file that is still being written.
//!
//! # Example
//!
//! ```
//! use nostall_postmortem::memory::{DumpFormat, Memory};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("memory.bin");
//! # std::fs::write(&path, b"....DBGC....")?;
//! let memory = Memory::open(&path)?;
//! assert_eq!(memory.format(), DumpFormat::RAW);
//! for (physical, bytes) in memory.data() {
//!     println!("{physical:#x}: {} bytes", bytes.len());
//! }
//! assert_eq!(memory.read(4, 4).as_deref(), Some(&b"DBGC"[..]));
//! # Ok(())
//! # }
//! ```

mod avml;
pub(crate) mod container;
mod elf;
mod error;
mod extents;
mod file;
mod flattened;
pub(crate) mod foreign;
mod format;
mod kdump;
mod kept;
mod lime;
mod mapped;
pub(crate) mod partial;
mod raw;
pub(crate) mod run;
mod segments;
pub(crate) mod slices;
mod taken;
mod unpack;

use std::borrow::Cow;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub use container::PhysicalRange;
pub use error::Error;
pub(crate) use file::Bytes;
pub use file::{MAX_READ, open_file, read_to_end};
pub use format::{DumpFormat, MAX_SEGMENTS, MAX_UNPACKED};
pub use kdump::split::group_split;
pub use partial::Partial;

use crate::detect::FoundRegion;
use container::{Chunk, Container};
use file::DumpFile;
use flattened::Flattened;

/// Limit for the bytes that [`Memory::read`] copies if they are not contiguous in the file.
pub const MAX_COPY: usize = 256 << 20;

/// Opens a file of a format; `None` if the file has another one.
type Open = fn(&Arc<DumpFile>) -> Result<Option<Box<dyn Container>>, Error>;

/// The formats. Any other file is a raw dump.
const FORMATS: [Open; 4] = [elf::open, kdump::open, lime::open, avml::open];

/// Number of formats, the first ones, that may be in a flattened file.
const FLATTENED: usize = 2;

/// The memory in an open dump.
#[derive(Debug)]
pub struct Memory {
    container: Box<dyn Container>,
    /// Number of bytes of a compressed file that were unpacked, if there would be more.
    cut: Option<usize>,
}

impl Memory {
    /// Opens a dump of any supported format.
    ///
    /// # Errors
    ///
    /// [`Error`] if the file cannot be read, or is no dump. Segments beyond the end of the file are
    /// no error: their available part is kept, see [`Memory::missing`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::from_file(open_file(path)?)
    }

    /// Opens the dump in an open file, for example one whose bytes were hashed. A file that cannot
    /// be mapped is read from its position on.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open).
    pub fn from_file(file: File) -> Result<Self, Error> {
        Self::of(DumpFile::open(file)?)
    }

    /// Opens the dump in these bytes, for example from a network or an archive.
    ///
    /// ```
    /// use nostall_postmortem::memory::{DumpFormat, Memory};
    ///
    /// let dump = [&0x4C69_4D45_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0; 24], b"!"].concat();
    /// let memory = Memory::from_bytes(dump)?;
    /// assert_eq!(memory.format(), DumpFormat::LIME);
    /// assert_eq!(memory.read(0, 1).as_deref(), Some(&b"!"[..]));
    /// # Ok::<(), nostall_postmortem::memory::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open).
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        Self::of(DumpFile::new(Bytes::Read(bytes))?)
    }

    fn of(mut file: DumpFile) -> Result<Self, Error> {
        let mut cut = None;
        if let Some((unpacked, is_whole)) = unpack::unpack(&file.bytes)? {
            file.bytes.check()?;
            cut = (!is_whole).then_some(unpacked.len());
            file = DumpFile::new(Bytes::Read(unpacked))?;
        }
        if let Some(error) = foreign::refuse(&file.bytes) {
            return Err(error);
        }
        file.flattened = Flattened::parse(&file.bytes, |len| file.used(len))?;
        let file = Arc::new(file);
        let formats = match file.flattened {
            Some(_) => &FORMATS[..FLATTENED],
            None => &FORMATS[..],
        };
        for open in formats {
            if let Some(container) = open(&file)? {
                return Ok(Self { container, cut });
            }
        }
        match file.flattened {
            Some(_) => Err(foreign::flattened()),
            None => Ok(Self {
                cut,
                ..Self::whole(raw::container(&file))
            }),
        }
    }

    /// Opens the parts of a split dump (`makedumpfile --split`) as one memory, in any order.
    ///
    /// [`group_split`] finds the parts among other files. Missing parts are no error: their memory
    /// is missing, and [`doubt`](Self::doubt) names its addresses.
    ///
    /// # Errors
    ///
    /// [`Error`] if a file cannot be read, or if the files are not different parts of one dump.
    pub fn open_split(paths: &[impl AsRef<Path>]) -> Result<Self, Error> {
        let open = |path| DumpFile::open(open_file(path)?);
        let files = paths.iter().map(open).collect::<Result<Vec<_>, Error>>()?;
        Ok(Self::whole(kdump::split::open(files)?))
    }

    /// Opens a file as raw memory, regardless of its format: addresses are file offsets.
    ///
    /// # Errors
    ///
    /// [`Error`] if the file cannot be read or is empty.
    pub fn open_raw(path: impl AsRef<Path>) -> Result<Self, Error> {
        let file = DumpFile::open(open_file(path)?)?;
        Ok(Self::whole(raw::container(&Arc::new(file))))
    }

    const fn whole(container: Box<dyn Container>) -> Self {
        let cut = None;
        Self { container, cut }
    }

    /// Returns the format of the file.
    pub fn format(&self) -> DumpFormat {
        self.container.facts().format
    }

    /// Returns the memory in the dump, by physical address, without overlaps.
    ///
    /// If the file's segments overlap (kdump stores the kernel's text twice), an address belongs to
    /// the segment that starts lower. Segments that are adjacent both in memory and in the file are
    /// joined.
    pub fn segments(&self) -> &[PhysicalRange] {
        self.container.segments()
    }

    /// Returns the number of bytes that headers describe beyond the end of the file or of the address
    /// space. It is not 0 if the file was cut off.
    pub fn missing(&self) -> u64 {
        self.container.facts().missing
    }

    /// Returns the number of bytes at the end of a LiME dump that are in no range. They do not begin
    /// with a known header. Zeros between ranges and behind the last one do not count.
    pub fn unknown(&self) -> u64 {
        self.container.facts().unknown
    }

    /// Checks that all bytes read so far were in the file: no process has truncated it meanwhile, and
    /// the disk has not failed.
    ///
    /// # Errors
    ///
    /// [`Error::Shrunk`]: some bytes may have been read as zeros.
    pub fn check(&self) -> Result<(), Error> {
        self.container.check()
    }

    /// Returns whether zeros were read for bytes that the file had lost.
    pub(crate) fn has_lost(&self) -> bool {
        self.container.has_lost()
    }

    /// Returns text about [missing](Self::missing) or [unknown](Self::unknown) bytes, about
    /// overlapping segments that differ, and about damaged blocks that were read, if there are any.
    /// It also reports a compressed file that is damaged.
    pub fn doubt(&self) -> Option<String> {
        let cut = self.cut.map(|unpacked| {
            format!(
                "the compressed file is damaged or cut off: only its first {unpacked} bytes could be \
                 unpacked, and if it is damaged, any of them may be wrong"
            )
        });
        let (damaged, differing) = (self.container.damaged(), self.container.differing());
        let doubt = self.container.facts().doubt(damaged, differing);
        let doubts: Vec<_> = cut.into_iter().chain(doubt).collect();
        (!doubts.is_empty()).then(|| doubts.join("; "))
    }

    /// Returns the ranges of the [data](Self::data), by address.
    pub fn data_ranges(&self) -> impl Iterator<Item = PhysicalRange> {
        self.container.data()
    }

    /// Returns the data in the memory and its physical addresses, by address and in pieces that are
    /// as long as the file has them. Only the file's holes are left out.
    ///
    /// No byte of the file is in two pieces. If segments share a part of the file, it belongs to
    /// the segment in the longest contiguous memory.
    pub fn data(&self) -> impl Iterator<Item = (u64, Cow<'_, [u8]>)> {
        self.container.data().flat_map(|range| self.pieces(range))
    }

    /// Returns the bytes of a range, in pieces that are as long as the file has them.
    fn pieces(&self, range: PhysicalRange) -> impl Iterator<Item = (u64, Cow<'_, [u8]>)> {
        let mut rest = Some(range);
        std::iter::from_fn(move || {
            loop {
                let PhysicalRange { start, len } = rest.take_if(|rest| rest.len > 0)?;
                let most = usize::try_from(len).unwrap_or(usize::MAX);
                let chunk = self.container.chunk(start, most);
                let used = match &chunk {
                    Chunk::Bytes(bytes) => bytes.len() as u64,
                    Chunk::Missing(missing) => *missing,
                };
                rest = (used < len).then(|| PhysicalRange {
                    start: start + used,
                    len: len - used,
                });
                if let Chunk::Bytes(bytes) = chunk {
                    return Some((start, bytes));
                }
            }
        })
    }

    /// Returns `len` bytes at a physical address; `None` if the dump lacks any of them.
    ///
    /// The bytes are copied only if they are not contiguous in the file, and then at most
    /// [`MAX_COPY`].
    pub fn read(&self, physical: u64, len: usize) -> Option<Cow<'_, [u8]>> {
        container::read(&*self.container, physical, len, MAX_COPY)
    }

    /// Returns the bytes at a physical address, with the ranges that the dump lacks. `None` if they
    /// would have to be copied and are more than [`MAX_COPY`], or reach beyond the address space.
    pub fn read_partly(&self, physical: u64, len: usize) -> Option<Partial<'_>> {
        if let Some(bytes) = self.read(physical, len) {
            return Some(Partial::new(bytes, Vec::new()));
        }
        if len > MAX_COPY {
            return None;
        }
        physical.checked_add(len as u64)?;
        let mut bytes = vec![0; len];
        let mut missing = Vec::<Range<usize>>::new();
        let mut at = 0;
        while at < len {
            let start = at;
            match self.container.chunk(physical + at as u64, len - at) {
                Chunk::Bytes(chunk) => {
                    bytes[at..][..chunk.len()].copy_from_slice(&chunk);
                    at += chunk.len();
                }
                Chunk::Missing(gap) => {
                    at += usize::try_from(gap).map_or(len - at, |gap| gap.min(len - at));
                    match missing.last_mut() {
                        Some(last) if last.end == start => last.end = at,
                        _ => missing.push(start..at),
                    }
                }
            }
        }
        Some(Partial::new(bytes.into(), missing))
    }

    /// Returns whether `len` bytes are contiguous in the file, so that they are not copied.
    pub(crate) fn is_contiguous(&self, physical: u64, len: usize) -> bool {
        let chunk = self.container.chunk(physical, len);
        matches!(chunk, Chunk::Bytes(Cow::Borrowed(bytes)) if bytes.len() == len)
    }

    /// Returns the bytes of a region, with the ranges that the dump lacks. `None` if a copy is needed
    /// and has more than [`MAX_COPY`] bytes.
    pub fn region(&self, found: &FoundRegion) -> Option<Partial<'_>> {
        // The last zone may end before the region, or the image before the zone.
        let zones = self.read(found.start, found.geometry.len());
        let whole = zones.or_else(|| self.read(found.start, found.len));
        let whole = whole.map(|bytes| Partial::new(bytes, Vec::new()));
        whole.or_else(|| self.read_partly(found.start, found.len))
    }

    /// Returns the container.
    pub(crate) fn container(&self) -> &dyn Container {
        &*self.container
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vmcoreinfo_text_of_each_format_is_that_of_the_note() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kdump");
        for name in [
            "memory.elf",
            "c-d0",
            "l-d1",
            "d1",
            "c-d31",
            "E-d31",
            "F-c-d31",
            "F-E-d1",
            "split-2",
            "reassembled",
        ] {
            let memory = Memory::open(folder.join(format!("{name}.gz"))).unwrap();
            let text = memory.container().facts().vmcoreinfo.as_deref();
            let text = text.unwrap_or_else(|| panic!("{name}"));
            assert_eq!(text.len(), 3246, "{name}");
            assert!(
                text.starts_with(b"OSRELEASE=6.1.0-56-cloud-amd64\n"),
                "{name}"
            );
        }
        let memory = Memory::open(folder.join("qemu-z.gz")).unwrap();
        assert_eq!(memory.container().facts().vmcoreinfo, None);
    }
}
