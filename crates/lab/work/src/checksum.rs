//! Checksums of texts, traces and trees.

use core::hash::Hasher;

/// FNV-1a of 64 bits (draft-eastlake-fnv, sections 2 and 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checksum(pub(crate) u64);

impl Checksum {
    /// Adds bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

impl Default for Checksum {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Checksum {
    fn write(&mut self, bytes: &[u8]) {
        self.add(bytes);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_fnv_1a() {
        // draft-eastlake-fnv, appendix C.
        let mut sum = Checksum::default();
        sum.add(b"foobar");
        assert_eq!(sum.0, 0x8594_4171_f739_67e8);
    }
}
