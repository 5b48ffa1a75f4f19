//! Set of one-byte numbers.

/// Set of buses of a segment, or of functions of a bus.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ByteSet([u32; 8]);

impl ByteSet {
    pub(crate) fn insert(&mut self, number: u8) {
        self.0[usize::from(number >> 5)] |= 1 << (number & 31);
    }

    pub(crate) fn contains(&self, number: u8) -> bool {
        self.0[usize::from(number >> 5)] & (1 << (number & 31)) != 0
    }

    /// Removes and returns the lowest number.
    pub(crate) fn pop_lowest(&mut self) -> Option<u8> {
        let (at, word) = self
            .0
            .iter_mut()
            .enumerate()
            .find(|(_, word)| **word != 0)?;
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        Some((at as u32 * 32 + bit) as u8)
    }
}
