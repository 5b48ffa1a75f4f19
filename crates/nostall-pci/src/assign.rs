//! Bus numbers, bridge windows and BARs, where no firmware has given them out.
//!
//! Numbers are given depth first. Then, from the last bus to the first, it is reckoned how
//! much address space each bus needs; and from the first to the last it is given out:
//! the largest alignment first, so that nothing is lost between.

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
    /// Memory, above 4 GiB or below, for prefetchable BARs of 64 bits. Where this is empty or
    /// full, or a bridge on the way cannot pass it on, or they do not decode as many bits as
    /// it has, they go to `memory`; but those for which it is full take no room there that
    /// others need.
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
}

/// Gives out bus numbers, bridge windows and BARs on all buses of `segment` below the first
/// of `ranges.buses`, whatever was there before: so that a second run changes nothing. ARI
/// forwarding is turned on where a device has use for it.
///
/// What has no place, or cannot have one, goes to `report`: it is left at 0, and its
/// function's decoding of that space off. A host bridge is left as it is, its BARs too.
/// ROMs get addresses but are not enabled. Nothing gets the address 0.
///
/// Nobody may use a device meanwhile: its decoding is off and its place changes.
///
/// It takes some 12 KiB of stack, and no memory else.
///
/// # Errors
///
/// [`BadRanges`], before anything was touched.
pub fn assign<A: ConfigAccess + ?Sized>(
    access: &A,
    segment: u32,
    ranges: &Ranges,
    decoding: Decoding,
    report: impl FnMut(AssignFault),
) -> Result<Assigned, BadRanges> {
    let spaces = ranges.spaces()?;
    let (root, last) = (*ranges.buses.start(), *ranges.buses.end());
    let mut work = Work {
        access,
        segment,
        report,
        spaces: spaces.clone(),
        decoding,
        links: Links::default(),
        passes: [ByteSet::default(); SPACES],
        above: [NOBODY; 256],
        last_below: [root; 256],
        root,
        moved: ByteSet::default(),
        given_up: ByteSet::default(),
        given: Windows {
            sizes: [[0; SPACES]; 256],
            aligns: [[0; SPACES]; 256],
            starts: [[0; SPACES]; 256],
        },
        done: Assigned::default(),
    };
    for (space, range) in spaces.iter().enumerate() {
        if !range.is_empty() {
            work.passes[space].insert(root);
        }
    }
    let used = work.number(root, last);
    work.done.last_bus = used;
    for bus in (root..=used).rev() {
        work.settle(bus);
    }
    for bus in root..=used {
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
}

/// Something that needs a place.
#[derive(Clone, Copy)]
struct Item {
    space: usize,
    what: What,
    size: u64,
    /// The power of two that it is aligned to.
    align: u8,
    /// Where it must end at the latest.
    before: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// A BAR that has one space to go to.
    Bar,
    /// One of prefetchable memory, which can go to memory, too.
    Either,
    /// One that has gone there, since there is room to spare.
    Moved,
    /// The window to this bus.
    Window(u8),
}

/// Where things go on a bus, and what had no room there.
struct Plan {
    places: [Places; SPACES],
    /// A prefetchable window that had none leads to this bus.
    window: Option<u8>,
    /// BARs and windows that had none in memory, without BARs that are too large in any case.
    in_memory: u32,
    /// BARs that had none in prefetchable memory and found it in memory.
    moved: u32,
}

impl Plan {
    fn add(&mut self, item: &Item) {
        let done = self.places[item.space].plan(item);
        match item.what {
            _ if done.is_some() => {}
            What::Either => {
                let moved = self.places[MEMORY].plan(item);
                self.moved += u32::from(moved.is_some());
            }
            What::Window(below) if item.space == PREFETCHABLE => self.window = Some(below),
            What::Window(_) if item.space == MEMORY => self.in_memory += 1,
            What::Bar if item.space == MEMORY => {
                let might = item.size <= self.places[MEMORY].end - self.places[MEMORY].start;
                self.in_memory += u32::from(might);
            }
            _ => {}
        }
    }

    /// Puts an item where it was planned; `None` if it was not.
    fn put(&mut self, item: &Item) -> Option<u64> {
        let put = self.places[item.space].put(item);
        match item.what {
            What::Either => put.or_else(|| self.places[MEMORY].put(item)),
            _ => put,
        }
    }
}

/// Where the items of each alignment go, in one space of one bus.
#[derive(Clone, Copy)]
struct Places {
    next: [u64; 64],
    /// Where they end. What a device answers the second time does not move this: it cannot
    /// get a place that was meant for another.
    ends: [u64; 64],
    /// Alignments that there are.
    classes: u64,
    /// Where the last one ends.
    used: u64,
    start: u64,
    end: u64,
}

impl Places {
    const fn new(range: Range<u64>) -> Self {
        Self {
            next: [0; 64],
            ends: [0; 64],
            classes: 0,
            used: range.start,
            start: range.start,
            end: range.end,
        }
    }

    /// Makes room for an item after all others; `None` if there is none.
    fn plan(&mut self, item: &Item) -> Option<()> {
        item.put(&mut self.used, self.end)?;
        self.classes |= 1 << item.align;
        Some(())
    }

    /// Puts an item after the last of its alignment; `None` if no room was planned.
    fn put(&mut self, item: &Item) -> Option<u64> {
        let class = usize::from(item.align);
        let end = *self.ends.get(class)?;
        item.put(self.next.get_mut(class)?, end)
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

/// The functions of a bus that need places.
#[derive(Default)]
struct Devices {
    endpoints: ByteSet,
    bridges: ByteSet,
}

impl Devices {
    fn iter(&self, first: Address) -> impl Iterator<Item = (Address, Kind)> + use<> {
        let endpoints = self.endpoints.iter().map(|devfn| (devfn, Kind::Endpoint));
        let bridges = self.bridges.iter().map(|devfn| (devfn, Kind::Bridge));
        endpoints.chain(bridges).map(move |(devfn, kind)| {
            let address = Address::from_devfn(first.segment(), first.bus(), devfn);
            (address, kind)
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Endpoint,
    Bridge,
}

impl Kind {
    const fn layout(self) -> Layout {
        match self {
            Self::Endpoint => Layout::ENDPOINT,
            Self::Bridge => Layout::BRIDGE,
        }
    }
}

impl Item {
    /// Puts it at `next` or as soon after as it is aligned, and moves that on; `None` if it
    /// would not end in time.
    fn put(&self, next: &mut u64, end: u64) -> Option<u64> {
        let start = next.checked_next_multiple_of(1 << self.align)?;
        let after = start.checked_add(self.size)?;
        if after > end.min(self.before) {
            return None;
        }
        *next = after;
        Some(start)
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
    /// For each bus the last one below it.
    last_below: [u8; 256],
    root: u8,
    /// Buses of which prefetchable BARs have found no room in the range for them, and go to
    /// memory as far as that has room to spare.
    moved: ByteSet,
    /// Those of them for which it has none.
    given_up: ByteSet,
    given: Windows,
    done: Assigned,
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
                self.last_below[usize::from(bus)] = used;
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

    /// Silences the functions of a bus, and takes its bridges' numbers away before any of
    /// them gets new ones: else two could claim one bus.
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
            self.note(address, self.silence(&function));
            match function.header {
                Header::CardBus { .. } => (self.report)(AssignFault::CardBus(address)),
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

    /// Reckons what `bus` needs, all below it being settled.
    ///
    /// Prefetchable BARs for which there is no room are moved to memory, and what takes
    /// others' room there is given up: bus by bus, each at most once.
    fn settle(&mut self, bus: u8) {
        let mut devices = self.survey(bus, |access, function| {
            let (address, layout) = (function.address, Layout::of(function));
            match function.header {
                Header::Endpoint(_) | Header::Bridge(_) => fill(access, address, layout),
                _ => clear(access, address, layout),
            }
        });
        let mut at = bus;
        loop {
            let plan = self.measure(at, &devices);
            at = match self.relieve(at, &plan) {
                // Again from there up.
                Some(changed) => changed,
                None if at == bus => return,
                None => self.above[usize::from(at)].0,
            };
            devices = self.survey(at, |_, _| Ok(()));
        }
    }

    /// Makes room on `bus` if something has none: says on which bus there is less now.
    fn relieve(&mut self, bus: u8, plan: &Plan) -> Option<u8> {
        if plan.moved != 0 {
            self.moved.insert(bus);
        }
        if let Some(which) = plan.window.and_then(|below| self.smallest(below)) {
            self.passes[PREFETCHABLE].remove(which);
            self.moved.insert(which);
            return Some(which);
        }
        if plan.in_memory == 0 {
            return None;
        }
        let which = self.last_moved(bus)?;
        self.given_up.insert(which);
        Some(which)
    }

    /// Of the buses from `bus` down the one that has least prefetchable memory on it and
    /// below it: so that the largest stay where there is most room.
    fn smallest(&self, bus: u8) -> Option<u8> {
        (bus..=self.last_below[usize::from(bus)])
            .filter(|bus| self.passes[PREFETCHABLE].contains(*bus))
            .filter(|bus| self.given.size(*bus, PREFETCHABLE) != 0)
            .rev()
            .min_by_key(|bus| self.given.size(*bus, PREFETCHABLE))
    }

    /// The last bus from `bus` down that takes memory that others may need.
    fn last_moved(&self, bus: u8) -> Option<u8> {
        (bus..=self.last_below[usize::from(bus)])
            .rev()
            .find(|bus| self.moved.contains(*bus) && !self.given_up.contains(*bus))
    }

    fn measure(&mut self, bus: u8, devices: &Devices) -> Plan {
        let ranges = self.spaces.clone().map(|range| match bus == self.root {
            true => range,
            false => 0..range.end - range.start,
        });
        let plan = self.plan(bus, devices, ranges);
        for (space, granule) in GRANULES.into_iter().enumerate() {
            let places = &plan.places[space];
            let granules = places.used.div_ceil(1 << granule);
            let largest = places.classes.checked_ilog2().unwrap_or(0) as u8;
            let bus = usize::from(bus);
            self.given.sizes[bus][space] = granules.try_into().unwrap_or(u32::MAX);
            self.given.aligns[bus][space] = largest.max(granule);
        }
        plan
    }

    /// What there is on `bus` to give places to; `meet` is called for all that is there.
    fn survey(
        &mut self,
        bus: u8,
        meet: impl Fn(&A, &Function) -> Result<(), AccessError>,
    ) -> Devices {
        let mut devices = Devices::default();
        let mut walk = self.walk(bus);
        while let Some((found, _)) = walk.next(self.access) {
            let Ok(function) = found else { continue };
            if function.is_host_bridge() {
                continue;
            }
            let devfn = function.address.devfn();
            match function.header {
                Header::Endpoint(_) => devices.endpoints.insert(devfn),
                Header::Bridge(_) => devices.bridges.insert(devfn),
                _ => {}
            }
            self.note(function.address, meet(self.access, &function));
        }
        devices
    }

    /// Where the items of each alignment go, if those of `bus` lie in these ranges.
    fn plan(&self, bus: u8, devices: &Devices, ranges: [Range<u64>; SPACES]) -> Plan {
        let mut plan = Plan {
            places: ranges.map(Places::new),
            window: None,
            in_memory: 0,
            moved: 0,
        };
        let mut classes: u64 = 0;
        self.each_item(bus, devices, |item| classes |= 1 << item.align);
        for align in (0..64).rev().filter(|align| classes & 1 << align != 0) {
            for one in &mut plan.places {
                one.next[align] = one.used;
            }
            self.each_item(bus, devices, |item| {
                if usize::from(item.align) == align {
                    plan.add(&item);
                }
            });
            for one in &mut plan.places {
                one.ends[align] = one.used;
            }
        }
        plan
    }

    fn each_item(&self, bus: u8, devices: &Devices, mut take: impl FnMut(Item)) {
        for (address, kind) in devices.iter(self.first(bus)) {
            let bars = bars_left(self.access, address, kind.layout()).unwrap_or_default();
            let bars = bars.good().filter_map(|bar| self.bar_item(bus, bar));
            let windows = self.windows(address);
            bars.chain(windows.into_iter().flatten())
                .for_each(&mut take);
        }
    }

    /// A BAR as something that needs a place.
    fn bar_item(&self, bus: u8, bar: Bar) -> Option<Item> {
        let (space, what) = match bar.kind {
            BarKind::Io => (IO, What::Bar),
            BarKind::Prefetchable if self.reaches_prefetchable(&bar) => self.prefetchable(bus)?,
            _ => (MEMORY, What::Bar),
        };
        if !self.passes[space].contains(bus) {
            return None;
        }
        let size = bar.size?;
        Some(Item {
            space,
            what,
            size,
            align: size.checked_ilog2()? as u8,
            before: 1u64.checked_shl(bar.bits.into()).unwrap_or(u64::MAX),
        })
    }

    /// Whether a BAR can have any place in prefetchable memory.
    fn reaches_prefetchable(&self, bar: &Bar) -> bool {
        bar.bits > 32 && (bar.bits == 64 || self.spaces[PREFETCHABLE].end <= 1 << bar.bits)
    }

    /// Where prefetchable BARs on `bus` go; `None`: nowhere.
    fn prefetchable(&self, bus: u8) -> Option<(usize, What)> {
        let passes = self.passes[PREFETCHABLE].contains(bus);
        let elsewhere = self.passes[MEMORY].contains(bus) && !self.given_up.contains(bus);
        match (passes, elsewhere) {
            (true, true) => Some((PREFETCHABLE, What::Either)),
            (true, false) => Some((PREFETCHABLE, What::Bar)),
            (false, false) => None,
            (false, true) if self.moved.contains(bus) => Some((MEMORY, What::Moved)),
            (false, true) => Some((MEMORY, What::Bar)),
        }
    }

    /// The windows of a bridge that was numbered, as far as they are needed.
    fn windows(&self, bridge: Address) -> [Option<Item>; SPACES] {
        let Some(below) = self.below(bridge) else {
            return [None; SPACES];
        };
        [IO, MEMORY, PREFETCHABLE].map(|space| {
            let size = self.given.size(below, space);
            let item = Item {
                space,
                what: What::Window(below),
                size,
                align: self.given.aligns[usize::from(below)][space],
                before: u64::MAX,
            };
            (size != 0).then_some(item)
        })
    }

    /// The bus below a bridge, if there is one.
    fn below(&self, bridge: Address) -> Option<u8> {
        let ours = (bridge.bus(), bridge.devfn());
        let at = self.above.iter().position(|above| *above == ours)?;
        u8::try_from(at).ok()
    }

    /// Gives out what `bus` has.
    fn place(&mut self, bus: u8) {
        let devices = self.survey(bus, |_, _| Ok(()));
        let ranges = [IO, MEMORY, PREFETCHABLE].map(|space| {
            let start = self.given.start(bus, space);
            match start {
                _ if bus == self.root => self.spaces[space].clone(),
                0 => 0..0,
                _ => start..start + self.given.size(bus, space),
            }
        });
        let mut plan = self.plan(bus, &devices, ranges);
        for (address, kind) in devices.iter(self.first(bus)) {
            let placed = self.place_function(address, kind, &mut plan);
            self.note(address, placed);
        }
    }

    fn place_function(
        &mut self,
        address: Address,
        kind: Kind,
        plan: &mut Plan,
    ) -> Result<(), AccessError> {
        let (mut has, lacks) = self.place_bars(address, kind.layout(), plan)?;
        if kind == Kind::Bridge {
            let windows = self.place_windows(address, plan);
            bridge::open(self.access, address, &windows)?;
            has |= match windows[IO].size {
                0 => COMMAND_MEMORY | COMMAND_BUS_MASTER,
                _ => COMMAND_IO | COMMAND_MEMORY | COMMAND_BUS_MASTER,
            };
        }
        if kind == Kind::Bridge || self.decoding == Decoding::On {
            bridge::command(self.access, address, 0, has & !lacks)?;
        }
        Ok(())
    }

    fn place_windows(&mut self, bridge: Address, plan: &mut Plan) -> [Window; SPACES] {
        let mut windows = [Window::CLOSED; SPACES];
        let Some(below) = self.below(bridge) else {
            return windows;
        };
        for item in self.windows(bridge).into_iter().flatten() {
            if let Some(start) = plan.put(&item) {
                let granules = start >> GRANULES[item.space];
                self.given.starts[usize::from(below)][item.space] = granules as u32;
                windows[item.space] = Window {
                    start,
                    size: item.size,
                };
            }
        }
        windows
    }

    /// Places the BARs of a function; returns, as bits of Command, the spaces in which it
    /// has something to answer for and those in which it must not answer.
    fn place_bars(
        &mut self,
        address: Address,
        layout: Layout,
        plan: &mut Plan,
    ) -> Result<(u16, u16), AccessError> {
        let bars = bars_left(self.access, address, layout)?;
        if bars.iter().any(|bar| bar.is_err()) {
            clear(self.access, address, layout)?;
        }
        let (mut has, mut lacks) = (0, 0);
        for bar in bars {
            let bar = match bar {
                Ok(bar) => bar,
                Err(fault) => {
                    (self.report)(AssignFault::Bar { address, fault });
                    self.done.left += 1;
                    lacks |= fault.command();
                    continue;
                }
            };
            let item = self.bar_item(address.bus(), bar);
            let start = item.and_then(|item| plan.put(&item));
            let at = start.unwrap_or(0);
            self.access.write32(address, bar.register, at as u32)?;
            // Else the upper half, if there is one, is wired to 0.
            if bar.bits > 32 {
                let high = (at >> 32) as u32;
                self.access.write32(address, bar.register + 4, high)?;
            }
            if start.is_some() {
                self.done.placed += 1;
                has |= bar.kind.command();
            } else {
                (self.report)(AssignFault::NoRoom { address, bar });
                self.done.left += 1;
                lacks |= bar.kind.command();
            }
        }
        Ok((has, lacks))
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
        let numbering = size_of::<Unnumbered>();
        let placing = size_of::<Plan>();
        let most = size_of::<AsUsed>() + numbering.max(placing);
        assert!(most <= 12 << 10, "{most}");
    }
}
