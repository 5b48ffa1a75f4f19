//! Addresses of PCI functions.

use std::fmt;

use super::registers::SIZE;

/// Bus, device and function number of a configuration access.
///
/// Behind a port with ARI forwarding, device and function number form one function number of eight
/// bits (PCI Express Base 4.0, 6.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(u16);

impl Address {
    /// Creates an address; `None` for a device above 31 or a function above 7.
    pub const fn new(bus: u8, device: u8, function: u8) -> Option<Self> {
        if device < 32 && function < 8 {
            Some(Self::of(bus, device << 3 | function))
        } else {
            None
        }
    }

    /// Creates an address from a PCI Express requester ID: bus in bits 15:8, device in 7:3,
    /// function in 2:0.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    pub(super) const fn of(bus: u8, devfn: u8) -> Self {
        Self((bus as u16) << 8 | devfn as u16)
    }

    /// Returns the requester ID, as in [`from_bits`](Self::from_bits).
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns the bus number.
    pub const fn bus(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Returns the device number, 0 to 31.
    pub const fn device(self) -> u8 {
        self.devfn() >> 3
    }

    /// Returns the function number, 0 to 7.
    pub const fn function(self) -> u8 {
        self.devfn() & 7
    }

    pub(super) const fn devfn(self) -> u8 {
        self.0 as u8
    }

    /// Returns the offset of the function's page in an ECAM window that starts with bus `first`;
    /// `None` for a bus before it.
    pub fn ecam_offset(self, first: u8) -> Option<u64> {
        let bus = self.bus().checked_sub(first)?;
        Some(Self::of(bus, self.devfn()).bits() as u64 * SIZE as u64)
    }
}

/// Formats the address as `lspci` does, without the segment.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bus, device, function) = (self.bus(), self.device(), self.function());
        write!(f, "{bus:02x}:{device:02x}.{function}")
    }
}
