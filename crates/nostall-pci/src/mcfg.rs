//! ECAM windows as ACPI's MCFG table lists them.

use core::fmt;
use core::ops::{Range, RangeInclusive};

use crate::Environment;
use crate::ecam::BUS;

/// Bytes of the table before its entries: the common header (ACPI 6.5, 5.2.6) and eight
/// that are reserved (PCI Firmware Specification 3.3, 4.1.2, table 4-2).
const HEADER: usize = 36 + 8;

/// Bytes of an entry (PCI Firmware Specification 3.3, table 4-3).
const ENTRY: usize = 16;

/// More entries than any machine has.
const MOST: usize = 256;

/// The buses of one segment, and where in memory their registers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number.
    pub number: u16,
    /// Its buses, or some of them.
    pub buses: RangeInclusive<u8>,
    /// The physical address of the first of them.
    pub start: u64,
}

impl Segment {
    /// Its physical addresses.
    pub const fn window(&self) -> Range<u64> {
        let buses = *self.buses.end() as u64 - *self.buses.start() as u64 + 1;
        self.start..self.start.saturating_add(buses * BUS as u64)
    }

    /// Whether it may be used, on a machine with physical addresses of `address_bits` bits
    /// whose firmware reserves the ranges `reserved` (those of E820 or UEFI that are
    /// neither RAM nor ACPI's to reclaim).
    ///
    /// On bare metal, a window that the firmware's own memory map does not reserve is not
    /// to be believed: old firmware listed windows that were not there. Ranges that touch
    /// count as one if they come in order.
    ///
    /// # Errors
    ///
    /// [`Doubt`]: why not.
    pub fn believe(
        &self,
        environment: Environment,
        address_bits: u8,
        reserved: impl IntoIterator<Item = Range<u64>>,
    ) -> Result<(), Doubt> {
        let window = self.window();
        let beyond = |bits: u8| {
            window
                .end
                .checked_sub(1)
                .is_none_or(|last| last >> bits != 0)
        };
        if address_bits < 64 && beyond(address_bits) {
            return Err(Doubt::BeyondAddressSpace(address_bits));
        }
        let mut missing = window.start;
        for range in reserved {
            if range.contains(&missing) {
                missing = range.end;
            }
        }
        if environment == Environment::BareMetal && missing < window.end {
            return Err(Doubt::NotReserved(missing));
        }
        Ok(())
    }
}

/// Why a window is not to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// It ends beyond what this machine's addresses of so many bits can name.
    BeyondAddressSpace(u8),
    /// The firmware's memory map does not reserve it, from this address on.
    NotReserved(u64),
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeyondAddressSpace(bits) => {
                write!(f, "the ECAM window is beyond addresses of {bits} bits")
            }
            Self::NotReserved(from) => write!(
                f,
                "the ECAM window is not reserved by the firmware's memory map from {from:#x} on"
            ),
        }
    }
}

impl core::error::Error for Doubt {}

/// A table whose every entry makes sense, also beside the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mcfg<'a> {
    entries: &'a [u8],
}

impl<'a> Mcfg<'a> {
    /// Understands `table`, from its signature on; bytes behind its own length are ignored.
    ///
    /// # Errors
    ///
    /// [`BadMcfg`]: the table is not used then, since nobody knows what else in it is wrong.
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

    /// The segments, in the table's order.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + use<'a> {
        self.entries.chunks_exact(ENTRY).filter_map(segment)
    }
}

/// An entry; `None` if its buses run backwards, or there can be no memory there.
fn segment(entry: &[u8]) -> Option<Segment> {
    let (base, rest) = entry.split_first_chunk()?;
    // Always that of bus 0, whichever is the first.
    let base = u64::from_le_bytes(*base);
    let &[n0, n1, first, last, ..] = rest else {
        return None;
    };
    let start = base.checked_add(u64::from(first) * BUS as u64)?;
    let len = (u64::from(last) + 1).checked_sub(u64::from(first))? * BUS as u64;
    let possible = first <= last
        && base != 0
        && base.is_multiple_of(BUS as u64)
        && start.checked_add(len).is_some();
    possible.then_some(Segment {
        number: u16::from_le_bytes([n0, n1]),
        buses: first..=last,
        start,
    })
}

/// Whether two entries speak of the same bus, or of the same memory.
fn overlap(one: &Segment, other: &Segment) -> bool {
    let buses = one.number == other.number
        && one.buses.start() <= other.buses.end()
        && other.buses.start() <= one.buses.end();
    let (a, b) = (one.window(), other.window());
    buses || (a.start < b.end && b.start < a.end)
}

/// Why a table is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadMcfg {
    /// It is some other table, or none.
    NotOne,
    /// It ends before it should, or within an entry.
    Truncated,
    /// Its bytes do not add up to 0.
    Checksum,
    /// It has no entries.
    Empty,
    /// It has more entries than any machine has segments.
    TooMany,
    /// This entry (counted from 0) is for no bus, or for memory that there cannot be.
    Impossible(usize),
    /// This entry is for a bus or for memory of an earlier one.
    Overlapping(usize),
}

impl fmt::Display for BadMcfg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ACPI's MCFG table ")?;
        match self {
            Self::NotOne => f.write_str("is not one"),
            Self::Truncated => f.write_str("is cut off"),
            Self::Checksum => f.write_str("has a wrong checksum"),
            Self::Empty => f.write_str("has no entries"),
            Self::TooMany => write!(f, "has more than {MOST} entries"),
            Self::Impossible(n) => write!(f, "has an impossible entry {n}"),
            Self::Overlapping(n) => write!(f, "has an entry {n} that overlaps an earlier one"),
        }
    }
}

impl core::error::Error for BadMcfg {}
