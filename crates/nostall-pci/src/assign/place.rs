//! Writing places into BARs and windows.

use core::ops::Range;

use super::{AssignFault, Decoding, IO, MEMORY, PREFETCHABLE, SPACES, Slot, Work};
use crate::bridge::{self, Window};
use crate::registers::{COMMAND_BUS_MASTER, COMMAND_IO, COMMAND_MEMORY};
use crate::{AccessError, Address, ConfigAccess};

impl<A: ConfigAccess + ?Sized, F: FnMut(AssignFault)> Work<'_, A, F> {
    /// Writes what `bus` has: first its endpoints and the bridges that lead nowhere, then the
    /// bridges that lead to other buses.
    pub(super) fn place(&mut self, bus: u8) {
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
}
