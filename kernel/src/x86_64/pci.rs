//! Ways to PCI configuration space on a PC.

use core::ops::Range;
use core::ptr::{self, NonNull};

use nostall_io::{Accumulator, Ports};
use nostall_pci::{PORT, PORTS};

use super::acpi;
use super::boot::Firmware;
use super::{cpuid, paging};

/// The ports, if there are any: every PC has them, not every virtual machine.
pub fn ports() -> Ports {
    // SAFETY: ring 0; configuration space does no DMA, and no driver here lets a device do
    // any.
    unsafe { Ports::new(PORT, PORTS) }
}

/// The firmware's table of ECAM windows.
pub fn mcfg() -> Option<&'static [u8]> {
    acpi::mcfg(Firmware::get().rsdp)
}

/// What the firmware's memory map reserves.
pub fn reserved() -> impl Iterator<Item = Range<u64>> + Clone {
    Firmware::get().reserved()
}

/// How many bits physical addresses have (Intel SDM volume 2, CPUID leaf 0x8000_0008).
pub fn address_bits() -> u8 {
    const LEAVES: u32 = 0x8000_0000;
    const ADDRESS_SIZES: u32 = 0x8000_0008;
    if cpuid(LEAVES).eax < ADDRESS_SIZES {
        return 36; // what every CPU with long mode has
    }
    cpuid(ADDRESS_SIZES).eax as u8
}

/// Registers at `range`, which a table of the firmware names; `None` if they are beyond
/// what is mapped.
///
/// By the accumulator alone, as old AMD processors need for ECAM.
pub fn window(range: &Range<u64>) -> Option<Accumulator> {
    let (start, end) = (
        usize::try_from(range.start).ok()?,
        usize::try_from(range.end).ok()?,
    );
    let len = end.checked_sub(start)?;
    let base = NonNull::new(ptr::with_exposed_provenance_mut(start))?;
    if !paging::is_device_memory(start, len) {
        return None;
    }
    // SAFETY: mapped uncached, so that nothing of ours is there; see `ports` for DMA.
    Some(unsafe { Accumulator::new(base, len) })
}
