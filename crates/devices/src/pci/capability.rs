//! Capabilities: register groups beyond a function's header.

use super::registers::id;

/// A capability in the first 256 bytes (PCI Local Bus 3.0, 6.7).
///
/// The builder places and links it. Body and masks exclude the two bytes of ID and next pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    pub(super) id: u8,
    pub(super) body: Body,
}

/// An extended capability, at register 0x100 or above (PCI Express Base 4.0, 7.6.3). Body and masks
/// exclude the four-byte header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendedCapability {
    pub(super) id: u16,
    pub(super) version: u8,
    pub(super) body: Body,
}

/// Bytes, and the effect of a guest's write on each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    pub(super) writable: Vec<u8>,
    pub(super) clears: Vec<u8>,
}

impl Capability {
    /// Creates a capability that the guest cannot change.
    pub fn new(id: u8, body: impl Into<Vec<u8>>) -> Self {
        Self {
            id,
            body: Body::of(body),
        }
    }

    /// Makes the bits in `mask` writable for the guest. Bytes beyond the mask stay read-only.
    #[must_use]
    pub fn writable(mut self, mask: impl Into<Vec<u8>>) -> Self {
        self.body.writable = mask.into();
        self
    }

    /// Lets the guest clear the bits in `mask` by writing 1.
    #[must_use]
    pub fn cleared_by_1(mut self, mask: impl Into<Vec<u8>>) -> Self {
        self.body.clears = mask.into();
        self
    }

    /// Creates a vendor-specific capability (PCI Local Bus 3.0, Appendix H): a length byte, then
    /// `bytes`. Virtio uses such capabilities.
    pub fn vendor(bytes: &[u8]) -> Self {
        let length = u8::try_from(bytes.len() + 3).unwrap_or(u8::MAX);
        Self::new(id::VENDOR, [&[length], bytes].concat())
    }

    /// Creates a bridge's subsystem capability (PCI-to-PCI Bridge Architecture 1.2, 3.2.5.13).
    pub fn subsystem(vendor: u16, device: u16) -> Self {
        let [v, d] = [vendor.to_le_bytes(), device.to_le_bytes()];
        Self::new(id::SUBSYSTEM, [0, 0, v[0], v[1], d[0], d[1]])
    }

    /// Creates a power management capability, version 3 (PCI Power Management 1.2, 3.2). It has
    /// every power state and no wake-up. The state that a guest sets is stored without effect.
    pub fn power_management() -> Self {
        const D1_AND_D2: u8 = 0b110;
        const NO_SOFT_RESET: u8 = 1 << 3;
        Self::new(id::POWER_MANAGEMENT, [3, D1_AND_D2, NO_SOFT_RESET, 0, 0, 0])
            .writable([0, 0, 0b11])
    }

    /// Creates an MSI capability: one vector, a 64-bit address, no masking (PCI Local Bus 3.0,
    /// 6.8.1).
    pub fn msi() -> Self {
        const ADDRESS_64: u8 = 1 << 7;
        let mut writable = [0xff; 12];
        // Writable: enable, number of enabled vectors, and address bits from bit 2.
        writable[..3].copy_from_slice(&[0x71, 0, 0xfc]);
        Self::new(id::MSI, [ADDRESS_64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).writable(writable)
    }

    /// Creates an MSI-X capability with `vectors` vectors, clamped to 1 to 2,048 (PCI Local Bus
    /// 3.0, 6.8.2). `table` and `pending` are the offsets of the vector table and of the pending
    /// bits in BAR `bar`.
    pub fn msix(vectors: u16, bar: u8, table: u32, pending: u32) -> Self {
        let size = (vectors.clamp(1, 2_048) - 1).to_le_bytes();
        let at = |offset: u32| (offset & !7 | u32::from(bar & 7)).to_le_bytes();
        // Writable: enable and function mask.
        Self::new(id::MSIX, [&size[..], &at(table), &at(pending)].concat()).writable([0, 0xc0])
    }
}

impl ExtendedCapability {
    /// Creates an extended capability that the guest cannot change.
    pub fn new(id: u16, version: u8, body: impl Into<Vec<u8>>) -> Self {
        Self {
            id,
            version,
            body: Body::of(body),
        }
    }

    /// Makes the bits in `mask` writable, as [`Capability::writable`] does.
    #[must_use]
    pub fn writable(mut self, mask: impl Into<Vec<u8>>) -> Self {
        self.body.writable = mask.into();
        self
    }

    /// Makes the bits in `mask` clearable, as [`Capability::cleared_by_1`] does.
    #[must_use]
    pub fn cleared_by_1(mut self, mask: impl Into<Vec<u8>>) -> Self {
        self.body.clears = mask.into();
        self
    }

    /// Creates a device serial number capability (PCI Express Base 4.0, 7.9.3).
    pub fn serial_number(number: u64) -> Self {
        Self::new(id::SERIAL_NUMBER, 1, number.to_le_bytes())
    }

    /// Creates an ARI capability: the device can have up to 256 functions (PCI Express Base 4.0,
    /// 7.8.7). The tree sets the number of the next function.
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
