//! Bus numbers, bridge windows and BARs, where no firmware has given them out.
//!
//! Each function is looked at once, while buses are numbered depth first: its BARs are sized and
//! noted in the caller's slots. All reckoning is done there, without an access. Then, from the
//! first bus to the last, places are written: the largest alignment first, so that nothing is
//! lost between.

use core::fmt;
use core::ops::{Range, RangeInclusive};

use crate::ari::Ari;
use crate::bar::{Layout, bars_left, clear, fill};
use crate::bridge::{self, Window};
use crate::byte_set::ByteSet;
use crate::one_bus::{Links, OneBus};
use crate::registers::{COMMAND_BUS_MASTER, COMMAND_IO, COMMAND_MEMORY};
use crate::{
    AccessError, Address, Bar, BarFault, BarKind, Buses, ConfigAccess, Function, Header, ScanFault,
    Unread,
};

/// What a root bus has to give. A range that is empty is not there.
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

/// What was given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assigned {
    /// The last bus number in use.
    pub last_bus: u8,
    /// BARs that have a place.
    pub placed: u32,
    /// BARs that have none, each of which was reported.
    pub left: u32,
    /// Slots that were needed; more than were lent if a function was left out for want of them.
    pub slots: u32,
}

/// Memory that [`assign`] notes one BAR in: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Its address, or [`NO_PLACE`]; on its bus, until all windows have theirs.
    place: u64,
    bus: u8,
    devfn: u8,
    register: u8,
    kind: BarKind,
    /// Address bits that it decodes; 0 for one that cannot have a place.
    bits: u8,
    /// Its size, which is also its alignment, as a power of two.
    align: u8,
    /// The space that it is to go to, or [`NOWHERE`].
    space: u8,
}

/// Gives out bus numbers, bridge windows and BARs on all buses of `segment` below the first
/// of `ranges.buses`, whatever was there before: a second run changes nothing. ARI
/// forwarding is turned on where a device has use for it.
///
/// A BAR that has no place, or cannot have one, goes to `report`: it is left at 0, and its
/// function's decoding of that space off. A host bridge is left as it is, its BARs too.
/// ROMs get addresses but are not enabled. Nothing gets the address 0.
///
/// Nobody may use a device meanwhile: its decoding is off and its place changes.
///
/// `slots` is scratch memory, one [`Slot`] for each BAR and ROM; what it holds is of no
/// matter. A function whose BARs find no slot is reported ([`AssignFault::NoSlot`]) and stays
/// silent, and what is below it gets nothing. [`Assigned::slots`] counts how many it takes.
///
/// However short address space is, accesses are at most linear in functions and BARs: 32 a bus,
/// 16 a function, 4 for each BAR register (7 of an endpoint, 3 of a bridge), 48 more a bridge,
/// and one for each entry of a bridge's and an ARI function's lists of capabilities. The stack
/// takes some 9 KiB. Where prefetchable memory is short, each BAR of it takes at most three
/// rounds of arithmetic over the slots of the buses above it.
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
        above: [NOBODY; 256],
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

/// The space of a BAR that gets no place.
const NOWHERE: u8 = 3;

/// The place of a BAR for which there was no room.
const NO_PLACE: u64 = u64::MAX;

/// The granules of bridge windows in them, as powers of two (Bridge Architecture 1.2,
/// 3.2.5.6, 3.2.5.8, 3.2.5.9).
const GRANULES: [u8; SPACES] = [12, 20, 20];

/// No bridge can be there: no bus is below the last one.
const NOBODY: (u8, u8) = (0xff, 0xff);

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

/// What each bus needs of each space, and what it got; in granules.
struct Windows {
    sizes: [[u32; SPACES]; 256],
    /// As powers of two, in bytes.
    aligns: [[u8; SPACES]; 256],
    /// 0: nothing.
    starts: [[u32; SPACES]; 256],
}

impl Windows {
    fn size(&self, bus: u8, space: usize) -> u64 {
        u64::from(self.sizes[usize::from(bus)][space]) << GRANULES[space]
    }

