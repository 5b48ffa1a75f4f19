//! Ways to PCI configuration space: by memory, where the device tree says.

use core::ops::Range;
use core::ptr::{self, NonNull};

use nostall_io::{Mmio, MmioLayout, Registers};
use nostall_pci::device_tree::Host;
use nostall_pci::mcfg::Segment;
use nostall_pci::{Environment, Ranges};
use nostall_work::{ReportText, text};

use crate::arch::is_device_memory;

/// I/O ports: there are none.
pub enum PortWindow {}

impl Registers for PortWindow {
    fn read8(&self, _: usize) -> u8 {
        match *self {}
    }

    fn write8(&self, _: usize, _: u8) {
        match *self {}
    }
}

/// No ports.
pub const fn ports() -> Option<PortWindow> {
    None
}

/// How memory is accessed for configuration space.
pub type EcamWindow = Mmio;

/// Registers in memory.
///
/// # Safety
///
/// As for [`Mmio::new`].
pub unsafe fn window(base: NonNull<u8>, len: usize) -> EcamWindow {
    // SAFETY: the caller's word.
    unsafe { Mmio::new(base, len, MmioLayout::BYTES) }.expect("bytes are always possible")
}

/// What we run on, as the device tree tells.
pub fn environment() -> Environment {
    Environment::of_device_tree(super::get())
}

/// Shows `look` every ECAM window of the device tree, or why it is not used.
///
/// Returns why there is none, if so.
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
                        "the ECAM window is in RAM, or beyond the 256 GiB that this kernel maps"
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

fn ecam(range: &Range<u64>) -> Option<EcamWindow> {
    let base = NonNull::new(ptr::with_exposed_provenance_mut(range.start as usize))?;
    if !is_device_memory(range) {
        return None;
    }
    // SAFETY: mapped, and no RAM, so that nothing of ours is there; configuration space
    // does no DMA, and no driver here lets a device do any.
    Some(unsafe { window(base, (range.end - range.start) as usize) })
}

/// What there is to give out to the devices of segment 0, as the device tree tells.
pub fn ranges() -> Option<Ranges> {
    Host::all(super::get())
        .flatten()
        .find(|host| host.segment.number == 0)
        .map(|host| host.ranges())
}
