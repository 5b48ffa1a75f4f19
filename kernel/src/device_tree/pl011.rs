//! The port under test of an Arm machine without a 16550.

use nostall_io::{Counting, Mmio, MmioLayout};
use nostall_uart::Pl011;

use super::{Device, fixed_clock, serial};

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
        let device = Device::console(&[compatible])?;
        let window = serial::window(device.registers.start, SIZE, MmioLayout::BYTES);
        Some((Counting::new(window), clock(&device)))
    };
    if let Some((window, clock)) = port("arm,pl011") {
        return Some(Pl011::new(window, clock));
    }
    port("arm,sbsa-uart").map(|(window, _)| Pl011::sbsa(window))
}

/// Returns the rate of the first clock, which is UARTCLK (Linux, Documentation/devicetree/bindings/
/// serial/pl011.yaml). Without it, the line keeps the firmware's rate.
fn clock(device: &Device) -> Option<u32> {
    let hz = fixed_clock(device.cells("clocks").next()?)?;
    u32::try_from(hz).ok()
}
