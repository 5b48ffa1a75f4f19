//! The port under test of a machine with a device tree.

use core::ptr::NonNull;

use nostall_io::{Endian, Mmio, MmioLayout, Registers, Width};
use nostall_uart::LineSettings;
use nostall_work::UartWindow;
use spin::Once;

use super::{Device, pci_serial};
use crate::arch::is_device_memory;

/// Number of registers of a 16550.
const REGISTERS: u64 = 8;

/// Supported names of a 16550 in a device tree.
const COMPATIBLE: [&str; 2] = ["ns16550a", "ns16550"];

static WINDOW: Once<UartWindow> = Once::new();

/// Sets the port's window, in place of the device tree's. Only the first window counts.
pub fn set_serial_port(window: Option<UartWindow>) {
    if let Some(window) = window {
        WINDOW.call_once(|| window);
    }
}

/// Access to the port under test.
#[derive(Debug)]
pub struct SerialPort(Mmio);

/// Returns the port under test: the window that was set, else the firmware's console, else the
/// first 16550, else the first one on PCI.
///
/// Panics if there is no such port, or if its address is not mapped.
pub fn serial_port() -> SerialPort {
    match WINDOW.get() {
        Some(UartWindow::Ports) => panic!("no serial port: this machine has no I/O ports"),
        Some(&UartWindow::Mmio { base, stride }) => {
            let layout = MmioLayout {
                stride,
                ..MmioLayout::BYTES
            };
            in_memory(base, layout)
        }
        None => match find() {
            Some(Place::Device(device)) => in_memory(device.registers.start, layout(&device)),
            Some(Place::Pci(base)) => in_memory(base, MmioLayout::BYTES),
            None => panic!("no serial port to send over: this machine has no 16550"),
        },
    }
}

/// Returns the settings for 115,200 baud, with the input clock of the device tree, or else a PC's.
pub fn line_settings() -> LineSettings {
    let settings = LineSettings::baud(115_200);
    let result = match find() {
        Some(Place::Device(device)) if WINDOW.get().is_none() => device.number("clock-frequency"),
        _ => None,
    };
    LineSettings {
        input_clock: result
            .and_then(|hz| u32::try_from(hz).ok())
            .unwrap_or(settings.input_clock),
        ..settings
    }
}

/// Place of the machine's port.
pub enum Place {
    /// In the device tree.
    Device(Device),
    /// On PCI, at this address.
    Pci(u64),
}

/// Returns the machine's port, if it has a supported one.
pub fn find() -> Option<Place> {
    Device::console(&COMPATIBLE)
        .map(Place::Device)
        .or_else(|| pci_serial::find().map(Place::Pci))
}

/// Returns the layout according to the device tree's binding for 8250s: `reg-shift`,
/// `reg-io-width`.
fn layout(device: &Device) -> MmioLayout {
    let shift = device.number("reg-shift").unwrap_or(0);
    MmioLayout {
        stride: 1u16.checked_shl(shift as u32).unwrap_or(0), // which is refused
        width: match device.number("reg-io-width") {
            Some(4) => Width::Word,
            _ => Width::Byte,
        },
        endian: Endian::Native,
    }
}

fn in_memory(base: u64, layout: MmioLayout) -> SerialPort {
    let len = u64::from(layout.stride) * REGISTERS;
    SerialPort(window(base, len, layout))
}

/// Returns the registers of a port. Panics if their address is not mapped.
pub fn window(base: u64, len: u64, layout: MmioLayout) -> Mmio {
    let start = NonNull::new(base as *mut u8);
    let Some(start) = start.filter(|_| is_device_memory(&(base..base.saturating_add(len)))) else {
        panic!("no serial port can be at {base:#x}");
    };
    // SAFETY: according to the machine or the device tree, a serial port is there. paging.rs maps it
    // on all CPUs. Its driver uses no DMA.
    match unsafe { Mmio::new(start, len as usize, layout) } {
        Ok(window) => window,
        Err(error) => panic!("serial port: {error}"),
    }
}

impl Registers for SerialPort {
    fn read8(&self, offset: usize) -> u8 {
        self.0.read8(offset)
    }

    fn write8(&self, offset: usize, value: u8) {
        self.0.write8(offset, value);
    }

    fn write_burst(&self, offset: usize, values: &[u8]) {
        self.0.write_burst(offset, values);
    }

    fn burst_instructions(&self, values: usize) -> usize {
        self.0.burst_instructions(values)
    }
}
