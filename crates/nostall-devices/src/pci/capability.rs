//! Capabilities: a function's registers beyond its header.

use super::registers::id;

/// A capability of the first 256 bytes (PCI Local Bus 3.0, 6.7).
///
/// The builder places it and links it; everything here counts from behind its
/// number and its pointer, which is two bytes into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    pub(super) id: u8,
    pub(super) body: Body,
}

/// A capability from register 0x100 on (PCI Express Base 4.0, 7.6.3), counted
/// from behind its header of four bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendedCapability {
    pub(super) id: u16,
    pub(super) version: u8,
    pub(super) body: Body,
}

/// Bytes, and the effect of a guest's write on each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    pub(super) writable: Vec<u8>,
    pub(super) clears: Vec<u8>,
}

impl Capability {
    /// A capability that no guest can change.
    pub fn new(id: u8, body: impl Into<Vec<u8>>) -> Self {
        Self {
            id,
            body: Body::of(body),
        }
    }

    /// Lets a guest change the bits that are set in `mask`; beyond its end, none.
    #[must_use]
    pub fn writable(mut self, mask: impl Into<Vec<u8>>) -> Self {
        self.body.writable = mask.into();
        self
    }

    /// Lets a guest clear, by writing a 1, the bits that are set in `mask`.
    #[must_use]
    pub fn cleared_by_1(mut self, mask: impl Into<Vec<u8>>) -> Self {
        self.body.clears = mask.into();
        self
    }

    /// A vendor's own (PCI Local Bus 3.0, Appendix H): its length, then `bytes`.
    /// Virtio's are such.
    pub fn vendor(bytes: &[u8]) -> Self {
        let length = u8::try_from(bytes.len() + 3).unwrap_or(u8::MAX);
        Self::new(id::VENDOR, [&[length], bytes].concat())
    }

    /// A bridge's subsystem (PCI-to-PCI Bridge Architecture 1.2, 3.2.5.13).
    pub fn subsystem(vendor: u16, device: u16) -> Self {
        let [v, d] = [vendor.to_le_bytes(), device.to_le_bytes()];
        Self::new(id::SUBSYSTEM, [0, 0, v[0], v[1], d[0], d[1]])
    }

    /// Power management, version 3, with every power state and wake-up from none
    /// (PCI Power Management 1.2, 3.2). The state that a guest sets is stored,
    /// and nothing else happens.
    pub fn power_management() -> Self {
        const D1_AND_D2: u8 = 0b110;
        const NO_SOFT_RESET: u8 = 1 << 3;
        Self::new(id::POWER_MANAGEMENT, [3, D1_AND_D2, NO_SOFT_RESET, 0, 0, 0])
            .writable([0, 0, 0b11])
    }

    /// Message-signalled interrupts: one, at a 64-bit address, not maskable (PCI
    /// Local Bus 3.0, 6.8.1).
    pub fn msi() -> Self {
        const ADDRESS_64: u8 = 1 << 7;
        let mut writable = [0xff; 12];
        // Enable; how many of the one; the address's low bits.
        writable[..3].copy_from_slice(&[0x71, 0, 0xfc]);
        Self::new(id::MSI, [ADDRESS_64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).writable(writable)
    }

    /// MSI-X with `vectors` (1 to 2,048) vectors, table and pending bits in the
    /// BAR of that number, at these offsets (PCI Local Bus 3.0, 6.8.2).
    pub fn msix(vectors: u16, bar: u8, table: u32, pending: u32) -> Self {
        let size = (vectors.clamp(1, 2_048) - 1).to_le_bytes();
        let at = |offset: u32| (offset & !7 | u32::from(bar & 7)).to_le_bytes();
        // Enable and the mask of all.
        Self::new(id::MSIX, [&size[..], &at(table), &at(pending)].concat()).writable([0, 0xc0])
    }
}

impl ExtendedCapability {
    /// A capability that no guest can change.
    pub fn new(id: u16, version: u8, body: impl Into<Vec<u8>>) -> Self {
        Self {
            id,
            version,
            body: Body::of(body),
        }
    }

    /// As [`Capability::writable`].
    #[must_use]
    pub fn writable(mut self, mask: impl Into<Vec<u8>>) -> Self {
        self.body.writable = mask.into();
        self
    }

    /// As [`Capability::cleared_by_1`].
    #[must_use]
    pub fn cleared_by_1(mut self, mask: impl Into<Vec<u8>>) -> Self {
        self.body.clears = mask.into();
        self
    }

    /// A serial number (PCI Express Base 4.0, 7.9.3).
    pub fn serial_number(number: u64) -> Self {
        Self::new(id::SERIAL_NUMBER, 1, number.to_le_bytes())
    }

    /// Alternative routing: the device has up to 256 functions (PCI Express Base
    /// 4.0, 7.8.7). The tree fills in which function comes next.
    pub fn ari() -> Self {
        Self::new(id::ARI, 1, [0; 4])
    }
}

impl Body {
    fn of(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: bytes.into(),
            ..Self::default()
        }
    }
}
