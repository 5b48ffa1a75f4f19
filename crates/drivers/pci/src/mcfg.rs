//! ECAM windows in ACPI's MCFG table.

use core::ops::{Range, RangeInclusive};

use thiserror::Error;

use crate::Environment;
use crate::ecam::ECAM_BUS_SIZE;

/// Size of the table before its entries: the common header (ACPI 6.5, 5.2.6) and eight reserved
/// bytes (PCI Firmware Specification 3.3, 4.1.2, table 4-2).
const HEADER: usize = 36 + 8;

/// Size of an entry (PCI Firmware Specification 3.3, table 4-3).
const ENTRY: usize = 16;

/// Largest number of entries: more than any machine has.
const MOST: usize = 256;

/// Buses of one segment, and the address of their registers in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Segment number: 16 bits in an MCFG table, 32 in a device tree.
    pub number: u32,
    /// Buses of the segment, or a part of them.
    pub buses: RangeInclusive<u8>,
    /// Physical address of the first bus.
    pub start: u64,
}

impl Segment {
    /// Returns the physical addresses of the window; empty without a bus.
    pub const fn window(&self) -> Range<u64> {
        let buses = (*self.buses.end() as u64 + 1).saturating_sub(*self.buses.start() as u64);
        self.start..self.start.saturating_add(buses * ECAM_BUS_SIZE as u64)
    }

    /// Checks whether the window may be used, on a machine with physical addresses of
    /// `address_bits` bits whose firmware reserves the ranges `reserved`.
    ///
    /// The ranges may be in any order, and adjacent ones count as one. Pass those of E820 or UEFI
    /// that are neither RAM nor ACPI-reclaimable. A caller that can read the ACPI namespace adds
    /// the motherboard resources (PNP0C02): some firmware lists the window only there (PCI Firmware
    /// Specification 3.3, 4.1.2).
    ///
    /// On bare metal, a window that the firmware does not reserve is refused: old firmware listed
    /// windows that did not exist.
    ///
    /// # Errors
    ///
    /// [`ValidationError`] if the window must not be used.
    pub fn validate(
        &self,
        environment: Environment,
        address_bits: u8,
        reserved: impl IntoIterator<Item = Range<u64>> + Clone,
    ) -> Result<(), ValidationError> {
        let window = self.window();
        let beyond = |bits: u8| {
            window
                .end
                .checked_sub(1)
                .is_none_or(|last| last >> bits != 0)
        };
        if address_bits < 64 && beyond(address_bits) {
            return Err(ValidationError::BeyondAddressSpace(address_bits));
        }
        let mut missing = window.start;
        // Each round passes the end of a range, so the ranges bound the number of rounds.
        while missing < window.end {
            let mut on_it = reserved.clone().into_iter();
            match on_it.find(|range| range.contains(&missing)) {
                Some(range) => missing = range.end,
                None => break,
            }
        }
        if environment == Environment::BareMetal && missing < window.end {
            return Err(ValidationError::NotReserved(missing));
        }
        Ok(())
    }
}

/// Reason for which a window must not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ValidationError {
    /// The window ends beyond the machine's address width, in bits.
    #[error("the ECAM window is beyond addresses of {0} bits")]
    BeyondAddressSpace(u8),
    /// The firmware's memory map does not reserve the window from this address.
    #[error("the ECAM window is not reserved by the firmware's memory map from {0:#x} on")]
    NotReserved(u64),
}

/// An MCFG table whose entries are all possible and do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mcfg<'a> {
    entries: &'a [u8],
}

impl<'a> Mcfg<'a> {
    /// Parses `table` from its signature. Ignores bytes behind its stated length.
    ///
    /// # Errors
    ///
    /// [`BadMcfg`]. Such a table is not used, because its other entries may also be wrong.
    pub fn parse(table: &'a [u8]) -> Result<Self, BadMcfg> {
        let len = match table {
            [b'M', b'C', b'F', b'G', l0, l1, l2, l3, ..] => {
                u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize
            }
            _ => return Err(BadMcfg::NotOne),
        };
        let table = table.get(..len).ok_or(BadMcfg::Truncated)?;
        let entries = table.get(HEADER..).ok_or(BadMcfg::Truncated)?;
        if table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) != 0 {
            return Err(BadMcfg::Checksum);
        }
        if !entries.len().is_multiple_of(ENTRY) {
            return Err(BadMcfg::Truncated);
        }
        match entries.len() / ENTRY {
            0 => return Err(BadMcfg::Empty),
            1..=MOST => {}
            _ => return Err(BadMcfg::TooMany),
        }
        for (n, entry) in entries.chunks_exact(ENTRY).enumerate() {
            let one = segment(entry).ok_or(BadMcfg::Impossible(n))?;
            let mut before = entries.chunks_exact(ENTRY).take(n).filter_map(segment);
            if before.any(|other| overlap(&one, &other)) {
                return Err(BadMcfg::Overlapping(n));
            }
        }
        Ok(Self { entries })
    }

    /// Returns the segments in the table's order.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + use<'a> {
        self.entries.chunks_exact(ENTRY).filter_map(segment)
    }
}

