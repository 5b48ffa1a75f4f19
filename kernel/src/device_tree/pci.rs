//! Access to PCI configuration space through memory, as the device tree describes it.

use core::ops::Range;
use core::ptr::{self, NonNull};

use nostall_io::{Mmio, MmioLayout, Registers};
use nostall_pci::device_tree::Host;
use nostall_pci::mcfg::Segment;
use nostall_pci::{Environment, Ranges};
use nostall_work::{ReportText, text};

use crate::arch::{MAPPED_GIB, is_device_memory};

/// I/O ports, which do not exist on this architecture.
pub enum PortWindow {}

impl Registers for PortWindow {
    fn read8(&self, _: usize) -> u8 {
        match *self {}
    }

    fn write8(&self, _: usize, _: u8) {
        match *self {}
    }
}

/// Returns `None`: there are no I/O ports.
pub const fn ports() -> Option<PortWindow> {
    None
}

/// Access to memory-mapped configuration space.
pub type EcamWindow = Mmio;

/// Creates a window of memory-mapped registers.
///
/// # Safety
///
/// The requirements are those of [`Mmio::new`].
pub unsafe fn window(base: NonNull<u8>, len: usize) -> EcamWindow {
    // SAFETY: the caller guarantees it.
    unsafe { Mmio::new(base, len, MmioLayout::BYTES) }.expect("bytes are always possible")
}

/// Returns the environment of the kernel, as the device tree describes it.
pub fn environment() -> Environment {
    Environment::of_device_tree(super::get())
}

/// Calls `look` with every ECAM window of the device tree, or with the reason why it is not used.
///
/// Returns the reason if the device tree has no window.
pub fn each_window(
    mut look: impl FnMut(Segment, Result<EcamWindow, ReportText>),
) -> Option<ReportText> {
    let mut none = Some(text(format_args!(
        "the device tree has no PCI host bridge with an ECAM window"
    )));
    for host in Host::all(super::get()) {
        match host {
            Ok(host) => {
                let window = ecam(&host.segment.window()).ok_or_else(|| {
                    text(format_args!(
                        "the ECAM window is in RAM, or beyond the {MAPPED_GIB} GiB that this kernel maps"
                    ))
                });
                look(host.segment, window);
                none = None;
            }
            Err(bad) => {
                none = none.map(|_| text(format_args!("{bad}")));
            }
        }
    }
    none
}

/// Returns the registers at `range`, or `None` if they are not mapped as a device's.
pub fn ecam(range: &Range<u64>) -> Option<EcamWindow> {
    let base = NonNull::new(ptr::with_exposed_provenance_mut(range.start as usize))?;
    if !is_device_memory(range) {
        return None;
    }
    // SAFETY: mapped and not RAM, so it overlaps no memory of ours. Configuration space does no
    // DMA, and no driver here starts any.
    Some(unsafe { window(base, (range.end - range.start) as usize) })
}

/// Returns the address ranges for the devices of segment 0, as the device tree describes them.
pub fn ranges() -> Option<Ranges> {
    Host::all(super::get())
        .flatten()
        .find(|host| host.segment.number == 0)
        .map(|host| host.ranges())
}
