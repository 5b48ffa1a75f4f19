//! Assignment of bus numbers, bridge windows and BARs, for machines whose firmware has not done it.
//!
//! Each function is read once, while buses are numbered depth first. Its BARs are sized and stored
//! in the caller's slots. All addresses are computed there, without accesses; the largest alignment
//! comes first, so that no gaps are left. Then the registers are written, function by function.

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
/// In both cases bridges forward accesses, including those of bus masters below them, because no
/// driver enables the bridges above its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoding {
    /// Decoding stays off; each driver enables its own device.
    Off,
    /// A function decodes a space (I/O, memory) if all its BARs of that space have an address.
    On,
}

/// Counters of an assignment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assigned {
    /// Last bus number in use.
    pub last_bus: u8,
    /// Number of BARs with an address.
    pub placed: u32,
    /// Number of BARs without one, each of which was reported, by itself or with its function.
    pub left: u32,
    /// Number of slots for the BARs of all functions found. It exceeds the given number if a
    /// function was left out for lack of slots. Functions below a bridge that was left out are not
    /// counted.
    pub slots: u32,
}

/// Assigns bus numbers, bridge windows and BARs on all buses of `segment` from the first of
/// `ranges.buses`. It ignores previous values, so a second run changes nothing. Enables ARI
/// forwarding for devices that use it.
///
/// Passes BARs without an address to `report`. Such a BAR is set to 0, and its function does not
/// decode that space. Host bridges and their BARs are not changed. ROMs get addresses but are not
/// enabled. Nothing gets the address 0.
///
/// No driver may use a device meanwhile, because its decoding is off and its addresses change.
///
/// `slots` is scratch memory, one [`BarSlot`] for each BAR and ROM; its contents are ignored. A
/// function without slots for its BARs is reported ([`AssignFault::NoSlot`]) and does not decode,
/// and nothing below it gets an address. [`Assigned::slots`] returns the number needed.
///
/// The number of accesses is at most linear in functions and BARs, even if address space is short.
/// It is 32 for each bus, 16 for each function, and 4 for each BAR register (7 of an endpoint, 3 of
/// a bridge). Each bridge adds 48. Each entry of the capability lists of bridges, and of functions
/// below a port that can forward ARI, adds up to two.
///
/// The stack use is about 9 KiB. If prefetchable memory is short, each of its BARs takes up to four
/// rounds of arithmetic over its own bus and those above.
///
/// # Errors
///
/// [`BadRanges`], before the first access.
pub fn assign<A: ConfigAccess>(
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

/// Part of the assignment that makes accesses; [`Plan`] does the arithmetic.
struct Work<'a, A, F> {
    access: &'a A,
    segment: u32,
    report: F,
    decoding: Decoding,
    links: Links,
    done: Assigned,
}

impl<A: ConfigAccess, F: FnMut(AssignFault)> Work<'_, A, F> {
    /// Writes the addresses, function by function.
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

    /// Writes a function's BARs, and a bridge's windows. Then enables decoding of each space in
    /// which all its BARs have addresses.
    fn write_function(
        &mut self,
        address: Address,
        slots: &[BarSlot],
        windows: Option<[Range<u64>; SPACES]>,
    ) -> Result<(), AccessError> {
        let at = self.access.at(address);
        let (mut has, mut lacks) = (0, 0);
        for slot in slots {
            let place = slot.place;
            *(if place == 0 { &mut lacks } else { &mut has }) |= slot.command();
            if slot.bits == 0 {
                continue; // its fault was reported
            }
            let register = slot.register.into();
            at.write32(register, place as u32)?;
            // Otherwise the upper half, if any, is hard-wired to 0.
            if slot.bits > 32 {
                let upper = (place >> 32) as u32;
                at.write32(register + 4, upper)?;
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
            bridge::open(at, windows)?;
            has |= COMMAND_MEMORY | COMMAND_BUS_MASTER;
            if !windows[IO].is_empty() {
                has |= COMMAND_IO;
            }
        }
        if windows.is_some() || self.decoding == Decoding::On {
            bridge::command(at, 0, has & !lacks)?;
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
    fn the_stack_use_is_as_documented() {
        type AsUsed = Work<'static, &'static dyn ConfigAccess, fn(AssignFault)>;
        let most = size_of::<AsUsed>() + size_of::<Plan>() + size_of::<Unnumbered>();
        assert!(most <= 9 << 10, "{most}");
        assert_eq!(size_of::<BarSlot>(), 16);
    }
}
