//! Arithmetic of buses, windows and addresses, without accesses.

use core::iter;
use core::ops::{Range, RangeInclusive};

use super::bar_slot::{BarSlot, NOWHERE};
use super::fault::BadRanges;
use crate::BarKind;
use crate::byte_set::ByteSet;

/// Indexes of the address spaces.
pub(super) const IO: usize = 0;
const MEMORY: usize = 1;
const PREFETCHABLE: usize = 2;
pub(super) const SPACES: usize = 3;

/// Granularity of bridge windows in each space, as powers of two (Bridge Architecture 1.2, 3.2.5.6,
/// 3.2.5.8, 3.2.5.9).
const GRANULES: [u8; SPACES] = [12, 20, 20];

/// A bus, and its window in each address space.
#[derive(Clone, Copy, Default)]
pub(super) struct PlannedBus {
    /// Bridge to this bus: its bus, and its device and function.
    pub(super) bridge: Option<(u8, u8)>,
    /// Last bus below it, or itself.
    pub(super) last: u8,
    /// Window sizes in granules.
    sizes: [u32; SPACES],
    /// Window alignments in bytes, as powers of two; 0 for an empty window.
    aligns: [u8; SPACES],
    /// Window starts in granules; 0 for none.
    starts: [u32; SPACES],
}

/// Buses and BARs: stored during numbering, then placed.
pub(super) struct Plan<'a> {
    pub(super) spaces: [Range<u64>; SPACES],
    /// Buses that each address space reaches.
    pub(super) passes: [ByteSet; SPACES],
    pub(super) root: u8,
    pub(super) buses: [PlannedBus; 256],
    /// Slots, sorted by the addresses of their functions.
    pub(super) slots: &'a mut [BarSlot],
    /// Number of slots in use.
    pub(super) used: usize,
}

/// Bus numbers and addresses available below a root bus. An empty range is unavailable.
///
/// Addresses are those on the bus. If CPUs use other addresses (as a device tree may state), the
/// caller translates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// Bus numbers; the first is the root bus's own.
    pub buses: RangeInclusive<u8>,
    /// I/O space.
    pub io: Range<u64>,
    /// Memory below 4 GiB, for BARs that are not prefetchable or have only 32 bits.
    pub memory: Range<u64>,
    /// Memory above or below 4 GiB, for 64-bit prefetchable BARs, the largest first.
    ///
    /// Such a BAR uses `memory` instead in three cases. This range is empty or full, a bridge above
    /// cannot forward it, or the BAR decodes fewer address bits. BARs that move because the range
    /// is full take no space in `memory` that other BARs need.
    pub prefetchable: Range<u64>,
}

impl Ranges {
    /// Returns the usable part of each range, in which BARs and windows can have addresses.
    pub(super) fn spaces(&self) -> Result<[Range<u64>; SPACES], BadRanges> {
        let [io, memory, prefetchable] = [&self.io, &self.memory, &self.prefetchable];
        if self.buses.is_empty() {
            return Err(BadRanges::NoBus);
        }
        if [io, memory]
            .iter()
            .any(|one| !one.is_empty() && one.end > 1 << 32)
        {
            return Err(BadRanges::Above4Gib);
        }
        if memory.start.max(prefetchable.start) < memory.end.min(prefetchable.end) {
            return Err(BadRanges::Overlapping);
        }
        Ok([0, 1, 2].map(|space| {
            let (range, granule) = ([io, memory, prefetchable][space], GRANULES[space]);
            // A BAR at 0 counts as unassigned. A window's registers have 32 bits.
            let range = range.start.max(1 << granule)..range.end.min(1 << (32 + granule));
            if range.is_empty() { 0..0 } else { range }
        }))
    }
}

