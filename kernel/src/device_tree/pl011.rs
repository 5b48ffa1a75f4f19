//! The port under test of an Arm machine without a 16550.

use core::ptr::NonNull;

use nostall_io::{Counting, Mmio, MmioLayout};
use nostall_uart::Pl011;

use super::{Device, fixed_clock, serial};
use crate::arch::is_device_memory;

/// A PL011 whose accesses are counted.
pub type CountedPl011 = Pl011<Counting<Mmio>>;

/// Size of the registers (Arm DDI 0183G, Table 3-1).
const SIZE: u64 = 0x1000;

/// Returns the firmware's console, else the first PL011 or SBSA UART. `None` if the machine has a
/// 16550, or none of them.
///
/// Panics if its address is not mapped.
pub fn find() -> Option<CountedPl011> {
    if serial::find().is_some() {
        return None;
    }
    let port = |compatible| {
        let all = || Device::all(compatible);
        all().find(Device::is_stdout).or_else(|| all().next())
    };
    port("arm,pl011")
        .map(|device| Pl011::new(window(&device), clock(&device)))
        .or_else(|| Some(Pl011::sbsa(window(&port("arm,sbsa-uart")?))))
}

fn window(device: &Device) -> Counting<Mmio> {
    let range = device.registers.start..device.registers.start.saturating_add(SIZE);
    let start = NonNull::new(range.start as *mut u8);
    let Some(start) = start.filter(|_| is_device_memory(&range)) else {
        panic!("no serial port can be at {:#x}", range.start);
    };
    // SAFETY: according to the device tree, a PL011 is there. paging.rs maps it on all CPUs. The
    // driver uses no DMA.
    match unsafe { Mmio::new(start, SIZE as usize, MmioLayout::BYTES) } {
        Ok(window) => Counting::new(window),
        Err(error) => panic!("serial port: {error}"),
    }
}

/// Returns the rate of the first clock, which is UARTCLK (Linux, Documentation/devicetree/bindings/
/// serial/pl011.yaml). Without it, the line keeps the firmware's rate.
fn clock(device: &Device) -> Option<u32> {
    let hz = fixed_clock(device.cells("clocks").next()?)?;
    u32::try_from(hz).ok()
}
