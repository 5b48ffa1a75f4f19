//! Formatted output, gathered so that its pieces share records.

use core::fmt;

use arrayvec::ArrayVec;

use crate::layout::PAYLOAD;

/// Output that is being formatted. `put` stores text, and returns the number of bytes taken.
pub(super) struct Output<F: FnMut(&[u8]) -> usize> {
    put: F,
    text: ArrayVec<u8, PAYLOAD>,
    /// Whether all text was taken so far.
    is_whole: bool,
}

impl<F: FnMut(&[u8]) -> usize> Output<F> {
    pub(super) fn new(put: F) -> Self {
        Self {
            put,
            text: ArrayVec::new(),
            is_whole: true,
        }
    }

    /// Stores the gathered text. Returns whether all text was taken so far.
    pub(super) fn flush(&mut self) -> bool {
        if !self.text.is_empty() {
            self.is_whole &= (self.put)(&self.text) == self.text.len();
            self.text.clear();
        }
        self.is_whole
    }
}

impl<F: FnMut(&[u8]) -> usize> fmt::Write for Output<F> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(self.text.remaining_capacity()));
            // The piece is no longer than the room.
            let _ = self.text.try_extend_from_slice(now);
            rest = later;
            if self.text.is_full() && !self.flush() {
                return Err(fmt::Error);
            }
        }
        Ok(())
    }
}

/// If a caller's `Display` unwinds, the text before it is stored.
impl<F: FnMut(&[u8]) -> usize> Drop for Output<F> {
    fn drop(&mut self) {
        self.flush();
    }
}
