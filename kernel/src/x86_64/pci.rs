//! Access methods for PCI configuration space on a PC.

use core::ops::Range;
use core::ptr::{self, NonNull};

use nostall_io::Accumulator;
use nostall_pci::mcfg::{Mcfg, Segment};
use nostall_pci::{ConfigPorts, Environment, PORT, PORTS, Ranges};
use nostall_work::{ReportText, text};
use spin::mutex::SpinMutex;

use super::boot::Firmware;
use super::{Cpu, acpi, cpuid, paging};

/// Access to I/O ports.
pub type PortWindow = nostall_io::Ports;

/// Returns the ports, if they exist: every PC has them, but not every virtual machine.
pub fn ports() -> Option<PortWindow> {
    // SAFETY: ring 0; configuration space does no DMA, and no driver here starts any.
    let window = unsafe { PortWindow::new(PORT, PORTS) };
    let ports: ConfigPorts<SpinMutex<()>, _, _> = ConfigPorts::new(window, Cpu);
    ports.exist().then(|| ports.into_window())
}

/// Access to memory-mapped configuration space, only through the accumulator. Old AMD processors
/// require this for ECAM.
pub type EcamWindow = Accumulator;

/// Creates a window of memory-mapped registers.
///
/// # Safety
///
/// The requirements are those of [`Accumulator::new`].
pub const unsafe fn window(base: NonNull<u8>, len: usize) -> EcamWindow {
    // SAFETY: the caller guarantees it.
    unsafe { Accumulator::new(base, len) }
}

/// Returns the environment of the kernel.
pub fn environment() -> Environment {
    Environment::detect()
}

/// Calls `look` with every ECAM window of the firmware's table, or with the reason why it is
/// not used.
///
/// Returns the reason if there is no such table.
pub fn each_window(
    mut look: impl FnMut(Segment, Result<EcamWindow, ReportText>),
) -> Option<ReportText> {
    let Some(table) = acpi::mcfg(Firmware::get().rsdp) else {
        return Some(text(format_args!("ACPI has no MCFG table")));
    };
    let table = match Mcfg::parse(table) {
        Ok(table) => table,
        Err(bad) => return Some(text(format_args!("{bad}"))),
    };
    let reserved = Firmware::get().reserved();
    for segment in table.segments() {
        let window = match segment.validate(environment(), address_bits(), reserved.clone()) {
            Ok(()) => ecam(&segment.window()).ok_or_else(|| {
                text(format_args!(
                    "the ECAM window shares a page with RAM, or is beyond the 4 GiB that this kernel maps"
                ))
            }),
            Err(error) => Err(text(format_args!("{error}"))),
        };
        look(segment, window);
    }
    None
}

/// Returns `None`: the firmware has already assigned the address ranges, and has no interface to
/// query them.
pub const fn ranges() -> Option<Ranges> {
    None
}

/// Returns the width of physical addresses (Intel SDM volume 2, CPUID leaf 0x8000_0008).
fn address_bits() -> u8 {
    const LEAVES: u32 = 0x8000_0000;
    const ADDRESS_SIZES: u32 = 0x8000_0008;
    if cpuid(LEAVES).eax < ADDRESS_SIZES {
        return 36; // the minimum with long mode
    }
    cpuid(ADDRESS_SIZES).eax as u8
}

/// Returns the registers at `range`, from a table of the firmware, or `None` if they are in pages
/// with RAM, or beyond the mapped memory.
fn ecam(range: &Range<u64>) -> Option<EcamWindow> {
    let (start, end) = (
        usize::try_from(range.start).ok()?,
        usize::try_from(range.end).ok()?,
    );
    let len = end.checked_sub(start)?;
    let base = NonNull::new(ptr::with_exposed_provenance_mut(start))?;
    if !paging::is_device_memory(start, len) {
        return None;
    }
    // SAFETY: mapped uncached, and no RAM, so it overlaps no memory of ours; see `ports` for DMA.
    Some(unsafe { window(base, len) })
}
