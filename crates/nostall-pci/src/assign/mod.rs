//! Bus numbers, bridge windows and BARs, where no firmware has given them out.
//!
//! Each function is read once, while buses are numbered depth first: its BARs are sized and
//! noted in the caller's slots. All places are computed there, without an access: the largest
//! alignment comes first, so that no gaps are left. Then they are written, function by function.

mod bar_slot;
mod fault;
mod number;
mod plan;

use core::ops::Range;

pub use self::bar_slot::BarSlot;
pub use self::fault::{AssignFault, BadRanges};
pub use self::plan::Ranges;
use self::plan::{IO, Plan, PlannedBus, SPACES};
use crate::byte_set::ByteSet;
use crate::one_bus::Links;
use crate::registers::{COMMAND_BUS_MASTER, COMMAND_IO, COMMAND_MEMORY};
use crate::{AccessError, Address, ConfigAccess, bridge};

/// Initial state of the functions' address decoding.
///
/// Bridges pass accesses on in both cases, and what those below them do as bus masters:
/// no driver turns on a bridge above its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoding {
    /// Decoding stays off; each driver enables its own device.
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
/// `slots` is scratch memory, one [`BarSlot`] for each BAR and ROM; its contents do not matter. A
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
    slots: &mut [BarSlot],
    report: impl FnMut(AssignFault),
) -> Result<Assigned, BadRanges> {
    let spaces = ranges.spaces()?;
    let mut plan = Plan {
        passes: [ByteSet::default(); SPACES],
        spaces,
        root: *ranges.buses.start(),
        buses: [PlannedBus::default(); 256],
        slots,
        used: 0,
    };
    for (space, passes) in plan.spaces.iter().zip(&mut plan.passes) {
        if !space.is_empty() {
            passes.insert(plan.root);
        }
    }
    let mut work = Work {
        access,
        segment,
        report,
        decoding,
        links: Links::default(),
        done: Assigned::default(),
    };
    work.number(&mut plan, *ranges.buses.end());
    plan.choose();
    plan.place();
    work.write(&plan);
    work.done.last_bus = *plan.all_buses().end();
    Ok(work.done)
}

/// The part that makes accesses; the arithmetic is in [`Plan`].
struct Work<'a, A: ?Sized, F> {
    access: &'a A,
    segment: u32,
    report: F,
    decoding: Decoding,
    links: Links,
    done: Assigned,
}

impl<A: ConfigAccess + ?Sized, F: FnMut(AssignFault)> Work<'_, A, F> {
    /// Writes places, function by function.
    fn write(&mut self, plan: &Plan) {
        for bus in plan.all_buses() {
            for devfn in 0..=u8::MAX {
                let (slots, windows) = plan.function(bus, devfn);
                if !slots.is_empty() || windows.is_some() {
                    let address = self.address(bus, devfn);
                    let written = self.write_function(address, slots, windows);
                    self.note(address, written);
                }
            }
        }
    }

    /// Writes a function's BARs, and a bridge's windows; then has it answer for all that has a
    /// place, unless something else in the same space has none.
    fn write_function(
        &mut self,
        address: Address,
        slots: &[BarSlot],
        windows: Option<[Range<u64>; SPACES]>,
    ) -> Result<(), AccessError> {
        let (mut has, mut lacks) = (0, 0);
        for slot in slots {
            let place = slot.place;
            *(if place == 0 { &mut lacks } else { &mut has }) |= slot.command();
            if slot.bits == 0 {
                continue; // its fault was reported
            }
            let register = slot.register.into();
            self.access.write32(address, register, place as u32)?;
            // Else the upper half, if there is one, is wired to 0.
            if slot.bits > 32 {
                let upper = (place >> 32) as u32;
                self.access.write32(address, register + 4, upper)?;
            }
            if place == 0 {
                let bar = slot.bar();
                (self.report)(AssignFault::NoRoom { address, bar });
                self.done.left += 1;
            } else {
                self.done.placed += 1;
            }
        }
        if let Some(windows) = &windows {
            bridge::open(self.access, address, windows)?;
            has |= COMMAND_MEMORY | COMMAND_BUS_MASTER;
            if !windows[IO].is_empty() {
                has |= COMMAND_IO;
            }
        }
        if windows.is_some() || self.decoding == Decoding::On {
            bridge::command(self.access, address, 0, has & !lacks)?;
        }
        Ok(())
    }

    fn address(&self, bus: u8, devfn: u8) -> Address {
        Address::from_devfn(self.segment, bus, devfn)
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
        let most = size_of::<AsUsed>() + size_of::<Plan>() + size_of::<Unnumbered>();
        assert!(most <= 9 << 10, "{most}");
        assert_eq!(size_of::<BarSlot>(), 16);
    }
}
