//! Flattened files, as makedumpfile's `-F` and QEMU's `dump-guest-memory -z` write them to a pipe.
//!
//! The contents are another file: a kdump file or an ELF core. Blocks of it follow a header of 4096
//! bytes, in the order of writing. A block has its offset and size in the contents, 64 bits each in
//! big endian, and its bytes. An offset and a size of -1 are the end. If blocks overlap, the later
//! one has the bytes. Source: makedumpfile's `IMPLEMENTATION`, and `makedumpfile.h`.

use std::borrow::Cow;
use std::ops::Range;

use super::error::Error;
use super::taken::Taken;

/// Start of the header: the signature, and type and version 1.
const START: &[u8] = b"makedumpfile\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01";

/// Number of bytes of the header (`MAX_SIZE_MDF_HEADER`), and of offset and size of a block.
const HEADER: usize = 4096;
const BLOCK: usize = 16;

/// Maximum number of blocks. An open file needs 24 bytes for each. QEMU's have 16 KiB, so this is
/// more than 64 GiB of them.
const MOST_BLOCKS: usize = 1 << 22;

/// Number of bytes at the start of the contents that have all headers of an ELF core:
/// [`MAX_SEGMENTS`](super::MAX_SEGMENTS) of 56 bytes, and the notes.
const HEAD: u64 = 16 << 20;

/// A part of the contents.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Offset in the contents.
    start: u64,
    len: u64,
    /// Offset in the file.
    place: u64,
}

/// Order of the contents in a flattened file.
#[derive(Debug)]
pub(super) struct Flattened {
    /// Parts by offset in the contents. They do not overlap, and are not empty.
    parts: Vec<Part>,
    /// Whether the file has no mark of its end, or zeros before it.
    pub is_cut: bool,
}

impl Flattened {
    /// Reads the headers of all blocks; `None` if the file is not flattened. `used` is told the number
    /// of bytes that were loaded.
    pub(super) fn parse(file: &[u8], used: impl Fn(u64)) -> Result<Option<Self>, Error> {
        /// Number of bytes that Linux maps around a block's header (`fault_around_bytes` in
        /// mm/memory.c).
        const AROUND: u64 = 64 << 10;

        if !file.starts_with(START) {
            return Ok(None);
        }
        let mut blocks = Vec::new();
        let mut at = HEADER;
        let is_cut = loop {
            let Some(header) = file.get(at..).and_then(<[u8]>::first_chunk::<BLOCK>) else {
                break true;
            };
            let number =
                |at: usize| i64::from_be_bytes(std::array::from_fn(|byte| header[at + byte]));
            let (start, len) = match (number(0), number(8)) {
                (-1, -1) => break false,
                // No block: zeros, as a full disk leaves them.
                (0, 0) => break true,
                (start @ 0.., len @ 0..) => (start as u64, len as u64),
                _ => break true,
            };
            at += BLOCK;
            let there = (file.len() - at) as u64;
            if len.min(there) > 0 {
                if blocks.len() == MOST_BLOCKS {
                    return Err(Error::Unsupported {
                        format: "a flattened file with more than 4,194,304 blocks",
                        advice: ADVICE,
                    });
                }
                blocks.push(Part {
                    start,
                    len: len.min(there),
                    place: at as u64,
                });
            }
            if len > there {
                break true;
            }
            used(AROUND.min(BLOCK as u64 + len));
            at += len as usize;
        };
        let mut parts = Vec::with_capacity(blocks.len());
        let mut taken = Taken::default();
        for block in blocks.iter().rev() {
            taken.take(block.start..block.start + block.len, |free| {
                parts.push(Part {
                    start: free.start,
                    len: free.end - free.start,
                    place: block.place + (free.start - block.start),
                });
            });
        }
        parts.sort_unstable_by_key(|part| part.start);
        Ok(Some(Self { parts, is_cut }))
    }

    /// Returns the number of bytes of the contents.
    pub(super) fn len(&self) -> u64 {
        self.parts.last().map_or(0, |last| last.start + last.len)
    }

    /// Returns the parts of a range that the file has, in order: offsets in the contents and in the
    /// file, and lengths.
    pub(super) fn places(&self, range: Range<u64>) -> impl Iterator<Item = (u64, u64, u64)> {
        let first = self
            .parts
            .partition_point(|part| part.start + part.len <= range.start);
        let parts = self.parts[first..].iter();
        let parts = parts.take_while(move |part| part.start < range.end);
        parts.map(move |part| {
            let start = part.start.max(range.start);
            let len = (part.start + part.len).min(range.end) - start;
            (start, part.place + (start - part.start), len)
        })
    }

    /// Returns whether `len` bytes of the contents are in the file.
    pub(super) fn has(&self, offset: u64, len: u64) -> bool {
        let Some(end) = offset.checked_add(len) else {
            return false;
        };
        let mut at = offset;
        for (start, _, len) in self.places(offset..end) {
            if start != at {
                return false;
            }
            at += len;
        }
        at == end
    }

    /// Returns `len` bytes of the contents; `None` if the file lacks any of them.
    pub(super) fn read<'a>(
        &self,
        file: &'a [u8],
        offset: u64,
        len: usize,
    ) -> Option<Cow<'a, [u8]>> {
        let end = offset.checked_add(len as u64)?;
        if !self.has(offset, len as u64) {
            return None;
        }
        // All places are in the file, whose length is a `usize`.
        let mut places = self.places(offset..end);
        let parts = places
            .by_ref()
            .map(|(_, place, len)| &file[place as usize..][..len as usize]);
        let mut parts = parts.peekable();
        let first = parts.next().unwrap_or_default();
        if parts.peek().is_none() {
            return Some(Cow::Borrowed(first));
        }
        let mut bytes = first.to_vec();
        parts.for_each(|part| bytes.extend_from_slice(part));
        Some(Cow::Owned(bytes))
    }

    /// Returns the first bytes of the contents. Bytes that the file lacks are zeros.
    pub(super) fn head(&self, file: &[u8]) -> Vec<u8> {
        let len = self.len().min(HEAD);
        let mut head = vec![0; len as usize];
        for (start, place, len) in self.places(0..len) {
            head[start as usize..][..len as usize]
                .copy_from_slice(&file[place as usize..][..len as usize]);
        }
        head
    }
}

/// Advice for a flattened file that cannot be read.
pub(super) const ADVICE: &str = "put it together with `makedumpfile -R NEW < FILE` and open NEW";
