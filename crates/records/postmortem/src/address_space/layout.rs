//! The places of a machine's RAM in a raw file, which the file does not state.
//!
//! The kernel's top-level page table maps itself: a translation of its virtual address ends at its
//! physical address. The page of the file for which that holds gives the distance between the two.
//! A PC with much RAM has a part of it from 4 GiB up, without a gap in the file. The kernel's
//! mapping of all RAM tells where that part begins in the file.
//!
//! A part of the RAM may lack these tables, and a boot loader may have written over them. Such a file
//! is searched for a pointer of the kernel's image into its image. The reader of the memory then
//! decides which of the places are right.

use std::cmp::Reverse;
use std::fmt;

use super::tables::{Entry, Tables, Walk};
use crate::memory::PhysicalRange;
use crate::memory::container::{Container, read};

/// Physical address from which a PC has the rest of its RAM.
const HIGH: u64 = 1 << 32;

/// RAM below [`HIGH`] ends at a multiple of this.
const STEP: u64 = 1 << 20;

/// Maximum distance of a pointer in the kernel's image from the object to which it points.
const NEAR: u64 = 64 << 20;

/// Maximum number of places that are found by a pointer.
const MOST_PLACES: usize = 16;

/// Part of the RAM that is contiguous in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RamPart {
    physical: u64,
    len: u64,
    /// Offset in the file.
    at: u64,
}

/// The places of RAM in a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RamLayout {
    /// The parts, by address. None if the dump has physical addresses.
    parts: Vec<RamPart>,
    /// Whether the kernel's page tables can be used.
    has_tables: bool,
}

impl RamLayout {
    /// Returns the places of a dump that has physical addresses.
    pub(super) const fn identity() -> Self {
        Self {
            parts: Vec::new(),
            has_tables: true,
        }
    }

    /// Returns the places if they are not known: addresses are those of the file.
    pub(super) const fn unknown() -> Self {
        Self {
            parts: Vec::new(),
            has_tables: false,
        }
    }

    /// Returns the places of one part.
    fn starting_at(physical: u64, len: u64) -> Self {
        let at = 0;
        Self {
            parts: vec![RamPart { physical, len, at }],
            has_tables: true,
        }
    }

    /// Returns the places of a PC's RAM whose part from 4 GiB up starts at offset `low` of the file.
    fn split(low: u64, size: u64) -> Self {
        let low = RamPart {
            physical: 0,
            len: low,
            at: 0,
        };
        let high = RamPart {
            physical: HIGH,
            len: size - low.len,
            at: low.len,
        };
        Self {
            parts: vec![low, high],
            has_tables: true,
        }
    }

    /// Finds the possible places, the likeliest first, without a search if the file has physical
    /// addresses. `pointer` is the virtual address of a pointer of the kernel's image into its image.
    pub(super) fn solve(
        memory: &dyn Container,
        tables: &Tables,
        pointer: u64,
        searches: &mut usize,
    ) -> Vec<Self> {
        let last = memory.segments().last();
        let Some(size) = last.and_then(|last| last.start.checked_add(last.len)) else {
            return Vec::new();
        };
        let maps_itself = |layout: &Self| {
            let walk = tables.walk(tables.root, |at| layout.word(memory, at));
            matches!(walk, Walk::Mapped(physical, _) if physical == tables.physical_root)
        };
        let unshifted = Self::starting_at(0, size);
        if maps_itself(&unshifted) {
            let layout = unshifted.above_4_gib(memory, tables, size, searches);
            return layout.with_and_without_tables();
        }
        let Some(left) = searches.checked_sub(1) else {
            return Vec::new();
        };
        *searches = left;
        let top = tables.top_shift();
        let entry = tables.entry_offset(tables.root, top);
        let by_tables = words(memory, tables, entry).find_map(|(page, word)| {
            let Entry::Table(_) = (tables.decode)(tables, word, top) else {
                return None;
            };
            let start = tables.physical_root.checked_sub(page)?;
            let below = HIGH.checked_sub(start).filter(|below| *below <= page);
            let layout = match below {
                // A PC's kernel above 4 GiB.
                Some(low) if tables.is_pc && tables.physical_root >= HIGH => Self::split(low, size),
                _ => Self::starting_at(start, size),
            };
            maps_itself(&layout).then_some(layout)
        });
        if let Some(layout) = by_tables {
            return layout.with_and_without_tables();
        }
        let Some((physical, _)) = tables.in_image(pointer) else {
            return Vec::new();
        };
        let inside = physical % tables.page();
        let starts = words(memory, tables, inside).filter_map(|(page, word)| {
            let start = physical.checked_sub(inside)?.checked_sub(page)?;
            let is_near = word.abs_diff(pointer) < NEAR && tables.in_image(word).is_some();
            is_near.then_some(start)
        });
        // Many words of a kernel's data are such pointers. RAM starts at a round address.
        let mut roundest = Vec::with_capacity(MOST_PLACES + 1);
        for start in starts {
            roundest.push(start);
            roundest.sort_by_key(|start: &u64| Reverse(start.trailing_zeros()));
            roundest.truncate(MOST_PLACES);
        }
        let layouts = roundest.into_iter().map(|start| Self {
            has_tables: false,
            ..Self::starting_at(start, size)
        });
        layouts.collect()
    }

