//! Byte order of a traced machine.

/// Byte order of the numbers in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

impl Order {
    /// Decodes an unsigned number; only the 8 least significant bytes count.
    pub fn number(self, bytes: &[u8]) -> u64 {
        let fold = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        match self {
            Self::Little => bytes.iter().rev().fold(0, fold),
            Self::Big => bytes.iter().fold(0, fold),
        }
    }

    /// Decodes the unsigned number of `len` bytes at `at`; `None` if `bytes` are too short.
    pub fn read(self, bytes: &[u8], at: usize, len: usize) -> Option<u64> {
        let bytes = bytes.get(at..at.checked_add(len)?)?;
        Some(self.number(bytes))
    }

    /// Decodes the number of 4 bytes at `at`.
    pub fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        self.read(bytes, at, 4).map(|number| number as u32)
    }

    /// Decodes the number of 8 bytes at `at`.
    pub fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        self.read(bytes, at, 8)
    }
}
