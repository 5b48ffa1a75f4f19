//! Reckoning where everything goes: without an access.

use core::ops::Range;

use super::slot::{NO_PLACE, NOWHERE};
use super::{AssignFault, GRANULES, IO, MEMORY, PREFETCHABLE, SPACES, Slot, Work};
use crate::{BarKind, ConfigAccess};

/// Size, alignment and start of the window to each bus, in each space; in granules.
pub(super) struct Windows {
    pub(super) sizes: [[u32; SPACES]; 256],
    /// As powers of two, in bytes.
    pub(super) aligns: [[u8; SPACES]; 256],
    /// 0: nothing.
    pub(super) starts: [[u32; SPACES]; 256],
}

impl Windows {
    fn size(&self, bus: u8, space: usize) -> u64 {
        u64::from(self.sizes[usize::from(bus)][space]) << GRANULES[space]
    }

    fn start(&self, bus: u8, space: usize) -> u64 {
        u64::from(self.starts[usize::from(bus)][space]) << GRANULES[space]
    }

    /// Where the window to `bus` is; empty if it has none.
    pub(super) fn range(&self, bus: u8, space: usize) -> Range<u64> {
        let (start, size) = (self.start(bus, space), self.size(bus, space));
        match start {
            0 => 0..0,
            _ => start..start + size,
        }
    }
}

/// How far one space of one bus is filled.
pub(super) struct Packed {
    /// Where the next item can begin.
    next: u64,
    /// The largest alignment, as a power of two.
    align: u8,
    /// Items for which there was no room.
    short: u32,
}

impl Packed {
    /// Puts an item as soon as it is aligned; `None` if it would not end in time.
    fn put(&mut self, size: u64, align: u8, end: u64) -> Option<u64> {
        let start = self.next.checked_next_multiple_of(1 << align);
        let placed = start.and_then(|start| Some((start, start.checked_add(size)?)));
        match placed.filter(|(_, after)| *after <= end) {
            Some((start, after)) => {
                self.next = after;
                Some(start)
            }
            None => {
                self.short += 1;
                None
            }
        }
    }
}

