//! Contiguous memory, in as many pieces as in the file.

use std::borrow::Cow;
use std::iter;
use std::ops::Range;
use std::vec::Vec;

/// Limit for the length of a run; a longer one is split. Sums of a position and a size then fit.
const LONGEST: usize = usize::MAX / 4;

/// Function that starts to load a part of the memory.
pub(crate) type Prefetch<'a> = &'a dyn Fn(&[u8]);

/// Memory at adjacent addresses. Positions count from its start.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    address: u64,
    len: usize,
    /// Pieces by position; each starts where the previous one ends.
    pieces: Vec<(usize, &'a [u8])>,
    /// Parts to search, in order, without holes and repeated parts.
    data: Vec<Range<usize>>,
}

impl<'a> Run<'a> {
    /// Joins pieces of memory into runs. The pieces are sorted by address and do not overlap.
    ///
    /// `data` are the parts to search with their lengths, sorted by address, each within a piece.
    pub(crate) fn join(
        pieces: impl IntoIterator<Item = (u64, &'a [u8])>,
        data: impl IntoIterator<Item = (u64, usize)>,
    ) -> impl Iterator<Item = Self> {
        let mut pieces = pieces.into_iter().peekable();
        let mut data = data.into_iter().peekable();
        iter::from_fn(move || {
            let (address, bytes) = pieces.next()?;
            let mut run = Self {
                address,
                len: bytes.len(),
                pieces: Vec::from([(0, bytes)]),
                data: Vec::new(),
            };
            let follows = |run: &Self, address: u64, bytes: &[u8]| {
                run.end() == Some(address) && LONGEST.saturating_sub(run.len) >= bytes.len()
            };
            while let Some((_, bytes)) = pieces.next_if(|(at, bytes)| follows(&run, *at, bytes)) {
                run.pieces.push((run.len, bytes));
                run.len += bytes.len();
            }
            while let Some((start, len)) = data.next_if(|(start, _)| run.holds_address(*start)) {
                // The position is within the run, whose length is a `usize`.
                let at = (start - address) as usize;
                run.data.push(at..at + len);
            }
            Some(run)
        })
    }

    /// Creates a run of one piece, which is searched completely.
    pub(crate) fn of(address: u64, bytes: &'a [u8]) -> Self {
        Self {
            address,
            len: bytes.len(),
            pieces: Vec::from([(0, bytes)]),
            data: Vec::from([Range {
                start: 0,
                end: bytes.len(),
            }]),
        }
    }

    fn holds_address(&self, address: u64) -> bool {
        address
            .checked_sub(self.address)
            .is_some_and(|at| at < self.len as u64)
    }

    /// Returns the address behind the run; `None` at the end of the address space.
    fn end(&self) -> Option<u64> {
        self.address.checked_add(self.len as u64)
    }

    /// Returns the address of a position.
    pub(crate) fn address(&self, at: usize) -> u64 {
        self.address.saturating_add(at as u64)
    }

    /// Returns the number of bytes.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the parts to search with their positions, each within one piece.
    pub(crate) fn data(&self) -> impl Iterator<Item = (usize, &'a [u8])> {
        self.data.iter().filter_map(|part| {
            let (start, bytes) = self.piece(part.start)?;
            let bytes = bytes.get(part.start - start..part.end - start)?;
            Some((part.start, bytes))
        })
    }

    /// Returns `len` bytes from `at` on; `None` if the run ends before.
    pub(crate) fn get(&self, at: usize, len: usize) -> Option<Cow<'a, [u8]>> {
        let (start, bytes) = self.piece(at)?;
        let here = &bytes[at - start..];
        match here.get(..len) {
            Some(together) => Some(Cow::Borrowed(together)),
            None if len <= self.len - at => {
                let mut copy = std::vec![0; len];
                self.copy(at, &mut copy);
                Some(Cow::Owned(copy))
            }
            None => None,
        }
    }

    /// Returns `N` bytes from `at` on; `None` if the run ends before.
    pub(crate) fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.get(at, N)?.first_chunk().copied()
    }

    /// Returns whether `len` bytes from `at` on exist.
    pub(crate) fn holds(&self, at: usize, len: usize) -> bool {
        self.len.checked_sub(at).is_some_and(|left| len <= left)
    }

    fn copy(&self, mut at: usize, mut into: &mut [u8]) {
        while let Some((start, bytes)) = self.piece(at).filter(|_| !into.is_empty()) {
            let here = &bytes[at - start..];
            let count = here.len().min(into.len());
            let (now, later) = into.split_at_mut(count);
            now.copy_from_slice(&here[..count]);
            at += count;
            into = later;
        }
    }

    /// Returns the piece with the byte at `at`, and the piece's position.
    fn piece(&self, at: usize) -> Option<(usize, &'a [u8])> {
        let next = self.pieces.partition_point(|(start, _)| *start <= at);
        let piece = *self.pieces.get(next.checked_sub(1)?)?;
        (at - piece.0 < piece.1.len()).then_some(piece)
    }
}
