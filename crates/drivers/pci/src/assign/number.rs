//! Numbering of buses, and the only read of each function.

use super::plan::Plan;
use super::{AssignFault, BarSlot, Work};
use crate::ari::Ari;
use crate::bar::{Layout, bars_left, clear, fill};
use crate::bridge;
use crate::one_bus::OneBus;
use crate::registers::{COMMAND_IO, COMMAND_MEMORY};
use crate::{AccessError, Address, Buses, ConfigAccess, Function, Header, ScanFault, Unread};

/// Bridges without bus numbers, by bus and by device and function; the next one is last.
pub(super) struct Unnumbered {
    list: [(u8, u8); 256],
    len: usize,
}

impl Unnumbered {
    /// Appends a bridge. Returns `false` if the list is full: there are fewer bus numbers.
    fn push(&mut self, bus: u8, devfn: u8) -> bool {
        let place = self.list.get_mut(self.len);
        self.len += usize::from(place.is_some());
        place.map(|place| *place = (bus, devfn)).is_some()
    }

    /// Removes and returns the next bridge if it is on `bus`.
    fn next_on(&mut self, bus: u8) -> Option<u8> {
        let at = self.len.checked_sub(1)?;
        let (_, devfn) = self.list.get(at).filter(|(on, _)| *on == bus)?;
        self.len = at;
        Some(*devfn)
    }
}

impl<A: ConfigAccess, F: FnMut(AssignFault)> Work<'_, A, F> {
    /// Assigns bus numbers up to `last` below the root bus, depth first.
    pub(super) fn number(&mut self, plan: &mut Plan, last: u8) {
        let mut unnumbered = Unnumbered {
            list: [(0, 0); 256],
            len: 0,
        };
        let (mut bus, mut used) = (plan.root, plan.root);
        self.meet(plan, bus, &mut unnumbered);
        loop {
            if let Some(devfn) = unnumbered.next_on(bus) {
                let bridge = self.address(bus, devfn);
                let next = used.checked_add(1).filter(|next| *next <= last);
                match self.enter(plan, bridge, next, last) {
                    Ok(Some(below)) => {
                        (bus, used) = (below, below);
                        self.meet(plan, below, &mut unnumbered);
                    }
                    Ok(None) => {}
                    Err(error) => self.note(bridge, Err(error)),
                }
                continue;
            }
            // All buses below `bus` are known: continue with the bus above.
            plan.buses[usize::from(bus)].last = used;
            let Some((above, devfn)) = plan.buses[usize::from(bus)].bridge else {
                return;
            };
            let bridge = self.address(above, devfn);
            let numbered = bridge::number(self.access.at(bridge), above, bus, used);
            self.note(bridge, numbered);
            bus = above;
        }
    }

    /// Disables the functions of a bus and sizes their BARs. Clears the numbers of its bridges
    /// before any of them gets new ones, because otherwise two bridges could claim one bus.
    fn meet(&mut self, plan: &mut Plan, bus: u8, unnumbered: &mut Unnumbered) {
        let before = unnumbered.len;
        let mut walk = OneBus::new(self.address(bus, 0), self.links.of(bus));
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
            let kept = silent.and_then(|()| self.keep_bars(plan, &function));
            self.note(address, kept.map(drop));
            match function.header {
                Header::CardBus { .. } => (self.report)(AssignFault::CardBus(address)),
                Header::Bridge(_) if kept == Ok(false) => {
                    self.note(address, bridge::close(self.access.at(address)));
                }
                Header::Bridge(_) if !unnumbered.push(bus, address.devfn()) => {
                    (self.report)(AssignFault::NoBus(address));
                }
                _ => {}
            }
        }
        if let Some(new) = unnumbered.list.get_mut(before..unnumbered.len) {
            new.reverse();
        }
    }

    fn silence(&self, function: &Function) -> Result<(), AccessError> {
        let address = function.address;
        bridge::command(self.access.at(address), COMMAND_IO | COMMAND_MEMORY, 0)?;
        match function.buses() {
            Some(buses) if buses != Buses::default() => {
                bridge::number(self.access.at(address), 0, 0, 0)
            }
            _ => Ok(()),
        }
    }

    /// Sizes the BARs of a disabled function and stores them. Returns `false` without enough slots.
    fn keep_bars(&mut self, plan: &mut Plan, function: &Function) -> Result<bool, AccessError> {
        let (address, layout) = (function.address, Layout::of(function));
        let at = self.access.at(address);
        let (Header::Endpoint(_) | Header::Bridge(_)) = function.header else {
            clear(at, layout)?;
            return Ok(true);
        };
        fill(at, layout)?;
        let bars = bars_left(at, layout)?;
        let slots = bars.into_iter().filter_map(|bar| BarSlot::of(address, bar));
        self.done.slots += slots.clone().count() as u32;
        let kept = plan.keep(slots);
        if !kept {
            (self.report)(AssignFault::NoSlot(address));
            self.done.left += bars.iter().count() as u32;
        }
        if !kept || bars.iter().any(|bar| bar.is_err()) {
            clear(at, layout)?;
        }
        for fault in bars.iter().filter_map(Result::err).filter(|_| kept) {
            (self.report)(AssignFault::Bar { address, fault });
            self.done.left += 1;
        }
        Ok(kept)
    }

    /// Gives a bridge the number `next` and closes its windows. Returns the bus below it.
    fn enter(
        &mut self,
        plan: &mut Plan,
        address: Address,
        next: Option<u8>,
        last: u8,
    ) -> Result<Option<u8>, AccessError> {
        let at = self.access.at(address);
        let function = match Function::read(at) {
            Ok(Some(function)) => function,
            other => {
                let why = other.err().unwrap_or(Unread::Vanished);
                (self.report)(AssignFault::Scan(ScanFault::Unread { address, why }));
                return Ok(None);
            }
        };
        let Some(below) = next.filter(|bus| self.access.reaches(self.address(*bus, 0), 0)) else {
            (self.report)(AssignFault::NoBus(address));
            bridge::close(at)?;
            return Ok(None);
        };
        bridge::number(at, address.bus(), below, last)?;
        bridge::pass_all_io(at)?;
        let ends = plan.spaces.each_ref().map(|space| space.end);
        let can = bridge::windows(at, ends)?;
        for (passes, can) in plan.passes.iter_mut().zip(can) {
            if can && passes.contains(address.bus()) {
                passes.insert(below);
            }
        }
        let on = self.links.of(address.bus());
        let (link, wrong) = on.below(self.access, &function, below, Ari::Enable);
        self.links.note(below, link);
        for fault in wrong.into_iter().flatten() {
            (self.report)(AssignFault::Scan(fault));
        }
        plan.buses[usize::from(below)].bridge = Some((address.bus(), address.devfn()));
        Ok(Some(below))
    }
}