impl Plan<'_> {
    /// Stores the BARs of a function after all others. Returns `false` without enough slots.
    pub(super) fn keep(&mut self, slots: impl Iterator<Item = BarSlot> + Clone) -> bool {
        let end = self.used + slots.clone().count();
        let Some(room) = self.slots.get_mut(self.used..end) else {
            return false;
        };
        iter::zip(room, slots).for_each(|(to, slot)| *to = slot);
        self.used = end;
        true
    }

    pub(super) fn all_buses(&self) -> RangeInclusive<u8> {
        self.root..=self.buses[usize::from(self.root)].last
    }

    /// Returns the BARs of a function, and the windows of a bridge that leads to a bus.
    pub(super) fn function(
        &self,
        bus: u8,
        devfn: u8,
    ) -> (&[BarSlot], Option<[Range<u64>; SPACES]>) {
        let mut below = bus..=self.buses[usize::from(bus)].last;
        let below =
            below.find(|below| self.buses[usize::from(*below)].bridge == Some((bus, devfn)));
        let windows = below.map(|below| [0, 1, 2].map(|space| self.range(below, space)));
        (
            &self.slots[self.slots_between((bus, devfn), (bus, devfn))],
            windows,
        )
    }

    fn slots_between(&self, first: (u8, u8), last: (u8, u8)) -> Range<usize> {
        let slots = &self.slots[..self.used];
        let start = slots.partition_point(|slot| (slot.bus, slot.devfn) < first);
        start..slots.partition_point(|slot| (slot.bus, slot.devfn) <= last)
    }

    /// Returns the addresses in `space` that reach `bus`.
    fn range(&self, bus: u8, space: usize) -> Range<u64> {
        let PlannedBus {
            bridge,
            sizes,
            starts,
            ..
        } = &self.buses[usize::from(bus)];
        let bytes = |granules: u32| u64::from(granules) << GRANULES[space];
        match starts[space] {
            _ if bridge.is_none() => self.spaces[space].clone(),
            0 => 0..0,
            start => bytes(start)..bytes(start) + bytes(sizes[space]),
        }
    }

    /// Selects the space of each BAR, and computes the sizes of windows.
    ///
    /// Prefetchable BARs use their own range if all fit there. Otherwise they are added one by one,
    /// the largest first, where no other BAR loses its room: in their own range, in memory, or
    /// nowhere.
    pub(super) fn choose(&mut self) {
        for index in 0..self.used {
            let space = self.home(index);
            if space == PREFETCHABLE || self.could_be(index, space) {
                self.slots[index].space = space as u8;
            }
        }
        let [_, memory_fits, all_fit] =
            [IO, MEMORY, PREFETCHABLE].map(|space| self.measure_all(space));
        if all_fit {
            return;
        }
        for index in 0..self.used {
            if self.home(index) == PREFETCHABLE {
                self.slots[index].space = NOWHERE;
            }
        }
        self.measure_all(PREFETCHABLE);
        for align in (0..64).rev() {
            for index in 0..self.used {
                if self.home(index) == PREFETCHABLE && self.slots[index].align == align {
                    let _ =
                        self.fits(index, PREFETCHABLE) || memory_fits && self.fits(index, MEMORY);
                }
            }
        }
    }

    /// Returns the space that a BAR belongs to.
    fn home(&self, index: usize) -> usize {
        let slot = &self.slots[index];
        // It must be able to decode every address there.
        let decodes = slot.bits == 64 || self.spaces[PREFETCHABLE].end <= slot.before();
        let passes = self.passes[PREFETCHABLE].contains(slot.bus);
        match slot.kind {
            BarKind::Io => IO,
            BarKind::Prefetchable if slot.bits > 32 && decodes && passes => PREFETCHABLE,
            _ => MEMORY,
        }
    }

    /// Returns whether a BAR would fit into the empty `space`.
    fn could_be(&self, index: usize, space: usize) -> bool {
        let (slot, Range { start, end }) = (&self.slots[index], &self.spaces[space]);
        let first = start.checked_next_multiple_of(slot.size());
        let after = first.and_then(|first| first.checked_add(slot.size()));
        after.is_some_and(|after| after <= slot.before().min(*end))
            && self.passes[space].contains(slot.bus)
    }

    /// Adds a BAR to `space` if no other BAR loses its place.
    fn fits(&mut self, index: usize, space: usize) -> bool {
        let bus = self.slots[index].bus;
        self.slots[index].space = space as u8;
        let fits = self.could_be(index, space) && self.measure_up(bus, space);
        if !fits {
            self.slots[index].space = NOWHERE;
            self.measure_up(bus, space);
        }
        fits
    }

    /// Measures all windows, the last first. Returns `false` if something does not fit.
    fn measure_all(&mut self, space: usize) -> bool {
        let buses = self.all_buses().rev();
        buses.fold(true, |fits, bus| fits & self.measure(bus, space))
    }

    /// Measures the window to `bus` and those around it.
    fn measure_up(&mut self, mut bus: u8, space: usize) -> bool {
        let mut fits = self.measure(bus, space);
        while let Some((above, _)) = self.buses[usize::from(bus)].bridge {
            bus = above;
            fits &= self.measure(bus, space);
        }
        fits
    }

    fn measure(&mut self, bus: u8, space: usize) -> bool {
        let Range { mut start, mut end } = self.spaces[space];
        if bus != self.root {
            // Relative to the window, which is aligned for everything in it.
            (start, end) = (0, end - start);
        }
        let (after, align, fits) = self.pack(bus, space, start..end);
        let granules = (after - start).div_ceil(1 << GRANULES[space]);
        let window = &mut self.buses[usize::from(bus)];
        window.sizes[space] = granules.try_into().unwrap_or(u32::MAX);
        window.aligns[space] = if granules == 0 { 0 } else { align };
        fits
    }

    /// Assigns the final addresses of all BARs and windows, or none.
    pub(super) fn place(&mut self) {
        for slot in &mut self.slots[..self.used] {
            slot.place = 0;
        }
        for bus in self.all_buses() {
            for space in 0..SPACES {
                self.pack(bus, space, self.range(bus, space));
            }
        }
    }

    /// Assigns places in `range` to everything in one space of a bus, the largest alignment first.
    /// Returns the end of the last one, the largest alignment, and whether everything fits.
    fn pack(&mut self, bus: u8, space: usize, range: Range<u64>) -> (u64, u8, bool) {
        let (mut next, mut all) = (range.start, true);
        let mut put = |size: u64, align: u8, end: u64| {
            let start = next.checked_next_multiple_of(1u64 << align).unwrap_or(end);
            let after = start.checked_add(size).filter(|after| *after <= end);
            all &= after.is_some();
            next = after.unwrap_or(next);
            after.map_or(0, |_| start)
        };
        let its = self.slots_between((bus, 0), (bus, u8::MAX));
        let its = &mut self.slots[its];
        let mut aligns = 0u64;
        for slot in its.iter().filter(|slot| slot.is_for(space)) {
            aligns |= slot.size();
        }
        for_each_below(&mut self.buses, bus, |to| aligns |= 1 << to.aligns[space]);
        aligns &= !1; // of empty windows
        let align = aligns
            .checked_ilog2()
            .map_or(0, |most| GRANULES[space].max(most as u8));
        while let Some(align) = aligns.checked_ilog2() {
            aligns ^= 1 << align;
            let align = align as u8;
            let is_next = |slot: &&mut BarSlot| slot.is_for(space) && slot.align == align;
            for slot in its.iter_mut().filter(is_next) {
                slot.place = put(slot.size(), align, range.end.min(slot.before()));
            }
            for_each_below(&mut self.buses, bus, |window| {
                if window.aligns[space] == align {
                    let size = u64::from(window.sizes[space]) << GRANULES[space];
                    let start = put(size, align, range.end);
                    window.starts[space] = (start >> GRANULES[space]) as u32;
                }
            });
        }
        (next, align, all)
    }
}

/// Visits the buses directly below `bus`.
fn for_each_below(buses: &mut [PlannedBus; 256], bus: u8, mut visit: impl FnMut(&mut PlannedBus)) {
    let last = usize::from(buses[usize::from(bus)].last);
    let mut at = usize::from(bus) + 1;
    while at <= last {
        visit(&mut buses[at]);
        at = at.max(buses[at].last.into()) + 1;
    }
}
