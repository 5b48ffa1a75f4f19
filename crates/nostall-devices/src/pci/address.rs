//! Where a function is.

use std::fmt;

use super::registers::SIZE;

/// Bus, device and function, as a configuration access names them.
///
/// Behind a port that forwards to ARI devices, device and function together are
/// one function number of eight bits (PCI Express Base 4.0, 6.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(u16);

impl Address {
    /// The address of a function, if there can be such: 32 devices a bus, eight
    /// functions a device.
    pub const fn new(bus: u8, device: u8, function: u8) -> Option<Self> {
        if device < 32 && function < 8 {
            Some(Self::of(bus, device << 3 | function))
        } else {
            None
        }
    }

    /// From the requester ID that PCI Express uses: bus in bits 15:8, device in
    /// 7:3, function in 2:0.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    pub(super) const fn of(bus: u8, devfn: u8) -> Self {
        Self((bus as u16) << 8 | devfn as u16)
    }

    /// As [`from_bits`](Self::from_bits) takes it.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Its bus.
    pub const fn bus(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Its device number, 0 to 31.
    pub const fn device(self) -> u8 {
        self.devfn() >> 3
    }

    /// Its function number, 0 to 7.
    pub const fn function(self) -> u8 {
        self.devfn() & 7
    }

    pub(super) const fn devfn(self) -> u8 {
        self.0 as u8
    }

    /// Where its page begins in an ECAM window whose first bus is `first`; `None`
    /// before the window.
    pub fn ecam_offset(self, first: u8) -> Option<u64> {
        let bus = self.bus().checked_sub(first)?;
        Some(Self::of(bus, self.devfn()).bits() as u64 * SIZE as u64)
    }
}

/// As `lspci` writes it, without the segment.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bus, device, function) = (self.bus(), self.device(), self.function());
        write!(f, "{bus:02x}:{device:02x}.{function}")
    }
}
