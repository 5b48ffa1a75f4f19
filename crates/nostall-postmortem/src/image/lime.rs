//! LiME dumps: alternating headers and memory.
//!
//! A header has 32 bytes in the machine's byte order. They are magic 0x4C694D45 and version 1 (32
//! bits each), first and last physical address (64 bits each), and 8 reserved bytes. The last
//! address is inclusive. Source: LiME's `doc/README.md`, "Format Specification".

use super::{DumpFormat, Error, MAX_SEGMENTS, Segment};

const MAGIC: u32 = 0x4C69_4D45;
const HEADER: usize = 32;

/// Returns the segments of a LiME dump; `None` if the file is none.
pub(super) fn segments(file: &[u8]) -> Result<Option<Vec<Segment>>, Error> {
    let header = match file.first_chunk() {
        Some(magic) if *magic == MAGIC.to_le_bytes() => Header::little_endian,
        Some(magic) if *magic == MAGIC.to_be_bytes() => Header::big_endian,
        _ => return Ok(None),
    };
    let mut segments = Vec::new();
    let mut rest = file;
    while let Some((bytes, after)) = rest.split_first_chunk() {
        let Header {
            magic,
            version,
            first,
            last,
        } = header(bytes);
        // Bytes after the last range have no known format.
        if magic != MAGIC {
            break;
        }
        if version != 1 {
            return Err(damaged("only version 1 is known"));
        }
        if segments.len() == MAX_SEGMENTS {
            return Err(Error::TooManySegments {
                kind: DumpFormat::Lime,
            });
        }
        let Some(len) = last.checked_sub(first).and_then(|len| len.checked_add(1)) else {
            return Err(damaged(
                "a range of memory ends before it starts, or has 2^64 bytes",
            ));
        };
        let file_offset = (file.len() - after.len()) as u64;
        segments.push(Segment {
            physical: first,
            file_offset,
            len,
        });
        // A range that is cut off is the last: `settle` keeps its available part.
        rest = usize::try_from(len)
            .ok()
            .and_then(|len| after.get(len..))
            .unwrap_or_default();
    }
    if segments.is_empty() {
        return Err(damaged("it ends within its first header"));
    }
    Ok(Some(segments))
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
        kind: DumpFormat::Lime,
        problem,
    }
}
