//! Numbering buses, and a first and only look at each function.

use super::{AssignFault, IO, MEMORY, NO_BRIDGE, PREFETCHABLE, SPACES, Slot, Work};
use crate::ari::Ari;
use crate::bar::{Layout, bars_left, clear, fill};
use crate::bridge::{self, Window};
use crate::one_bus::OneBus;
use crate::registers::{COMMAND_IO, COMMAND_MEMORY};
use crate::{AccessError, Address, Buses, ConfigAccess, Function, Header, ScanFault, Unread};

/// Bridges that were met and have no numbers yet, by bus and device and function; the next
/// one last.
pub(super) struct Unnumbered {
    list: [(u8, u8); 256],
    len: usize,
}

impl Default for Unnumbered {
    fn default() -> Self {
        Self {
            list: [NO_BRIDGE; 256],
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
    pub(super) fn number(&mut self, root: u8, last: u8) -> u8 {
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
}