    fn start(&self, bus: u8, space: usize) -> u64 {
        u64::from(self.starts[usize::from(bus)][space]) << GRANULES[space]
    }

    /// Where the window to `bus` is; empty if it has none.
    fn range(&self, bus: u8, space: usize) -> Range<u64> {
        let (start, size) = (self.start(bus, space), self.size(bus, space));
        match start {
            0 => 0..0,
            _ => start..start + size,
        }
    }
}

impl Slot {
    /// One that holds nothing.
    pub const EMPTY: Self = Self {
        place: NO_PLACE,
        bus: 0,
        devfn: 0,
        register: 0,
        kind: BarKind::Memory,
        bits: 0,
        align: 0,
        space: NOWHERE,
    };

    /// Returns a slot for a BAR; `None` for one that needs none, since it cannot answer.
    fn of(address: Address, bar: Result<Bar, BarFault>) -> Option<Self> {
        let (bus, devfn) = (address.bus(), address.devfn());
        let empty = Self {
            bus,
            devfn,
            ..Self::EMPTY
        };
        match bar {
            Err(fault) if fault.command() == 0 => None,
            Err(_) => Some(empty),
            Ok(bar) => Some(Self {
                register: bar.register as u8,
                kind: bar.kind,
                bits: bar.bits,
                align: bar.size?.checked_ilog2()? as u8,
                ..empty
            }),
        }
    }

    fn bar(&self) -> Bar {
        Bar {
            register: self.register.into(),
            kind: self.kind,
            bits: self.bits,
            address: 0,
            size: Some(self.size()),
        }
    }

    const fn size(&self) -> u64 {
        1 << self.align
    }

    /// Where it must end at the latest.
    fn before(&self) -> u64 {
        1u64.checked_shl(self.bits.into()).unwrap_or(u64::MAX)
    }

    fn is_for(&self, space: usize) -> bool {
        usize::from(self.space) == space
    }

    fn place(&self) -> Option<u64> {
        (self.space != NOWHERE && self.place != NO_PLACE).then_some(self.place)
    }

    /// The bits of Command that make it answer, or could.
    const fn command(&self) -> u16 {
        match self.bits {
            0 => COMMAND_IO | COMMAND_MEMORY,
            _ => self.kind.command(),
        }
    }
}

/// How far one space of one bus is filled.
struct Packed {
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

/// Bridges that were met and have no numbers yet, by bus and device and function; the next
/// one last.
struct Unnumbered {
    list: [(u8, u8); 256],
    len: usize,
}

impl Default for Unnumbered {
    fn default() -> Self {
        Self {
            list: [NOBODY; 256],
            len: 0,
        }
    }
}

impl Unnumbered {
    /// `false` if it is full: there are not so many bus numbers.
    fn push(&mut self, bus: u8, devfn: u8) -> bool {
        let Some(place) = self.list.get_mut(self.len) else {
            return false;
        };
        *place = (bus, devfn);
        self.len += 1;
        true
    }

    /// Brings those from the `first` on into the order in which they are taken out.
    fn reverse_from(&mut self, first: usize) {
        if let Some(new) = self.list.get_mut(first..self.len) {
            new.reverse();
        }
    }

    /// Takes out the next one, if it is on `bus`.
    fn next_on(&mut self, bus: u8) -> Option<u8> {
        let at = self.len.checked_sub(1)?;
        let (on, devfn) = *self.list.get(at)?;
        if on != bus {
            return None;
        }
        self.len = at;
        Some(devfn)
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

/// Whether the BARs of a function have found slots.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Yes,
    No,
}

impl<A: ConfigAccess + ?Sized, F: FnMut(AssignFault)> Work<'_, A, F> {
    fn first(&self, bus: u8) -> Address {
        Address::from_devfn(self.segment, bus, 0)
    }

    fn walk(&self, bus: u8) -> OneBus {
        OneBus::new(self.first(bus), self.links.of(bus))
    }