    /// Returns these places with the page tables, and then without them: a boot loader may have
    /// written over some of the tables.
    fn with_and_without_tables(self) -> Vec<Self> {
        let without = Self {
            has_tables: false,
            ..self.clone()
        };
        vec![self, without]
    }

    /// Returns whether the kernel's page tables can be used.
    pub(crate) const fn has_tables(&self) -> bool {
        self.has_tables
    }

    /// Adds the part of a PC's RAM from 4 GiB up, if it has one and its place is found.
    fn above_4_gib(
        self,
        memory: &dyn Container,
        tables: &Tables,
        size: u64,
        searches: &mut usize,
    ) -> Self {
        let map = DirectMap {
            memory,
            tables,
            known: &self,
        };
        map.start_of_high(size, searches)
            .map_or(self, |low| Self::split(low, size))
    }

    /// Returns whether RAM starts at 0, or has its own addresses. A program that forges a kernel in its
    /// memory does not know where that is.
    pub(crate) fn starts_at_0(&self) -> bool {
        self.parts.first().is_none_or(|part| part.physical == 0)
    }

    /// Returns the place of a physical address in the dump, and the number of bytes of `len` that
    /// are contiguous there.
    pub(super) fn place(&self, physical: u64, len: u64) -> Option<(u64, u64)> {
        if self.parts.is_empty() {
            return Some((physical, len));
        }
        self.parts.iter().find_map(|part| {
            let inside = physical.checked_sub(part.physical)?;
            let left = part.len.checked_sub(inside).filter(|left| *left > 0)?;
            Some((part.at + inside, left.min(len)))
        })
    }

    /// Reads a word of 64 bits.
    pub(super) fn word(&self, memory: &dyn Container, physical: u64) -> Option<u64> {
        let (at, len) = self.place(physical, 8)?;
        (len == 8).then(|| word(memory, at))?
    }
}

impl fmt::Display for RamLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let assumed = if self.has_tables {
            ""
        } else {
            ", without the kernel's page tables: they are lost or overwritten"
        };
        match *self.parts {
            [] if !self.has_tables => return f.write_str("addresses are offsets in the file"),
            [] => f.write_str("the dump has physical addresses"),
            [RamPart { physical: 0, .. }] => {
                f.write_str("offsets in the file are physical addresses")
            }
            [first, ..] if first.physical > 0 => {
                write!(
                    f,
                    "the file starts with physical address {:#x}",
                    first.physical
                )
            }
            [.., last] => write!(
                f,
                "RAM from {:#x} up starts at {:#x} of the file",
                last.physical, last.at
            ),
        }?;
        f.write_str(assumed)
    }
}

/// Returns the word at an offset in each page of a raw file, with the page's place.
fn words(memory: &dyn Container, tables: &Tables, inside: u64) -> impl Iterator<Item = (u64, u64)> {
    let page = tables.page();
    memory.data().flat_map(move |PhysicalRange { start, len }| {
        let end = start.saturating_add(len);
        // The page's start may be in a hole of the file.
        let first = start.saturating_sub(inside).next_multiple_of(page);
        let pages = (first..end.saturating_sub(inside)).step_by(page as usize);
        pages.filter_map(move |at| Some((at, word(memory, at + inside)?)))
    })
}

/// Base-2 logarithms of the bytes that entries of x86-64's tables map.
const GIB: u32 = 30;
const LARGE_PAGE: u32 = 21;

/// A kernel's linear mapping of all RAM, on x86-64: the first mapping of the kernel's half.
struct DirectMap<'a> {
    memory: &'a dyn Container,
    tables: &'a Tables,
    known: &'a RamLayout,
}

