//! Bytes that a reader reads: of a previous boot, of a dump, or live.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::cells::MemoryCells;

/// Readable bytes: of a region that no CPU writes, of a file, or [live](Live).
pub trait Image {
    /// Returns the number of bytes.
    fn len(&self) -> u64;

    /// Returns whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the bytes from `at` on into `into`. Returns whether all of them exist. If not, any
    /// bytes may be in `into`.
    ///
    /// Of memory that is being written, words of 64 bits are read whole, from the highest address
    /// to the lowest.
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

/// Region that a recorder is writing.
#[derive(Clone, Copy, Debug)]
pub struct Live<'m> {
    pub(crate) base: NonNull<u8>,
    pub(crate) len: usize,
    pub(crate) memory: PhantomData<&'m [u8]>,
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
        // SAFETY: the region is valid for 'm, aligned, and accessed atomically only. The range
        // is inside (above), and its words are whole: the region's length is a multiple of 64.
        let cells = unsafe { MemoryCells::new(self.base) };
        let first = at as usize / 8;
        for (i, bytes) in into.chunks_mut(8).enumerate().rev() {
            let word = cells.observe(first + i).to_ne_bytes();
            bytes.copy_from_slice(&word[..bytes.len()]);
        }
        true
    }
}