    /// Gives out bus numbers below `root`, depth first; returns the last one given.
    fn number(&mut self, root: u8, last: u8) -> u8 {
        let mut unnumbered = Unnumbered::default();
        self.meet(root, &mut unnumbered);
        let (mut bus, mut used) = (root, root);
        loop {
            let Some(devfn) = unnumbered.next_on(bus) else {
                if bus == root {
                    return used;
                }
                // All below this bridge is known: on with the bus above.
                let (above, devfn) = self.above[usize::from(bus)];
                let bridge = Address::from_devfn(self.segment, above, devfn);
                self.note(
                    bridge,
                    bridge::number(self.access, bridge, above, bus, used),
                );
                bus = above;
                continue;
            };
            let address = Address::from_devfn(self.segment, bus, devfn);
            let secondary = used.checked_add(1).filter(|next| *next <= last);
            match self.enter(address, secondary, last) {
                Ok(Some(below)) => {
                    (bus, used) = (below, below);
                    self.meet(below, &mut unnumbered);
                }
                Ok(None) => {}
                Err(error) => self.note(address, Err(error)),
            }
        }
    }

    /// Silences the functions of a bus and sizes their BARs. Takes its bridges' numbers away
    /// before any of them gets new ones: else two could claim one bus.
    fn meet(&mut self, bus: u8, unnumbered: &mut Unnumbered) {
        let before = unnumbered.len;
        let mut walk = self.walk(bus);
        while let Some((found, fault)) = walk.next(self.access) {
            if let Some(fault) = found.as_ref().err().copied().or(fault) {
                (self.report)(AssignFault::Scan(fault));
            }
            let Ok(function) = found else { continue };
            if function.is_host_bridge() {
                continue;
            }
            let address = function.address;
            let silent = self.silence(&function);
            let kept = silent.and_then(|()| self.keep_bars(&function));
            self.note(address, kept.map(drop));
            match function.header {
                Header::CardBus { .. } => (self.report)(AssignFault::CardBus(address)),
                Header::Bridge(_) if kept == Ok(Kept::No) => {
                    let closed = bridge::open(self.access, address, &[Window::CLOSED; SPACES]);
                    self.note(address, closed);
                }
                Header::Bridge(_) if !unnumbered.push(bus, address.devfn()) => {
                    (self.report)(AssignFault::NoBus(address));
                }
                _ => {}
            }
        }
        unnumbered.reverse_from(before);
    }

    fn silence(&self, function: &Function) -> Result<(), AccessError> {
        let address = function.address;
        bridge::command(self.access, address, COMMAND_IO | COMMAND_MEMORY, 0)?;
        match function.buses() {
            None
            | Some(Buses {
                primary: 0,
                secondary: 0,
                subordinate: 0,
            }) => Ok(()),
            Some(_) => bridge::number(self.access, address, 0, 0, 0),
        }
    }

    /// Numbers a bridge and closes its windows; says which bus is below.
    fn enter(
        &mut self,
        address: Address,
        secondary: Option<u8>,
        last: u8,
    ) -> Result<Option<u8>, AccessError> {
        let function = match Function::read(self.access, address) {
            Ok(Some(function)) => function,
            other => {
                let why = other.err().unwrap_or(Unread::Vanished);
                (self.report)(AssignFault::Scan(ScanFault::Unread { address, why }));
                return Ok(None);
            }
        };
        let Some(below) = secondary.filter(|bus| self.access.reaches(self.first(*bus), 0)) else {
            (self.report)(AssignFault::NoBus(address));
            bridge::open(self.access, address, &[Window::CLOSED; SPACES])?;
            return Ok(None);
        };
        bridge::number(self.access, address, address.bus(), below, last)?;
        self.above[usize::from(below)] = (address.bus(), address.devfn());
        bridge::pass_all_io(self.access, address)?;
        let can = bridge::windows(self.access, address, self.limits())?;
        for (space, can) in can.into_iter().enumerate() {
            if can && self.passes[space].contains(address.bus()) {
                self.passes[space].insert(below);
            }
        }
        let on = self.links.of(address.bus());
        let (link, wrong) = on.below(self.access, &function, below, Ari::Enable);
        self.links.note(below, link);
        for fault in wrong.into_iter().flatten() {
            (self.report)(AssignFault::Scan(fault));
        }
        Ok(Some(below))
    }

