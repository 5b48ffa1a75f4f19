//! Contiguous memory, in as many pieces as in the dump.

use std::borrow::Cow;
use std::iter;
use std::ops::Range;
use std::vec::Vec;

use super::container::{Chunk, Container, PhysicalRange, read};

/// Limit for the length of a run; a longer one is split. Sums of a position and a size then fit.
const LONGEST: u64 = usize::MAX as u64 / 4;

/// Number of bytes searched at once, so that they stay in a cache of the CPU. Pieces start at
/// multiples of it.
const PIECE: usize = 256 << 10;

/// Memory at adjacent addresses. Positions count from its start.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    memory: &'a dyn Container,
    address: u64,
    len: usize,
    /// Parts to search, in order, without holes and repeated parts.
    data: Vec<Range<usize>>,
}

impl<'a> Run<'a> {
    /// Returns the runs in a part of the memory. An end of [`u64::MAX`] is the end of the address
    /// space.
    pub(crate) fn all(memory: &'a dyn Container, window: Range<u64>) -> impl Iterator<Item = Self> {
        let last = match window.end {
            u64::MAX => Some(u64::MAX),
            end => end.checked_sub(1),
        };
        let clip = move |range: PhysicalRange| range.between(window.start, last?);
        let segments = memory.segments().iter().copied();
        let segments = segments.filter_map(clip);
        let mut segments = segments.flat_map(short).peekable();
        let mut data = memory.data().filter_map(clip).flat_map(short).peekable();
        iter::from_fn(move || {
            let mut whole = segments.next()?;
            let follows = |whole: &PhysicalRange, next: &PhysicalRange| {
                whole.is_before(next) && LONGEST - whole.len >= next.len
            };
            while let Some(next) = segments.next_if(|next| follows(&whole, next)) {
                whole.len += next.len;
            }
            let PhysicalRange { start: address, .. } = whole;
            let mut parts = Vec::new();
            while let Some(PhysicalRange { start, len }) =
                data.next_if(|part| part.start - address < whole.len)
            {
                // The position is within the run, whose length is a `usize`.
                let at = (start - address) as usize;
                parts.push(at..at + len as usize);
            }
            Some(Self {
                memory,
                address,
                len: whole.len as usize,
                data: parts,
            })
        })
    }

    /// Returns the address of a position.
    pub(crate) fn address(&self, at: usize) -> u64 {
        self.address.saturating_add(at as u64)
    }

    /// Returns the number of bytes.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Passes the parts to search to `look`, with their positions. Parts may be adjacent.
    pub(crate) fn search(&self, mut look: impl FnMut(usize, &[u8])) {
        let ahead = self.memory.ahead();
        for part in &self.data {
            let mut at = part.start;
            while at < part.end {
                let start = self.address(at);
                let piece = ahead.unwrap_or(PIECE);
                let most = (part.end - at).min(piece - start as usize % piece);
                if ahead.is_some() {
                    let len = most as u64;
                    self.memory.prefetch(PhysicalRange { start, len });
                }
                at += match self.memory.chunk(start, most) {
                    Chunk::Bytes(bytes) => {
                        look(at, &bytes);
                        bytes.len()
                    }
                    Chunk::Missing(len) => usize::try_from(len).unwrap_or(usize::MAX).min(most),
                };
            }
        }
    }

    /// Returns `len` bytes from `at` on; `None` if the run ends before.
    pub(crate) fn get(&self, at: usize, len: usize) -> Option<Cow<'a, [u8]>> {
        if at >= self.len || len > self.len - at {
            return None;
        }
        read(self.memory, self.address(at), len, usize::MAX)
    }

    /// Returns `N` bytes from `at` on; `None` if the run ends before.
    pub(crate) fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.get(at, N)?.first_chunk().copied()
    }

    /// Returns whether `len` bytes from `at` on exist.
    pub(crate) fn holds(&self, at: usize, len: usize) -> bool {
        self.len.checked_sub(at).is_some_and(|left| len <= left)
    }
}

/// Splits a range into parts of at most [`LONGEST`] bytes.
fn short(range: PhysicalRange) -> impl Iterator<Item = PhysicalRange> {
    (0..range.len.div_ceil(LONGEST)).map(move |nth| PhysicalRange {
        start: range.start + nth * LONGEST,
        len: LONGEST.min(range.len - nth * LONGEST),
    })
}
