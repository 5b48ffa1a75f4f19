//! The PCI Express capability.

use super::capability::Capability;
use super::registers::id;

/// Role of a function in the PCI Express fabric (PCI Express Base 4.0, 7.5.3.2, device/port type).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortType {
    /// Endpoint behind a port.
    Endpoint,
    /// Root port, with one device behind it.
    RootPort,
    /// Upstream port of a switch.
    Upstream,
    /// Downstream port of a switch, with one device behind it.
    Downstream,
    /// Bridge from PCI Express to a conventional bus.
    ToConventional,
    /// Bridge from a conventional bus to PCI Express, with one device behind it.
    FromConventional,
    /// Endpoint on the root bus.
    RootComplexEndpoint,
}

impl PortType {
    const fn number(self) -> u8 {
        match self {
            Self::Endpoint => 0,
            Self::RootPort => 4,
            Self::Upstream => 5,
            Self::Downstream => 6,
            Self::ToConventional => 7,
            Self::FromConventional => 8,
            Self::RootComplexEndpoint => 9,
        }
    }

    /// Returns whether the role requires a type 1 header.
    pub(super) const fn is_bridge(self) -> bool {
        !matches!(self, Self::Endpoint | Self::RootComplexEndpoint)
    }

    /// Returns whether the secondary side is a link, which has exactly one device.
    pub(super) const fn has_link_below(self) -> bool {
        matches!(
            self,
            Self::RootPort | Self::Downstream | Self::FromConventional
        )
    }

    const fn has_link(self) -> bool {
        !matches!(self, Self::RootComplexEndpoint)
    }

    /// Returns the capability, version 2, 60 bytes. A link has one lane at 2.5 GT/s and is up. Root
    /// and downstream ports support ARI forwarding. There are no slots.
    pub(super) fn capability(self) -> Capability {
        let mut r = Registers::default();
        r.set(0x02, 2 | u16::from(self.number()) << 4, 0);
        if matches!(self, Self::Endpoint | Self::RootComplexEndpoint) {
            const ROLE_BASED_ERRORS: u16 = 1 << 15;
            r.set(0x04, ROLE_BASED_ERRORS, 0);
        }
        // Device control: error reporting, relaxed ordering, payload size, no snoop, read request
        // size. Function-level reset is not supported.
        r.set(0x08, 0x2810, 0x78ff);
        r.clears(0x0a, 0x000f);
        if self.has_link() {
            const UP: u16 = 1 << 13;
            let number_of_port = 1 << 8;
            let reports_link = u16::from(self.has_link_below()) << 4;
            r.set(0x0c, 0x0011, 0);
            r.set(0x0e, number_of_port | reports_link, 0);
            r.set(0x10, 0, 0x00cb);
            let up = if self.has_link_below() { UP } else { 0 };
            r.set(0x12, 0x0011 | up, 0);
            r.set(0x2c, 1 << 1, 0);
            r.set(0x30, 1, 0x000f);
        }
        if self == Self::RootPort {
            r.set(0x1c, 0, 0x000f);
        }
        if matches!(self, Self::RootPort | Self::Downstream) {
            const ARI_FORWARDING: u16 = 1 << 5;
            r.set(0x24, ARI_FORWARDING, 0);
            r.set(0x28, 0, ARI_FORWARDING);
        }
        Capability::new(id::EXPRESS, &r.bytes[2..])
            .writable(&r.writable[2..])
            .cleared_by_1(&r.clears[2..])
    }
}

/// Registers of the capability, at the offsets of the specification.
struct Registers {
    bytes: [u8; 0x3c],
    writable: [u8; 0x3c],
    clears: [u8; 0x3c],
}

impl Default for Registers {
    fn default() -> Self {
        Self {
            bytes: [0; 0x3c],
            writable: [0; 0x3c],
            clears: [0; 0x3c],
        }
    }
}

impl Registers {
    fn set(&mut self, at: usize, value: u16, writable: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        self.writable[at..at + 2].copy_from_slice(&writable.to_le_bytes());
    }

    fn clears(&mut self, at: usize, bits: u16) {
        self.clears[at..at + 2].copy_from_slice(&bits.to_le_bytes());
    }
}