impl<A: ConfigAccess + ?Sized, F: FnMut(AssignFault)> Work<'_, A, F> {
    /// Decides which space each BAR goes to, and reckons how large windows are.
    ///
    /// Prefetchable BARs go to their own range if all find room there. Else they are added one
    /// by one, the largest first, each where no other loses its room: in their own range, or
    /// in memory, or nowhere.
    pub(super) fn choose(&mut self) {
        for index in 0..self.used {
            let slot = &self.slots[index];
            let home = self.home(slot);
            let goes = home == PREFETCHABLE || self.could_be(slot, home);
            self.slots[index].space = if goes { home as u8 } else { NOWHERE };
        }
        if self.measure_all()[PREFETCHABLE] == 0 {
            return;
        }
        for index in 0..self.used {
            if self.slots[index].is_for(PREFETCHABLE) {
                self.slots[index].space = NOWHERE;
            }
        }
        let short = self.measure_all();
        let spaces = if short[MEMORY] == 0 {
            &[PREFETCHABLE, MEMORY][..]
        } else {
            &[PREFETCHABLE]
        };
        for align in (0..64).rev() {
            for index in 0..self.used {
                let slot = self.slots[index];
                if slot.align == align && self.home(&slot) == PREFETCHABLE {
                    let found = spaces.iter().find(|space| self.fits(index, &slot, **space));
                    self.slots[index].space = found.map_or(NOWHERE, |space| *space as u8);
                }
            }
        }
    }

    /// Whether there is room for one more in `space`. Windows are as large as with it, if so.
    fn fits(&mut self, index: usize, slot: &Slot, space: usize) -> bool {
        if !self.could_be(slot, space) {
            return false;
        }
        self.slots[index].space = space as u8;
        let fits = self.measure_up(slot.bus, space) == 0;
        if !fits {
            self.slots[index].space = NOWHERE;
            self.measure_up(slot.bus, space);
        }
        fits
    }

    /// The space that a BAR belongs to.
    fn home(&self, slot: &Slot) -> usize {
        let end = self.spaces[PREFETCHABLE].end;
        // It must be able to have any place there.
        let decodes = slot.bits == 64 || slot.bits > 32 && end <= slot.before();
        match slot.kind {
            BarKind::Io => IO,
            BarKind::Prefetchable if decodes && self.passes[PREFETCHABLE].contains(slot.bus) => {
                PREFETCHABLE
            }
            _ => MEMORY,
        }
    }

    /// Whether a BAR could have a place in `space` if nothing else were there.
    fn could_be(&self, slot: &Slot, space: usize) -> bool {
        let Range { start, end } = self.spaces[space];
        let first = start.checked_next_multiple_of(slot.size());
        let after = first.and_then(|first| first.checked_add(slot.size()));
        let fits = after.is_some_and(|after| after <= end.min(slot.before()));
        fits && self.passes[space].contains(slot.bus)
    }

    /// Reckons what each bus needs, from the last to the first; returns how many items have
    /// found no room in each space.
    fn measure_all(&mut self) -> [u32; SPACES] {
        let mut short = [0; SPACES];
        for bus in (self.root..=self.done.last_bus).rev() {
            for (space, short) in short.iter_mut().enumerate() {
                *short += self.measure(bus, space);
            }
        }
        short
    }

    /// The same for one space of `bus` and of the buses above it.
    fn measure_up(&mut self, mut bus: u8, space: usize) -> u32 {
        let mut short = self.measure(bus, space);
        while bus != self.root {
            bus = self.above[usize::from(bus)].0;
            short += self.measure(bus, space);
        }
        short
    }

    fn measure(&mut self, bus: u8, space: usize) -> u32 {
        let whole = self.spaces[space].clone();
        let range = match bus == self.root {
            true => whole,
            false => 0..whole.end - whole.start,
        };
        let packed = self.pack(bus, space, range.clone());
        let granules = (packed.next - range.start).div_ceil(1 << GRANULES[space]);
        self.given.sizes[usize::from(bus)][space] = granules.try_into().unwrap_or(u32::MAX);
        self.given.aligns[usize::from(bus)][space] = packed.align.max(GRANULES[space]);
        packed.short
    }

    /// Gives everything in one space of a bus a place in `range`: the largest alignment first.
    pub(super) fn pack(&mut self, bus: u8, space: usize, range: Range<u64>) -> Packed {
        let slots = self.slots_on(bus);
        let its = self.slots[slots.clone()]
            .iter()
            .filter(|slot| slot.is_for(space));
        let mut aligns = its.fold(0u64, |aligns, slot| aligns | slot.size());
        let mut next = self.first_below(bus);
        while let Some(below) = next {
            if self.given.sizes[usize::from(below)][space] != 0 {
                aligns |= 1 << self.given.aligns[usize::from(below)][space];
            }
            next = self.next_beside(below);
        }
        let mut packed = Packed {
            next: range.start,
            align: aligns.checked_ilog2().unwrap_or(0) as u8,
            short: 0,
        };
        while let Some(align) = aligns.checked_ilog2() {
            aligns ^= 1 << align;
            let align = align as u8;
            for slot in &mut self.slots[slots.clone()] {
                if slot.is_for(space) && slot.align == align {
                    let end = range.end.min(slot.before());
                    slot.place = packed.put(slot.size(), align, end).unwrap_or(NO_PLACE);
                }
            }
            let mut next = self.first_below(bus);
            while let Some(below) = next {
                next = self.next_beside(below);
                let size = self.given.size(below, space);
                let below = usize::from(below);
                if size != 0 && self.given.aligns[below][space] == align {
                    let start = packed.put(size, align, range.end).unwrap_or(0);
                    self.given.starts[below][space] = (start >> GRANULES[space]) as u32;
                }
            }
        }
        packed
    }
}
