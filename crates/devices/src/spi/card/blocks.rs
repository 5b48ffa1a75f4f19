//! Storage for a card's data.

/// Storage of a card, in blocks of 512 bytes.
pub trait Blocks {
    /// Returns the number of blocks.
    fn blocks(&self) -> u32;

    /// Reads block `number`, and returns whether that succeeded.
    fn read(&mut self, number: u32, into: &mut [u8; 512]) -> bool;

    /// Writes block `number`, and returns whether that succeeded.
    fn write(&mut self, number: u32, from: &[u8; 512]) -> bool;
}

/// Storage in memory. Bytes missing from the last block read as zeros; writes do not extend the
/// vector.
impl Blocks for Vec<u8> {
    fn blocks(&self) -> u32 {
        u32::try_from(self.len().div_ceil(512)).unwrap_or(u32::MAX)
    }

    fn read(&mut self, number: u32, into: &mut [u8; 512]) -> bool {
        into.fill(0);
        let start = number as usize * 512;
        let there = self.get(start..).unwrap_or_default();
        let len = there.len().min(512);
        into[..len].copy_from_slice(&there[..len]);
        true
    }

    fn write(&mut self, number: u32, from: &[u8; 512]) -> bool {
        let start = number as usize * 512;
        let there = self.get_mut(start..).unwrap_or_default();
        let len = there.len().min(512);
        there[..len].copy_from_slice(&from[..len]);
        true
    }
}
