//! A set of bus numbers.

/// Any of the 256 buses of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BusSet([u32; 8]);

impl BusSet {
    pub(crate) fn insert(&mut self, bus: u8) {
        self.0[usize::from(bus >> 5)] |= 1 << (bus & 31);
    }

    pub(crate) fn contains(&self, bus: u8) -> bool {
        self.0[usize::from(bus >> 5)] & (1 << (bus & 31)) != 0
    }

    /// Takes out the lowest.
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
