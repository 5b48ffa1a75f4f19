//! Dumps by AVML, the usual memory images of cloud machines, with compressed blocks.
//!
//! A block has a header like LiME's, with the magic `AVML` and version 2, in little endian. A
//! Snappy stream of chunks with a checksum each follows, and the stream's length in 8 bytes. A
//! chunk has up to 64 KiB of memory. Chunks are decompressed when they are read. AVML omits blocks
//! that contain only zeros. Sources: AVML's `src/image.rs`, and Snappy's `framing_format.txt`.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::io::Read;
use std::sync::Arc;

use super::container::{Chunk, Container, Facts, PhysicalRange, find};
use super::error::Error;
use super::file::DumpFile;
use super::format::{DumpFormat, MAX_SEGMENTS};
use super::kept::Kept;

impl DumpFormat {
    /// A dump by AVML with compressed blocks.
    pub const AVML: Self = Self {
        name: "AVML",
        word: "avml",
    };
}

/// Magic and version.
const START: &[u8] = b"AVML\x02\0\0\0";

/// Number of bytes of a block's header, and of the length after it.
const HEADER: usize = 32;
const TRAILER: usize = 8;

/// Start of a Snappy stream.
const STREAM: &[u8] = b"\xff\x06\0\0sNaPpY";

/// Maximum number of memory bytes in a chunk.
const LARGEST: usize = 64 << 10;

/// Maximum number of chunks: those of 1 TiB.
const MOST_CHUNKS: usize = 1 << 24;

/// Smallest chunk that is worth its header, in memory bytes. AVML's have 64 KiB, but for the last
/// one of a block.
const SMALLEST: u64 = 4096;

/// Number of decompressed chunks that are kept, 16 MiB: more than CPUs whose records are merged.
const KEPT: usize = 256;

/// Memory of one chunk.
#[derive(Clone, Copy, Debug)]
struct Packed {
    /// Physical address of the first byte.
    start: u64,
    /// Offset of the chunk in the file.
    offset: u64,
    /// Number of bytes in memory.
    len: u32,
    /// Number of bytes in the file.
    packed: u32,
}

impl Packed {
    const fn range(&self) -> PhysicalRange {
        PhysicalRange {
            start: self.start,
            len: self.len as u64,
        }
    }
}

#[derive(Debug)]
struct Avml {
    file: Arc<DumpFile>,
    facts: Facts,
    /// Number of bytes of repeated chunks.
    differing: u64,
    segments: Vec<PhysicalRange>,
    /// Chunks by address. They do not overlap.
    chunks: Vec<Packed>,
    kept: Kept,
}

/// Opens a dump by AVML; `None` if the file is none.
pub(super) fn open(file: &Arc<DumpFile>) -> Result<Option<Box<dyn Container>>, Error> {
    if !file.bytes.starts_with(START) {
        return Ok(None);
    }
    let mut parser = Parser {
        file,
        chunks: Vec::new(),
        facts: Facts::of(DumpFormat::AVML),
    };
    parser.blocks()?;
    let Parser {
        mut chunks, facts, ..
    } = parser;
    let mut differing = 0;
    chunks.sort_by_key(|chunk| (chunk.start, Reverse(chunk.len)));
    let mut segments = Vec::<PhysicalRange>::new();
    chunks.retain(|chunk| {
        let range = chunk.range();
        match segments.last_mut() {
            Some(last) if last.is_before(&range) => last.len += range.len,
            // A repeated chunk is not compared.
            Some(last) if range.start - last.start < last.len => {
                differing += range.len;
                return false;
            }
            _ => segments.push(range),
        }
        true
    });
    if segments.len() > MAX_SEGMENTS {
        return Err(Error::TooManySegments {
            kind: DumpFormat::AVML,
        });
    }
    Ok(Some(Box::new(Avml {
        file: Arc::clone(file),
        facts,
        differing,
        segments,
        chunks,
        kept: Kept::new(KEPT),
    })))
}

struct Parser<'a> {
    file: &'a DumpFile,
    chunks: Vec<Packed>,
    facts: Facts,
}

