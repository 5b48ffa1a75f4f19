//! Storage of a card's data.

/// Memory of a card, in blocks of 512 bytes.
pub trait Blocks {
    /// How many there are.
    fn blocks(&self) -> u32;

    /// Reads one; whether that could be done.
    fn read(&mut self, number: u32, into: &mut [u8; 512]) -> bool;

    /// Writes one; whether that could be done.
    fn write(&mut self, number: u32, from: &[u8; 512]) -> bool;
}

/// Missing bytes of the last block are zeros, and stay so.
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
