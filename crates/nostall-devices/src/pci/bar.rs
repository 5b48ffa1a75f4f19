//! Base address registers.

/// Address range that a base address register asks for.
///
/// A guest that writes all ones to it reads back the size, as PCI Local Bus 3.0,
/// 6.2.5.1, says: the bits below the size and the type bits do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// I/O ports: 4 to 256 of them.
    Io(u32),
    /// Memory below 4 GiB: at least 16 bytes.
    Memory32(u32, Prefetch),
    /// Memory anywhere, in this register and the next: at least 16 bytes.
    Memory64(u64, Prefetch),
}

/// Whether reading memory has no effect, so that it may be read ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// It must be read only as it is asked for.
    No,
    /// It may be read ahead.
    Yes,
}

impl Bar {
    /// How many registers of 32 bits it takes.
    pub(super) const fn registers(self) -> usize {
        match self {
            Self::Memory64(..) => 2,
            _ => 1,
        }
    }

    /// Whether its size is a power of two and allowed.
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

    /// The bits of both registers that hold an address.
    pub(super) const fn address_bits(self) -> u64 {
        match self {
            Self::Io(size) | Self::Memory32(size, _) => !(size - 1) as u64,
            Self::Memory64(size, _) => !(size - 1),
        }
    }
}
