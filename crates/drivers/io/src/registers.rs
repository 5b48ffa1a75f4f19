//! The trait for a window of device registers.

/// Window of device registers.
///
/// An offset is a register's number in its data sheet. The 16550's line status register is 5,
/// regardless of its address and of the distance between registers.
///
/// Methods take `&self`, because hardware is shared; synchronization is the driver's job. They
/// cannot fail. An access outside the window, or to a device that was removed, behaves as on a bus.
/// A read returns all ones, a write has no effect. Drivers must handle all ones.
pub trait Registers {
    /// Reads one byte from the register at `offset`.
    fn read8(&self, offset: usize) -> u8;

    /// Writes one byte to the register at `offset`.
    fn write8(&self, offset: usize, value: u8);

    /// Writes all `values`, in order, to the one register at `offset`, as for a FIFO.
    ///
    /// The default is a loop. A bus with a string instruction overrides it.
    fn write_burst(&self, offset: usize, values: &[u8]) {
        for &value in values {
            self.write8(offset, value);
        }
    }

    /// Returns the number of register instructions for a burst of `values` values.
    fn burst_instructions(&self, values: usize) -> usize {
        values
    }

    /// Reads 16 bits.
    ///
    /// The default reads two bytes from successive offsets, low byte first, as a bus does for a
    /// device that is one byte wide.
    fn read16(&self, offset: usize) -> u16 {
        u16::from_le_bytes([self.read8(offset), self.read8(offset.wrapping_add(1))])
    }

    /// Writes 16 bits; see [`read16`](Self::read16) for a byte-wide device.
    fn write16(&self, offset: usize, value: u16) {
        for (i, byte) in value.to_le_bytes().into_iter().enumerate() {
            self.write8(offset.wrapping_add(i), byte);
        }
    }

    /// Reads 32 bits; see [`read16`](Self::read16) for a byte-wide device.
    fn read32(&self, offset: usize) -> u32 {
        let low = self.read16(offset);
        u32::from(low) | u32::from(self.read16(offset.wrapping_add(2))) << 16
    }

    /// Writes 32 bits; see [`read16`](Self::read16) for a byte-wide device.
    fn write32(&self, offset: usize, value: u32) {
        for (i, byte) in value.to_le_bytes().into_iter().enumerate() {
            self.write8(offset.wrapping_add(i), byte);
        }
    }
}

impl<R: Registers + ?Sized> Registers for &R {
    fn read8(&self, offset: usize) -> u8 {
        (**self).read8(offset)
    }
    fn write8(&self, offset: usize, value: u8) {
        (**self).write8(offset, value);
    }
    fn write_burst(&self, offset: usize, values: &[u8]) {
        (**self).write_burst(offset, values);
    }
    fn burst_instructions(&self, values: usize) -> usize {
        (**self).burst_instructions(values)
    }
    fn read16(&self, offset: usize) -> u16 {
        (**self).read16(offset)
    }
    fn write16(&self, offset: usize, value: u16) {
        (**self).write16(offset, value);
    }
    fn read32(&self, offset: usize) -> u32 {
        (**self).read32(offset)
    }
    fn write32(&self, offset: usize, value: u32) {
        (**self).write32(offset, value);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    extern crate std;

    use super::*;
    use core::cell::RefCell;
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    /// Window that records every access. A read returns a value of its own for each width.
    #[derive(Default)]
    pub(crate) struct Recorded(pub(crate) RefCell<Vec<String>>);

    impl Recorded {
        fn record(&self, access: String) {
            self.0.borrow_mut().push(access);
        }
    }

    impl Registers for Recorded {
        fn read8(&self, offset: usize) -> u8 {
            self.record(format!("read8 {offset}"));
            0x18
        }
        fn write8(&self, offset: usize, value: u8) {
            self.record(format!("write8 {offset} {value}"));
        }
        fn write_burst(&self, offset: usize, values: &[u8]) {
            self.record(format!("write_burst {offset} {values:?}"));
        }
        fn burst_instructions(&self, values: usize) -> usize {
            values + 10
        }
        fn read16(&self, offset: usize) -> u16 {
            self.record(format!("read16 {offset}"));
            0x1616
        }
        fn write16(&self, offset: usize, value: u16) {
            self.record(format!("write16 {offset} {value}"));
        }
        fn read32(&self, offset: usize) -> u32 {
            self.record(format!("read32 {offset}"));
            0x3232_3232
        }
        fn write32(&self, offset: usize, value: u32) {
            self.record(format!("write32 {offset} {value}"));
        }
    }

    /// Results of `read8`, `read16`, `read32` and `burst_instructions`.
    type Answers = (u8, u16, u32, usize);

    /// Makes one access of each kind.
    pub(crate) fn use_every_access(window: impl Registers) -> Answers {
        window.write8(1, 101);
        window.write16(2, 102);
        window.write32(3, 103);
        window.write_burst(4, &[104, 105]);
        (
            window.read8(6),
            window.read16(7),
            window.read32(8),
            window.burst_instructions(3),
        )
    }

    /// Returns the results that `use_every_access` has from a `Recorded`.
    pub(crate) fn answers() -> Answers {
        (0x18, 0x1616, 0x3232_3232, 13)
    }

    /// Returns the accesses that `use_every_access` makes.
    pub(crate) fn accesses() -> Vec<String> {
        let accesses = [
            "write8 1 101",
            "write16 2 102",
            "write32 3 103",
            "write_burst 4 [104, 105]",
            "read8 6",
            "read16 7",
            "read32 8",
        ];
        accesses.map(String::from).to_vec()
    }

    #[test]
    fn a_reference_to_a_window_makes_the_same_accesses() {
        let window = Recorded::default();
        assert_eq!(use_every_access(&window), answers());
        assert_eq!(window.0.take(), accesses());
    }
}