    fn limits(&self) -> [u64; SPACES] {
        [IO, MEMORY, PREFETCHABLE].map(|space| self.spaces[space].end)
    }

    /// Sizes the BARs of a silent function and notes them, all or none.
    fn keep_bars(&mut self, function: &Function) -> Result<Kept, AccessError> {
        let (address, layout) = (function.address, Layout::of(function));
        let (Header::Endpoint(_) | Header::Bridge(_)) = function.header else {
            clear(self.access, address, layout)?;
            return Ok(Kept::Yes);
        };
        fill(self.access, address, layout)?;
        let bars = bars_left(self.access, address, layout)?;
        let slots = || bars.iter().filter_map(|bar| Slot::of(address, bar));
        let end = self.used + slots().count();
        self.done.slots += slots().count() as u32;
        let Some(room) = self.slots.get_mut(self.used..end) else {
            (self.report)(AssignFault::NoSlot(address));
            self.done.left += bars.iter().count() as u32;
            clear(self.access, address, layout)?;
            return Ok(Kept::No);
        };
        for (to, slot) in room.iter_mut().zip(slots()) {
            *to = slot;
        }
        self.used = end;
        if bars.iter().any(|bar| bar.is_err()) {
            clear(self.access, address, layout)?;
        }
        for fault in bars.iter().filter_map(Result::err) {
            (self.report)(AssignFault::Bar { address, fault });
            self.done.left += 1;
        }
        Ok(Kept::Yes)
    }

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

