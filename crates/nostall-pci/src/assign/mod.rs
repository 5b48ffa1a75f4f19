//! Bus numbers, bridge windows and BARs, where no firmware has given them out.
//!
//! Each function is looked at once, while buses are numbered depth first: its BARs are sized and
//! noted in the caller's slots. All reckoning is done there, without an access. Then, from the
//! first bus to the last, places are written: the largest alignment first, so that nothing is
//! lost between.

mod fault;
mod number;
mod place;
mod plan;
mod slot;

use core::ops::{Range, RangeInclusive};

pub use self::fault::{AssignFault, BadRanges};
use self::plan::Windows;
pub use self::slot::Slot;
use crate::byte_set::ByteSet;
use crate::one_bus::Links;
use crate::{AccessError, Address, ConfigAccess};

/// Bus numbers and addresses that a root bus has to give. An empty range is not there.
///
/// The addresses are those on the bus. Where the processors see them elsewhere (a device
/// tree says so), that is the caller's to reckon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// Bus numbers; the first is the root bus's own.
    pub buses: RangeInclusive<u8>,
    /// I/O space.
    pub io: Range<u64>,
    /// Memory below 4 GiB, for all that is not prefetchable or has only 32 bits.
    pub memory: Range<u64>,
    /// Memory, above 4 GiB or below, for prefetchable BARs of 64 bits, the largest first. Where
    /// this is empty or full, or a bridge on the way cannot pass it on, or they do not decode as
    /// many bits as it has, they go to `memory`. Those for which it is full take no room there
    /// that others need.
    pub prefetchable: Range<u64>,
}

/// Whether functions may answer at once.
///
/// Bridges pass accesses on in both cases, and what those below them do as bus masters:
/// no driver turns on a bridge above its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoding {
    /// They stay silent; each driver turns its own on.
    Off,
    /// A function whose BARs of a space (I/O, memory) all have their places answers there.
    On,
}

/// Counts of all that was given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assigned {
    /// The last bus number in use.
    pub last_bus: u8,
    /// BARs that have a place.
    pub placed: u32,
    /// BARs that have none, each of which was reported, by itself or with its function.
    pub left: u32,
    /// Slots that the BARs of the functions met would take: more than were lent if a function was
    /// left out for want of them. Functions below a bridge that was left out are not counted.
    pub slots: u32,
}

/// Gives out bus numbers, bridge windows and BARs on all buses of `segment` below the first
/// of `ranges.buses`, whatever was there before: a second run changes nothing. ARI
/// forwarding is turned on where a device has use for it.
///
/// A BAR that has no place, or cannot have one, goes to `report`: it is left at 0, and its
/// function's decoding of that space off. A host bridge is left as it is, its BARs too.
/// ROMs get addresses but are not enabled. Nothing gets the address 0.
///
/// No driver may use a device meanwhile: its decoding is off and its place changes.
///
/// `slots` is scratch memory, one [`Slot`] for each BAR and ROM; its contents do not matter. A
/// function whose BARs find no slot is reported ([`AssignFault::NoSlot`]) and stays
/// silent, and nothing below it gets a place. [`Assigned::slots`] counts how many it takes.
///
/// However short address space is, accesses are at most linear in functions and BARs: 32 a bus,
/// 16 a function, 4 for each BAR register (7 of an endpoint, 3 of a bridge), 48 more a bridge,
/// and up to two for each entry of the capability lists of bridges and of functions below a
/// port that can forward ARI. The stack takes some 9 KiB. Where prefetchable memory is short,
/// each BAR of it takes up to four rounds of arithmetic over its own bus and those above it.
///
/// # Errors
///
/// [`BadRanges`], before anything was touched.
pub fn assign<A: ConfigAccess + ?Sized>(
    access: &A,
    segment: u32,
    ranges: &Ranges,
    decoding: Decoding,
    slots: &mut [Slot],
    report: impl FnMut(AssignFault),
) -> Result<Assigned, BadRanges> {
    let spaces = ranges.spaces()?;
    let (root, last) = (*ranges.buses.start(), *ranges.buses.end());
    let mut work = Work {
        access,
        segment,
        report,
        spaces,
        decoding,
        links: Links::default(),
        passes: [ByteSet::default(); SPACES],
        above: [NO_BRIDGE; 256],
        first_below: [0; 256],
        next_beside: [0; 256],
        root,
        slots,
        used: 0,
        given: Windows {
            sizes: [[0; SPACES]; 256],
            aligns: [[0; SPACES]; 256],
            starts: [[0; SPACES]; 256],
        },
        done: Assigned::default(),
    };
    for space in 0..SPACES {
        if !work.spaces[space].is_empty() {
            work.passes[space].insert(root);
        }
    }
    work.done.last_bus = work.number(root, last);
    work.link();
    work.choose();
    for bus in root..=work.done.last_bus {
        work.place(bus);
    }
    Ok(work.done)
}