/// Decodes an entry; `None` if its bus numbers are reversed or its addresses impossible.
fn segment(entry: &[u8]) -> Option<Segment> {
    let (base, rest) = entry.split_first_chunk()?;
    // The address is that of bus 0, even if the first bus is another one.
    let base = u64::from_le_bytes(*base);
    let &[n0, n1, first, last, ..] = rest else {
        return None;
    };
    let start = base.checked_add(u64::from(first) * ECAM_BUS_SIZE as u64)?;
    let len = (u64::from(last) + 1).checked_sub(u64::from(first))? * ECAM_BUS_SIZE as u64;
    let possible = first <= last
        && base != 0
        && base.is_multiple_of(ECAM_BUS_SIZE as u64)
        && start.checked_add(len).is_some();
    possible.then_some(Segment {
        number: u16::from_le_bytes([n0, n1]).into(),
        buses: first..=last,
        start,
    })
}

/// Returns whether two entries have a bus or memory in common.
fn overlap(one: &Segment, other: &Segment) -> bool {
    let buses = one.number == other.number
        && one.buses.start() <= other.buses.end()
        && other.buses.start() <= one.buses.end();
    let (a, b) = (one.window(), other.window());
    buses || (a.start < b.end && b.start < a.end)
}

/// Reason for which a table is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadMcfg {
    /// The table has another signature, or is too short for its header.
    #[error("the table is not ACPI's MCFG")]
    NotOne,
    /// The table or an entry is truncated.
    #[error("ACPI's MCFG table is cut off")]
    Truncated,
    /// The sum of the bytes is not 0.
    #[error("ACPI's MCFG table has a wrong checksum")]
    Checksum,
    /// The table has no entries.
    #[error("ACPI's MCFG table has no entries")]
    Empty,
    /// The table has more entries than any machine has segments.
    #[error("ACPI's MCFG table has more than {MOST} entries")]
    TooMany,
    /// This entry (counted from 0) has no bus, or impossible addresses.
    #[error("ACPI's MCFG table has an impossible entry {0}")]
    Impossible(usize),
    /// This entry (counted from 0) overlaps an earlier one in buses or memory.
    #[error("ACPI's MCFG table has an entry {0} that overlaps an earlier one")]
    Overlapping(usize),
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::Signature;
    use proptest::prelude::*;
    use std::vec::Vec;

    const MIB: u64 = 1 << 20;
    const VM: Environment = Environment::Hypervisor(Signature::KVM);

    /// Returns a table of these entries (base, segment, first bus, last bus) with a valid checksum.
    fn table(entries: &[(u64, u16, u8, u8)]) -> Vec<u8> {
        let mut table = [0; HEADER].to_vec();
        for (base, number, first, last) in entries {
            table.extend(base.to_le_bytes());
            table.extend(number.to_le_bytes());
            table.extend([*first, *last, 0, 0, 0, 0]);
        }
        sealed(table)
    }

    fn sealed(mut table: Vec<u8>) -> Vec<u8> {
        let len = table.len() as u32;
        table[..4].copy_from_slice(b"MCFG");
        table[4..8].copy_from_slice(&len.to_le_bytes());
        table[9] = 0;
        table[9] = table.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte));
        table
    }

    fn bad(entries: &[(u64, u16, u8, u8)]) -> Option<BadMcfg> {
        Mcfg::parse(&table(entries)).err()
    }

    #[test]
    fn the_base_is_that_of_bus_0_whichever_is_the_first() {
        let table = table(&[(0xb000_0000, 0, 0, 255), (0x1_0000_0000, 7, 16, 31)]);
        let segments: Vec<_> = Mcfg::parse(&table).unwrap().segments().collect();
        assert_eq!(segments[0].window(), 0xb000_0000..0xc000_0000);
        assert_eq!(
            (segments[1].number, segments[1].buses.clone()),
            (7, 16..=31)
        );
        assert_eq!(segments[1].window(), 0x1_0100_0000..0x1_0200_0000);
        let longer = [&table[..], b"rest"].concat();
        assert_eq!(Mcfg::parse(&longer).unwrap().segments().count(), 2);
    }

    #[test]
    fn a_table_that_is_cut_off_at_any_byte_is_refused() {
        let table = table(&[(0xb000_0000, 0, 0, 255)]);
        for len in 0..table.len() {
            let expected = if len < 8 {
                BadMcfg::NotOne
            } else {
                BadMcfg::Truncated
            };
            assert_eq!(Mcfg::parse(&table[..len]), Err(expected), "{len}");
            if len > 9 {
                let shorter = sealed(table[..len].to_vec());
                let expected = if len == HEADER {
                    BadMcfg::Empty
                } else {
                    BadMcfg::Truncated
                };
                assert_eq!(Mcfg::parse(&shorter), Err(expected), "said to have {len}");
            }
        }
    }

    #[test]
    fn a_byte_that_has_flipped_is_noticed() {
        let table = table(&[(0xb000_0000, 0, 0, 255)]);
        for at in 0..table.len() {
            let mut flipped = table.clone();
            flipped[at] ^= 0x10;
            assert!(Mcfg::parse(&flipped).is_err(), "{at}");
        }
    }

    #[test]
    fn impossible_and_overlapping_entries_are_refused() {
        assert_eq!(bad(&[]), Some(BadMcfg::Empty));
        let good = (0xb000_0000, 0, 0, 15);
        let impossible = |entry| assert_eq!(bad(&[good, entry]), Some(BadMcfg::Impossible(1)));
        impossible((0xe000_0000, 1, 5, 4)); // backwards
        impossible((0xe000_1000, 1, 0, 0)); // between two buses
        impossible((0, 1, 0, 255)); // not set up
        impossible((u64::MAX - MIB + 1, 1, 0, 1)); // beyond 64 bits
        impossible((u64::MAX - MIB + 1, 1, 1, 1));
        let overlapping = |entry| assert_eq!(bad(&[good, entry]), Some(BadMcfg::Overlapping(1)));
        overlapping((0xe000_0000, 0, 15, 20)); // one bus twice
        overlapping((0xb000_0000, 1, 15, 20)); // one address twice
        assert_eq!(bad(&[good, (0xb000_0000, 0, 16, 20)]), None);
        let many: Vec<_> = (0..=256)
            .map(|n| (0xb000_0000, 0, n as u8, n as u8))
            .collect();
        assert_eq!(bad(&many), Some(BadMcfg::TooMany));
    }

    #[test]
    fn bare_metal_accepts_only_windows_that_its_memory_map_reserves() {
        let segment = Segment {
            number: 0,
            buses: 0..=1,
            start: 0xb000_0000,
        };
        let (start, end) = (0xb000_0000u64, 0xb020_0000);
        let metal = |reserved: &[(u64, u64)]| {
            let reserved = reserved.iter().map(|(start, end)| *start..*end);
            segment.validate(Environment::BareMetal, 36, reserved)
        };
        assert_eq!(metal(&[(0, start), (start, end)]), Ok(()));
        assert_eq!(
            metal(&[(start - 4096, start + MIB), (start + MIB, end)]),
            Ok(())
        );
        // A memory map need not be sorted, and its ranges may overlap.
        let jumbled = [
            (start + MIB, end),
            (start + 4096, start + MIB + 4096),
            (0, 4096),
            (start, start + 8192),
        ];
        assert_eq!(metal(&jumbled), Ok(()));
        assert_eq!(
            metal(&jumbled[..3]),
            Err(ValidationError::NotReserved(start))
        );
        assert_eq!(metal(&[]), Err(ValidationError::NotReserved(start)));
        assert_eq!(
            metal(&[(start, start + MIB)]),
            Err(ValidationError::NotReserved(start + MIB))
        );
        assert_eq!(
            metal(&[(start + 1, end)]),
            Err(ValidationError::NotReserved(start))
        );
        assert_eq!(segment.validate(VM, 36, []), Ok(()));
    }

    #[test]
    fn a_segment_without_buses_has_no_window() {
        #[expect(clippy::reversed_empty_ranges)]
        let none = Segment {
            number: 0,
            buses: 5..=3,
            start: MIB,
        };
        assert_eq!(none.window(), MIB..MIB);
    }

    #[test]
    fn a_window_beyond_the_cpus_addresses_is_refused() {
        let top = Segment {
            number: 0,
            buses: 0..=0,
            start: (1 << 36) - MIB,
        };
        assert_eq!(top.validate(VM, 36, []), Ok(()));
        assert_eq!(
            top.validate(VM, 35, []),
            Err(ValidationError::BeyondAddressSpace(35))
        );
        assert_eq!(top.validate(VM, 64, []), Ok(()));
        assert_eq!(top.validate(VM, 255, []), Ok(()));
        let wide = Segment {
            buses: 0..=1,
            ..top
        };
        assert_eq!(
            wide.validate(VM, 36, []),
            Err(ValidationError::BeyondAddressSpace(36))
        );
    }

    proptest! {
        #[test]
        fn accepted_entries_do_not_overlap(
            entries in prop::collection::vec((0..40u64, 0..3u16, 0..20u8, 0..20u8), 1..6)
        ) {
            let entries: Vec<_> = entries
                .iter()
                .map(|(at, number, first, last)| (at * MIB, *number, *first, *last))
                .collect();
            let table = table(&entries);
            let Ok(mcfg) = Mcfg::parse(&table) else { return Ok(()) };
            let segments: Vec<_> = mcfg.segments().collect();
            prop_assert_eq!(segments.len(), entries.len());
            for (n, one) in segments.iter().enumerate() {
                for other in &segments[..n] {
                    let (a, b) = (one.window(), other.window());
                    prop_assert!(a.end <= b.start || b.end <= a.start);
                    let both = |bus: &u8| one.buses.contains(bus) && other.buses.contains(bus);
                    prop_assert!(one.number != other.number || !(0..=255).any(|bus| both(&bus)));
                }
            }
        }
    }
}