    /// Decides which space each BAR goes to, and reckons how large windows are.
    ///
    /// Prefetchable BARs go to their own range if all find room there. Else they are added one
    /// by one, the largest first, each where no other loses its room: in their own range, or
    /// in memory, or nowhere.
    fn choose(&mut self) {
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
    fn pack(&mut self, bus: u8, space: usize, range: Range<u64>) -> Packed {
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

    /// Writes what `bus` has: first its endpoints and the bridges that lead nowhere, then the
    /// bridges that lead to other buses.
    fn place(&mut self, bus: u8) {
        for space in 0..SPACES {
            let range = match bus == self.root {
                true => self.spaces[space].clone(),
                false => self.given.range(bus, space),
            };
            self.pack(bus, space, range);
        }
        let Range { mut start, end } = self.slots_on(bus);
        while start < end {
            let devfn = self.slots[start].devfn;
            let its = self.slots_of(bus, devfn);
            start = its.end;
            if !self.above.contains(&(bus, devfn)) {
                let address = Address::from_devfn(self.segment, bus, devfn);
                let placed = self.place_function(address, its, None);
                self.note(address, placed);
            }
        }
        let mut next = self.first_below(bus);
        while let Some(below) = next {
            next = self.next_beside(below);
            let (_, devfn) = self.above[usize::from(below)];
            let address = Address::from_devfn(self.segment, bus, devfn);
            let windows = [IO, MEMORY, PREFETCHABLE].map(|space| {
                let Range { start, end } = self.given.range(below, space);
                let size = end - start;
                Window { start, size }
            });
            let its = self.slots_of(bus, devfn);
            let placed = self.place_function(address, its, Some(windows));
            self.note(address, placed);
        }
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

    /// Writes a function's BARs, and a bridge's windows; then has it answer for all that has a
    /// place, unless something else in the same space has none.
    fn place_function(
        &mut self,
        address: Address,
        its: Range<usize>,
        windows: Option<[Window; SPACES]>,
    ) -> Result<(), AccessError> {
        let (mut has, mut lacks) = (0, 0);
        for index in its {
            let slot = self.slots[index];
            match self.place_bar(address, &slot)? {
                Some(_) => has |= slot.command(),
                None => lacks |= slot.command(),
            }
        }
        if let Some(windows) = windows {
            bridge::open(self.access, address, &windows)?;
            has |= match windows[IO].size {
                0 => COMMAND_MEMORY | COMMAND_BUS_MASTER,
                _ => COMMAND_IO | COMMAND_MEMORY | COMMAND_BUS_MASTER,
            };
        }
        if windows.is_some() || self.decoding == Decoding::On {
            bridge::command(self.access, address, 0, has & !lacks)?;
        }
        Ok(())
    }

    fn place_bar(&mut self, address: Address, slot: &Slot) -> Result<Option<u64>, AccessError> {
        if slot.bits == 0 {
            return Ok(None); // which was reported
        }
        let (register, place) = (u16::from(slot.register), slot.place());
        let at = place.unwrap_or(0);
        self.access.write32(address, register, at as u32)?;
        // Else the upper half, if there is one, is wired to 0.
        if slot.bits > 32 {
            self.access
                .write32(address, register + 4, (at >> 32) as u32)?;
        }
        if place.is_some() {
            self.done.placed += 1;
        } else {
            let bar = slot.bar();
            (self.report)(AssignFault::NoRoom { address, bar });
            self.done.left += 1;
        }
        Ok(place)
    }

    fn note(&mut self, address: Address, result: Result<(), AccessError>) {
        if let Err(error) = result {
            (self.report)(AssignFault::Access { address, error });
        }
    }
}

/// What got nothing, or was wrong on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssignFault {
    /// No bus number is left for what is below this bridge, or it cannot be reached.
    /// Nothing below it can be used.
    NoBus(Address),
    /// No slot was left for the BARs of this function: lend [`assign`] more. It has no place,
    /// and nothing below it can be used.
    NoSlot(Address),
    /// This is a bridge to CardBus, which has windows of another kind. Nothing below it can
    /// be used.
    CardBus(Address),
    /// There is no room for this BAR where it could go.
    NoRoom {
        /// Whose it is.
        address: Address,
        /// Its register and size.
        bar: Bar,
    },
    /// This BAR cannot be given a place.
    Bar {
        /// Whose it is.
        address: Address,
        /// Why not.
        fault: BarFault,
    },
    /// An access to this function could not be made; it may be set up by half.
    Access {
        /// Which.
        address: Address,
        /// Why not.
        error: AccessError,
    },
    /// What a scan would tell.
    Scan(ScanFault),
}

impl fmt::Display for AssignFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBus(address) => write!(
                f,
                "{address}: bridge not entered: no bus number is left that can be reached"
            ),
            Self::NoSlot(address) => {
                write!(
                    f,
                    "{address}: no slot is left for its BARs: lend more of them"
                )
            }
            Self::CardBus(address) => {
                write!(f, "{address}: bridge to CardBus not entered: not supported")
            }
            Self::NoRoom { address, bar } => {
                let range = match bar.kind {
                    BarKind::Io => "I/O",
                    BarKind::Prefetchable if bar.bits > 32 => "prefetchable memory or memory",
                    _ => "memory",
                };
                write!(
                    f,
                    "{address}: there is no room for the {:#x} bytes of BAR {:#x}: enlarge the \
                     range of {range}, unless a bridge above cannot pass it on",
                    bar.size.unwrap_or(0),
                    bar.register
                )
            }
            Self::Bar { address, fault } => write!(f, "{address}: {fault}"),
            Self::Access { address, error } => write!(f, "{address}: {error}"),
            Self::Scan(fault) => fault.fmt(f),
        }
    }
}

impl core::error::Error for AssignFault {}

/// Why nothing was given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadRanges {
    /// There is not even a root bus.
    NoBus,
    /// The ranges of I/O and of memory must end below 4 GiB.
    Above4Gib,
    /// Memory and prefetchable memory overlap.
    Overlapping,
}

impl fmt::Display for BadRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoBus => "there is no bus to assign from",
            Self::Above4Gib => "the ranges of I/O and 32-bit memory must end below 4 GiB",
            Self::Overlapping => "the ranges of memory and prefetchable memory overlap",
        })
    }
}

impl core::error::Error for BadRanges {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_the_stack_is_as_much_as_is_said() {
        type AsUsed = Work<'static, dyn ConfigAccess, fn(AssignFault)>;
        let most = size_of::<AsUsed>() + size_of::<Unnumbered>();
        assert!(most <= 9 << 10, "{most}");
        assert_eq!(size_of::<Slot>(), 16);
    }
}
