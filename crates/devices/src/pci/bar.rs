//! Base address registers.

/// Address range that a base address register requests.
///
/// A guest writes all ones to the register and reads back the size. The bits below the size and the
/// type bits do not change (PCI Local Bus 3.0, 6.2.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// I/O ports; the size is 4 to 256 bytes.
    Io(u32),
    /// Memory below 4 GiB; the size is at least 16 bytes.
    Memory32(u32, Prefetch),
    /// Memory at any address, in this register and the next; the size is at least 16 bytes.
    Memory64(u64, Prefetch),
}

/// Whether reads of a memory range have no side effects, so that it may be prefetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// Reads may have side effects.
    No,
    /// Reads have no side effects.
    Yes,
}

impl Bar {
    /// Returns the number of 32-bit registers that it occupies.
    pub(super) const fn registers(self) -> usize {
        match self {
            Self::Memory64(..) => 2,
            _ => 1,
        }
    }

    /// Returns whether the size is a power of two in the allowed range.
    pub(super) const fn is_possible(self) -> bool {
        match self {
            Self::Io(size) => size.is_power_of_two() && size >= 4 && size <= 256,
            Self::Memory32(size, _) => size.is_power_of_two() && size >= 16,
            Self::Memory64(size, _) => size.is_power_of_two() && size >= 16,
        }
    }

    pub(super) fn type_bits(self) -> u32 {
        let prefetchable = |prefetch| match prefetch {
            Prefetch::No => 0,
            Prefetch::Yes => 1 << 3,
        };
        match self {
            Self::Io(_) => 1,
            Self::Memory32(_, prefetch) => prefetchable(prefetch),
            Self::Memory64(_, prefetch) => 0b100 | prefetchable(prefetch),
        }
    }

    /// Returns the mask of address bits, over both registers.
    pub(super) const fn address_bits(self) -> u64 {
        match self {
            Self::Io(size) | Self::Memory32(size, _) => !(size - 1) as u64,
            Self::Memory64(size, _) => !(size - 1),
        }
    }
}
