//! Bytes of a trace: from a previous boot, a dump, or live memory.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::cells::MemoryCells;

/// Bytes of a trace: of a region that no CPU writes, of a file, or [live](Live).
pub trait Image {
    /// Returns the number of bytes.
    fn len(&self) -> u64;

    /// Returns whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the bytes from `at` on into `into`. Returns whether all of them were read; if not, the
    /// contents of `into` are undefined.
    ///
    /// Live memory is read in 64-bit words: pairs in ascending order, and the second word of each
    /// pair first. A slot's meta word is thus read before its word, and a record before its
    /// arguments.
    fn read(&self, at: u64, into: &mut [u8]) -> bool;
}

impl Image for [u8] {
    fn len(&self) -> u64 {
        self.len() as u64
    }
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let from = usize::try_from(at).ok().and_then(|at| self.get(at..));
        match from.and_then(|from| from.get(..into.len())) {
            Some(from) => into.copy_from_slice(from),
            None => return false,
        }
        true
    }
}

impl<I: Image + ?Sized> Image for &I {
    fn len(&self) -> u64 {
        (**self).len()
    }
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        (**self).read(at, into)
    }
}

/// A region that a recorder is writing. Only reads at multiples of 8 succeed.
#[derive(Clone, Copy, Debug)]
pub struct Live<'m> {
    pub(crate) base: NonNull<u8>,
    pub(crate) len: usize,
    pub(crate) memory: PhantomData<&'m [u8]>,
}

impl Live<'_> {
    /// Returns the address of the region's first byte, to clean its cache lines before a reset.
    pub const fn start(&self) -> NonNull<u8> {
        self.base
    }
}

impl Image for Live<'_> {
    fn len(&self) -> u64 {
        self.len as u64
    }
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let end = at.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > self.len() || !at.is_multiple_of(8)) {
            return false;
        }
        // SAFETY: the region is valid for 'm, aligned, and only accessed atomically. The range is
        // inside (checked above), and its words are whole: the region's length is a multiple of 64.
        let cells = unsafe { MemoryCells::new(self.base) };
        let first = at as usize / 8;
        for (i, pair) in into.chunks_mut(16).enumerate() {
            for (k, bytes) in pair.chunks_mut(8).enumerate().rev() {
                let word = cells.observe(first + 2 * i + k).to_ne_bytes();
                bytes.copy_from_slice(&word[..bytes.len()]);
            }
        }
        true
    }
}