impl Parser<'_> {
    /// Reads the headers of all blocks and of their chunks.
    fn blocks(&mut self) -> Result<(), Error> {
        let mut at = 0;
        while at < self.file.bytes.len() {
            let header = self.file.bytes[at..].first_chunk::<HEADER>();
            let Some(header) = header.filter(|header| header.starts_with(START)) else {
                // Without a known header, the positions of later blocks are unknown, too.
                self.facts.unknown = (self.file.bytes.len() - at) as u64;
                break;
            };
            let address =
                |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
            let (first, last) = (address(8), address(16));
            let Some(len) = last.checked_sub(first).and_then(|len| len.checked_add(1)) else {
                return Err(damaged(
                    "a range of memory ends before it starts, or has 2^64 bytes",
                ));
            };
            at = self.stream(at + HEADER, PhysicalRange { start: first, len })?;
        }
        if self.chunks.is_empty() {
            return Err(damaged("its first block is cut off, or damaged"));
        }
        Ok(())
    }

    /// Reads the headers of a block's chunks, and returns the position behind the block.
    fn stream(&mut self, mut at: usize, mut block: PhysicalRange) -> Result<usize, Error> {
        // Each chunk costs time and memory.
        let mut left = block.len / SMALLEST + 1;
        while block.len > 0 {
            let Some((packed, len)) = chunk(&self.file.bytes[at..]) else {
                self.facts.missing = self.facts.missing.saturating_add(block.len);
                return Ok(at);
            };
            let len = len.min(block.len);
            if len > 0 {
                if self.chunks.len() == MOST_CHUNKS {
                    return Err(damaged("it has more blocks than 1 TiB of memory"));
                }
                if left == 0 {
                    return Err(damaged("its chunks have less than 4 KiB each"));
                }
                left -= 1;
                self.chunks.push(Packed {
                    start: block.start,
                    offset: at as u64,
                    // A chunk has at most 64 KiB of memory, and its size has 24 bits.
                    len: len as u32,
                    packed: packed as u32,
                });
            }
            self.file.touched(at as u64, HEADER as u64);
            block.len -= len;
            block.start = block.start.wrapping_add(len);
            at += packed;
        }
        Ok((at + TRAILER).min(self.file.bytes.len()))
    }
}

/// Returns the sizes of the chunk at the start of `file`, in the file and in memory. `None` if it
/// is cut off, or has another format.
fn chunk(file: &[u8]) -> Option<(usize, u64)> {
    let (&[kind, size @ ..], rest) = file.split_first_chunk::<4>()?;
    let size = u32::from_le_bytes([size[0], size[1], size[2], 0]) as usize;
    let body = rest.get(..size)?;
    let len = match kind {
        0 => snap::raw::decompress_len(body.get(4..)?).ok()?,
        1 => size.checked_sub(4)?,
        // The start of a stream, and chunks to skip.
        0x80..=0xff => 0,
        _ => return None,
    };
    (len <= LARGEST).then_some((4 + size, len as u64))
}

impl Avml {
    /// Appends the memory of a chunk to `to`; `None` if it is damaged.
    fn decompress(&self, chunk: Packed, to: &mut Vec<u8>) -> Option<()> {
        let Packed {
            offset,
            len,
            packed,
            ..
        } = chunk;
        let chunk = &self.file.bytes[offset as usize..][..packed as usize];
        self.file.touched(offset, packed.into());
        let start = to.len();
        to.resize(start + len as usize, 0);
        let mut decoder = snap::read::FrameDecoder::new(STREAM.chain(chunk));
        decoder.read_exact(&mut to[start..]).ok()
    }
}

impl Container for Avml {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn segments(&self) -> &[PhysicalRange] {
        &self.segments
    }

    fn differing(&self) -> u64 {
        self.differing
    }

    fn chunk(&self, at: u64, most: usize) -> Chunk<'_> {
        if let Err(missing) = find(&self.segments, at) {
            return Chunk::Missing(missing);
        }
        let index = self.chunks.partition_point(|chunk| chunk.start <= at) - 1;
        let chunk = self.chunks[index];
        // A chunk has at most 64 KiB.
        let skip = (at - chunk.start) as usize;
        let len = chunk.len as usize - skip;
        let mut bytes = Vec::new();
        let range = skip..skip + len.min(most);
        let decompress = |to: &mut Vec<u8>| self.decompress(chunk, to);
        match self
            .kept
            .append(index as u64, range, &mut bytes, decompress)
        {
            Some(()) => Chunk::Bytes(Cow::Owned(bytes)),
            None => Chunk::Missing(len as u64),
        }
    }

    fn data(&self) -> Box<dyn Iterator<Item = PhysicalRange> + '_> {
        Box::new(self.segments.iter().copied())
    }

    fn has_lost(&self) -> bool {
        self.file.bytes.has_lost()
    }

    fn check(&self) -> Result<(), Error> {
        self.file.bytes.check()
    }

    fn damaged(&self) -> u64 {
        self.kept
            .damaged(|index| self.chunks[index as usize].len.into())
    }
}

fn damaged(problem: &'static str) -> Error {
    Error::Damaged {
        kind: DumpFormat::AVML,
        problem,
    }
}