/// The spaces, as indices.
const IO: usize = 0;
const MEMORY: usize = 1;
const PREFETCHABLE: usize = 2;
const SPACES: usize = 3;

/// The granules of bridge windows in them, as powers of two (Bridge Architecture 1.2,
/// 3.2.5.6, 3.2.5.8, 3.2.5.9).
const GRANULES: [u8; SPACES] = [12, 20, 20];

/// No bridge can be there: no bus is below the last one.
const NO_BRIDGE: (u8, u8) = (0xff, 0xff);

const FOUR_GIB: u64 = 1 << 32;

impl Ranges {
    fn spaces(&self) -> Result<[Range<u64>; SPACES], BadRanges> {
        let Self {
            buses,
            io,
            memory,
            prefetchable,
        } = self;
        if buses.is_empty() {
            return Err(BadRanges::NoBus);
        }
        let high = |range: &Range<u64>| !range.is_empty() && range.end > FOUR_GIB;
        if high(io) || high(memory) {
            return Err(BadRanges::Above4Gib);
        }
        let overlap = !memory.is_empty()
            && !prefetchable.is_empty()
            && memory.start < prefetchable.end
            && prefetchable.start < memory.end;
        if overlap {
            return Err(BadRanges::Overlapping);
        }
        let mut spaces = [io, memory, prefetchable].map(Range::clone);
        for (space, granule) in spaces.iter_mut().zip(GRANULES) {
            // A BAR at 0 counts as one that has no place.
            space.start = space.start.max(1 << granule);
            // A window's registers have no room for more.
            space.end = space.end.min(1 << (32 + granule));
            if space.is_empty() {
                *space = 0..0;
            }
        }
        Ok(spaces)
    }
}

struct Work<'a, A: ?Sized, F> {
    access: &'a A,
    segment: u32,
    report: F,
    spaces: [Range<u64>; SPACES],
    decoding: Decoding,
    links: Links,
    /// For each space the buses that it gets to.
    passes: [ByteSet; SPACES],
    /// For each bus the bridge that leads to it: bus, device and function.
    above: [(u8, u8); 256],
    /// For each bus the first one that a bridge on it leads to, and the next one that a bridge
    /// beside the one above it leads to; 0: none.
    first_below: [u8; 256],
    next_beside: [u8; 256],
    root: u8,
    /// Those of a bus stand together, lower buses first; those of a function do, too.
    slots: &'a mut [Slot],
    /// How many of them hold something.
    used: usize,
    given: Windows,
    done: Assigned,
}

impl<A: ConfigAccess + ?Sized, F: FnMut(AssignFault)> Work<'_, A, F> {
    /// Notes for each bus which ones are below it, now that all have numbers.
    fn link(&mut self) {
        for below in (1..=255).rev() {
            let (above, _) = self.above[usize::from(below)];
            if above < below {
                self.next_beside[usize::from(below)] = self.first_below[usize::from(above)];
                self.first_below[usize::from(above)] = below;
            }
        }
    }

    /// The bus after `below` of those that bridges on one bus lead to.
    fn next_beside(&self, below: u8) -> Option<u8> {
        Some(self.next_beside[usize::from(below)]).filter(|next| *next != 0)
    }

    fn first_below(&self, bus: u8) -> Option<u8> {
        Some(self.first_below[usize::from(bus)]).filter(|first| *first != 0)
    }

    /// The slots of a bus.
    fn slots_on(&self, bus: u8) -> Range<usize> {
        let used = &self.slots[..self.used];
        let end = |last: u8| used.partition_point(|slot| slot.bus <= last);
        bus.checked_sub(1).map_or(0, end)..end(bus)
    }

    /// The slots of a function.
    fn slots_of(&self, bus: u8, devfn: u8) -> Range<usize> {
        let all = self.slots_on(bus);
        let is_its = |slot: &Slot| slot.devfn == devfn;
        let mut its = self.slots[all.clone()].iter();
        let before = its.by_ref().take_while(|slot| !is_its(slot)).count();
        let start = (all.start + before).min(all.end);
        let count = self.slots[start..all.end]
            .iter()
            .take_while(|slot| is_its(slot));
        start..start + count.count()
    }

    fn note(&mut self, address: Address, result: Result<(), AccessError>) {
        if let Err(error) = result {
            (self.report)(AssignFault::Access { address, error });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::number::Unnumbered;
    use super::*;

    #[test]
    fn what_is_on_the_stack_is_as_much_as_is_said() {
        type AsUsed = Work<'static, dyn ConfigAccess, fn(AssignFault)>;
        let most = size_of::<AsUsed>() + size_of::<Unnumbered>();
        assert!(most <= 9 << 10, "{most}");
        assert_eq!(size_of::<Slot>(), 16);
    }
}
