//! Access through a kernel's own functions.

use crate::Address;
use crate::access::{AccessError, AccessWidth, ConfigAccess, REGISTERS, Register, check};

/// Access method made of a kernel's own functions, which read and write 32 bits of segment 0.
///
/// A narrower read takes its part of the word. A narrower write is refused: a write of the rest
/// could clear bits, for example those of the status register. So scans and capabilities work, and
/// the size of a BAR whose decoding is off. BARs that are enabled, windows of bridges and ARI need
/// 16-bit writes: [`Ecam`](crate::Ecam) and [`ConfigPorts`](crate::ConfigPorts) have them.
///
/// The functions return `None` if they could not make the access.
#[derive(Clone, Copy, Debug)]
pub struct Dwords {
    read: fn(Address, u16) -> Option<u32>,
    write: fn(Address, u16, u32) -> Option<()>,
    end: u16,
}

impl Dwords {
    /// Creates the method of functions that reach all registers, as through ECAM.
    pub const fn new(
        read: fn(Address, u16) -> Option<u32>,
        write: fn(Address, u16, u32) -> Option<()>,
    ) -> Self {
        let end = REGISTERS;
        Self { read, write, end }
    }

    /// Limits the method to the first 256 registers, as through ports.
    #[must_use]
    pub const fn of_ports(self) -> Self {
        Self { end: 256, ..self }
    }
}

impl ConfigAccess for Dwords {
    fn reaches(&self, address: Address, register: u16) -> bool {
        address.segment() == 0 && register < self.end
    }

    fn read(&self, address: Address, register: Register) -> Result<u32, AccessError> {
        check(self, address, register)?;
        let number = register.number();
        let word = (self.read)(address, number & !3).ok_or(AccessError::Failed)?;
        Ok(word >> (number % 4 * 8) & register.width().all_ones())
    }

    fn write(&self, address: Address, register: Register, value: u32) -> Result<(), AccessError> {
        check(self, address, register)?;
        if register.width() != AccessWidth::Dword {
            return Err(AccessError::Failed);
        }
        (self.write)(address, register.number(), value).ok_or(AccessError::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn place(address: Address, register: u16) -> u32 {
        address.ecam_offset() as u32 | register as u32
    }

    fn write(address: Address, register: u16, value: u32) -> Option<()> {
        (place(address, register) == value).then_some(())
    }

    #[test]
    fn a_narrower_read_is_a_part_of_the_word_and_a_narrower_write_is_refused() {
        let all = Dwords::new(|address, register| Some(place(address, register)), write);
        let at = all.at(Address::from_devfn(0, 0x12, 0x34));
        let word = 0x0123_4004;
        assert_eq!(at.read32(4), Ok(word));
        assert_eq!(at.read16(6), Ok((word >> 16) as u16));
        assert_eq!(at.read8(7), Ok((word >> 24) as u8));
        assert_eq!(at.write32(4, word), Ok(()));
        assert_eq!(at.write32(4, 0), Err(AccessError::Failed));
        assert_eq!(at.write16(4, 0x4004), Err(AccessError::Failed));
    }

    #[test]
    fn ports_end_at_register_255_and_both_at_segment_0() {
        let all = Dwords::new(|_, _| None, write);
        let address = Address::from_devfn(0, 0, 0);
        assert!(all.reaches(address, 4095) && !all.reaches(address.in_segment(1), 0));
        assert!(all.of_ports().reaches(address, 255) && !all.of_ports().reaches(address, 256));
        assert_eq!(all.at(address).read32(0), Err(AccessError::Failed));
    }
}
