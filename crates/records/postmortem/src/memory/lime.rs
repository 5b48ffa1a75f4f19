//! LiME dumps: alternating headers and memory.
//!
//! A header has 32 bytes in the machine's byte order. They are magic 0x4C694D45 and version 1 (32
//! bits each), first and last physical address (64 bits each), and 8 reserved bytes. The last
//! address is inclusive. Source: LiME's `doc/README.md`, "Format Specification".

use std::ops::Range;
use std::sync::Arc;

use super::container::{Container, Facts};
use super::error::Error;
use super::file::DumpFile;
use super::format::{DumpFormat, MAX_SEGMENTS};
use super::segments::{FileSegments, Segment};

impl DumpFormat {
    /// A dump by LiME, the Linux Memory Extractor.
    pub const LIME: Self = Self {
        name: "LiME",
        word: "lime",
    };
}

const MAGIC: u32 = 0x4C69_4D45;
const HEADER: usize = 32;

/// Opens a LiME dump; `None` if the file is none.
pub(super) fn open(dump: &Arc<DumpFile>) -> Result<Option<Box<dyn Container>>, Error> {
    let (file, extents) = (&*dump.bytes, &dump.extents[..]);
    let header = match file.first_chunk() {
        Some(magic) if *magic == MAGIC.to_le_bytes() => Header::little_endian,
        Some(magic) if *magic == MAGIC.to_be_bytes() => Header::big_endian,
        _ => return Ok(None),
    };
    let mut segments = Vec::new();
    let mut end = 0;
    while let Some(start) = next_byte(file, end, extents) {
        let Some((bytes, memory)) = file[start..].split_first_chunk() else {
            break;
        };
        let Header {
            magic,
            version,
            first,
            last,
        } = header(bytes);
        // Without a known header, the positions of later ranges are unknown, too.
        if magic != MAGIC || version != 1 {
            break;
        }
        if segments.len() == MAX_SEGMENTS {
            return Err(Error::TooManySegments {
                kind: DumpFormat::LIME,
            });
        }
        let Some(len) = last.checked_sub(first).and_then(|len| len.checked_add(1)) else {
            return Err(damaged(
                "a range of memory ends before it starts, or has 2^64 bytes",
            ));
        };
        segments.push(Segment {
            physical: first,
            file_offset: (file.len() - memory.len()) as u64,
            len,
        });
        // A range that is cut off is the last: `settle` keeps its available part.
        let len = usize::try_from(len).map_or(memory.len(), |len| len.min(memory.len()));
        end = file.len() - memory.len() + len;
    }
    if segments.is_empty() {
        return Err(damaged("its first header is cut off, or not of version 1"));
    }
    let unknown = next_byte(file, end, extents).map_or(0, |start| file.len() - start);
    let facts = Facts {
        unknown: unknown as u64,
        ..Facts::of(DumpFormat::LIME)
    };
    Ok(Some(Box::new(FileSegments::new(dump, facts, segments))))
}

/// Returns the position of the next byte that is not 0. `extents` are the parts of the file that are
/// not holes.
fn next_byte(file: &[u8], from: usize, extents: &[Range<u64>]) -> Option<usize> {
    let first = extents.partition_point(|extent| extent.end <= from as u64);
    extents[first..].iter().find_map(|extent| {
        let start = from.max(extent.start as usize);
        let data = &file[start..extent.end as usize];
        Some(start + data.iter().position(|byte| *byte != 0)?)
    })
}

struct Header {
    magic: u32,
    version: u32,
    first: u64,
    last: u64,
}

impl Header {
    fn little_endian(bytes: &[u8; HEADER]) -> Self {
        Self::new(bytes, u32::from_le_bytes, u64::from_le_bytes)
    }

    fn big_endian(bytes: &[u8; HEADER]) -> Self {
        Self::new(bytes, u32::from_be_bytes, u64::from_be_bytes)
    }

    fn new(bytes: &[u8; HEADER], u32: fn([u8; 4]) -> u32, u64: fn([u8; 8]) -> u64) -> Self {
        let word = |at: usize| u32(std::array::from_fn(|byte| bytes[at + byte]));
        let address = |at: usize| u64(std::array::from_fn(|byte| bytes[at + byte]));
        Self {
            magic: word(0),
            version: word(4),
            first: address(8),
            last: address(16),
        }
    }
}

fn damaged(problem: &'static str) -> Error {
    Error::Damaged {
        kind: DumpFormat::LIME,
        problem,
    }
}
