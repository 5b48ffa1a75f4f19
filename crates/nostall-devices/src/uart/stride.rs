//! Registers in memory, at equal distances.

/// The distance of two registers in memory, in bytes: a power of two.
///
/// A register is the first byte of its stride, or of a DesignWare the first four. All other
/// bytes read [`BESIDE`], and writes to them are ignored. The bytes of an access are the bytes
/// of memory at its address, so that an access of several bytes reads as one to a mapped page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stride(u64);

/// The value of every byte between two registers: with it a VMM fills the page of a line status
/// register that it maps ([`LineStatus::Memory`](super::LineStatus::Memory)).
pub const BESIDE: u8 = 0;

impl Stride {
    /// Side by side.
    pub const BYTES: Self = Self(1);
    /// Four bytes apart, as in most chips.
    pub const WORDS: Self = Self(4);
    /// A page each, so that a VMM can map one without the others.
    pub const PAGES: Self = Self(4096);

    /// Returns `None` if `bytes` is no power of two.
    pub const fn new(bytes: u64) -> Option<Self> {
        if bytes.is_power_of_two() {
            Some(Self(bytes))
        } else {
            None
        }
    }

    /// Reads `data.len()` bytes at `offset`. `read` reads a register, once for each that begins
    /// there.
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

    /// Writes `data` at `offset`. `write` writes a register, once for each that begins there.
    pub fn write(self, offset: u64, data: &[u8], mut write: impl FnMut(usize, u8)) {
        for (n, byte) in data.iter().enumerate() {
            let at = offset.saturating_add(n as u64);
            if at.is_multiple_of(self.0) {
                write(self.number(at), *byte);
            }
        }
    }

    /// The register at `at`; beyond all if there are not so many.
    fn number(self, at: u64) -> usize {
        usize::try_from(at / self.0).unwrap_or(usize::MAX)
    }
}
