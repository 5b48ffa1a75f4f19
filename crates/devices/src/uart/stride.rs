//! Memory-mapped registers at equal distances.

/// Distance between two memory-mapped registers in bytes: a power of two.
///
/// A register occupies the first byte of its stride, on a DesignWare the first four. All other
/// bytes read [`BESIDE`], and writes to them are ignored. An access of several bytes reads the same
/// from the model as from a mapped page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stride(u64);

/// Value of every byte between two registers. A VMM fills the mapped page of a line status register
/// with it ([`LineStatus::Memory`](super::LineStatus::Memory)).
pub const BESIDE: u8 = 0;

impl Stride {
    /// Consecutive bytes.
    pub const BYTES: Self = Self(1);
    /// Four bytes apart, as in most chips.
    pub const WORDS: Self = Self(4);
    /// One page each, so that a VMM can map one register without the others.
    pub const PAGES: Self = Self(4096);

    /// Creates a stride; `None` if `bytes` is not a power of two.
    pub const fn new(bytes: u64) -> Option<Self> {
        if bytes.is_power_of_two() {
            Some(Self(bytes))
        } else {
            None
        }
    }

    /// Reads `data.len()` bytes at `offset`. It calls `read` once for each register that starts in
    /// this range.
    pub fn read(self, offset: u64, data: &mut [u8], mut read: impl FnMut(usize) -> u32) {
        let mut register = [BESIDE; 4];
        let mut first = None;
        for (n, byte) in data.iter_mut().enumerate() {
            let at = offset.saturating_add(n as u64);
            if at.is_multiple_of(self.0) {
                register = read(self.number(at)).to_le_bytes();
                first = Some(n);
            }
            let its = first.and_then(|first| register.get(n - first));
            *byte = its.copied().unwrap_or(BESIDE);
        }
    }

    /// Writes `data` at `offset`. It calls `write` once for each register that starts in this
    /// range.
    pub fn write(self, offset: u64, data: &[u8], mut write: impl FnMut(usize, u8)) {
        for (n, byte) in data.iter().enumerate() {
            let at = offset.saturating_add(n as u64);
            if at.is_multiple_of(self.0) {
                write(self.number(at), *byte);
            }
        }
    }

    /// Returns the number of the register at address `at`, clamped to `usize::MAX`.
    fn number(self, at: u64) -> usize {
        usize::try_from(at / self.0).unwrap_or(usize::MAX)
    }
}