impl DirectMap<'_> {
    /// Returns the entry of a table that maps 2^`shift` bytes at `virt`, in the table at `physical`.
    fn entry(&self, physical: u64, virt: u64, shift: u32) -> Option<Entry> {
        let at = physical.checked_add(self.tables.entry_offset(virt, shift))?;
        let word = self.known.word(self.memory, at)?;
        Some((self.tables.decode)(self.tables, word, shift))
    }

    /// Returns the entry for the gigabyte at `virt`.
    fn gigabyte(&self, virt: u64) -> Option<Entry> {
        let mut table = self.tables.physical_root;
        let mut shift = self.tables.top_shift();
        while shift > GIB {
            let Entry::Table(next) = self.entry(table, virt, shift)? else {
                return None;
            };
            table = next;
            shift -= self.tables.index_bits();
        }
        self.entry(table, virt, GIB)
    }

    /// Returns the virtual address of physical address 0: the mapping starts at a multiple of 1 GiB,
    /// and the first one of the kernel's half.
    fn start(&self) -> Option<u64> {
        let mut table = self.tables.physical_root;
        let mut shift = self.tables.top_shift();
        let mut virt = !0 << (self.tables.bits - 1);
        loop {
            let first = self.tables.entry_offset(virt, shift) / 8;
            let (index, entry) = (first..512).find_map(|index| {
                let here = virt + ((index - first) << shift);
                let entry = self.entry(table, here, shift)?;
                (entry != Entry::Absent).then_some((here, entry))
            })?;
            virt = index;
            match entry {
                Entry::Table(next) if shift > GIB => table = next,
                _ => return (shift == GIB).then_some(virt),
            }
            shift -= self.tables.index_bits();
        }
    }

    /// Returns the offset in the file at which RAM from 4 GiB up starts, if there is such RAM.
    fn start_of_high(&self, size: u64, searches: &mut usize) -> Option<u64> {
        if !self.tables.is_pc {
            return None;
        }
        let start = self.start()?;
        let mut top = HIGH;
        // The gap has less than 4 GiB.
        let last = (size >> GIB) + (HIGH >> GIB);
        for number in (HIGH >> GIB)..=last {
            let physical = number << GIB;
            match self.gigabyte(start.checked_add(physical)?) {
                Some(Entry::Leaf(leaf)) if leaf == physical => top = physical + (1 << GIB),
                Some(Entry::Table(next)) if next >= HIGH || self.known.place(next, 8).is_none() => {
                    *searches = searches.checked_sub(1)?;
                    if let Some(low) = self.low_for_table(next, physical, size) {
                        return Some(low);
                    }
                }
                Some(Entry::Table(next)) => {
                    let pages = (0..512).map(|index| physical + (index << LARGE_PAGE));
                    let mapped = pages.filter(|page| {
                        self.entry(next, *page, LARGE_PAGE) == Some(Entry::Leaf(*page))
                    });
                    top = mapped.max().map_or(top, |page| page + (1 << LARGE_PAGE));
                }
                _ => {}
            }
        }
        (top > HIGH)
            .then(|| size.checked_sub(top - HIGH))?
            .filter(|low| *low < HIGH && low.is_multiple_of(STEP))
    }

    /// Returns the start in the file of RAM from 4 GiB up. For the right one, a table in that RAM maps
    /// `physical` and the memory behind it.
    fn low_for_table(&self, table: u64, physical: u64, size: u64) -> Option<u64> {
        let table = table.checked_sub(HIGH)?;
        let steps = (1..HIGH / STEP).map(|step| step * STEP);
        let fits = |low: &u64| {
            let mut leaves = 0;
            for index in 0..512 {
                let Some(word) = word(self.memory, low + table + index * 8) else {
                    return false;
                };
                match (self.tables.decode)(self.tables, word, LARGE_PAGE) {
                    Entry::Leaf(leaf) if leaf == physical + (index << LARGE_PAGE) => leaves += 1,
                    Entry::Leaf(_) => return false,
                    Entry::Absent if word != 0 => return false,
                    Entry::Absent | Entry::Table(_) => {}
                }
            }
            leaves > 0
        };
        steps.filter(|low| low + table < size).find(fits)
    }
}

/// Reads a word of 64 bits of a dump.
fn word(memory: &dyn Container, at: u64) -> Option<u64> {
    let bytes = read(memory, at, 8, 8)?;
    Some(u64::from_le_bytes(*bytes.first_chunk()?))
}
