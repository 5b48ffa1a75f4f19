//! The port under test of a PC.

use core::ptr::NonNull;

use nostall_io::{Mmio, MmioLayout, Ports, Registers};
use nostall_uart::LineSettings;
use nostall_work::UartWindow;
use spin::Once;

/// Number of registers of a 16550.
const REGISTERS: u16 = 8;

static WINDOW: Once<UartWindow> = Once::new();

/// Sets the port's window. Only the first window counts.
pub fn set_serial_port(window: Option<UartWindow>) {
    if let Some(window) = window {
        WINDOW.call_once(|| window);
    }
}

/// Returns the settings for 115,200 baud with a PC's input clock.
pub const fn line_settings() -> LineSettings {
    LineSettings::baud(115_200)
}

/// Access to the port under test.
pub enum SerialPort {
    Ports(Ports),
    Mmio(Mmio),
}

/// Returns the port under test: COM1, unless another window was set.
///
/// Panics if its address is not mapped.
pub fn serial_port() -> SerialPort {
    match WINDOW.get() {
        None | Some(UartWindow::Ports) => {
            // SAFETY: ring 0; a 16550 does no DMA.
            SerialPort::Ports(unsafe { Ports::new(0x3f8, REGISTERS) })
        }
        Some(&UartWindow::Mmio { base, stride }) => SerialPort::Mmio(in_memory(base, stride)),
    }
}

fn in_memory(base: u64, stride: u16) -> Mmio {
    let layout = MmioLayout {
        stride,
        ..MmioLayout::BYTES
    };
    let len = u64::from(stride) * u64::from(REGISTERS);
    let start = NonNull::new(base as *mut u8);
    let Some(start) = start.filter(|_| base.saturating_add(len) <= 1 << 32) else {
        panic!("no serial port can be at {base:#x}");
    };
    // SAFETY: according to the command line, a 16550 is there. paging.rs maps it on all CPUs, below
    // 4 GiB, as device memory. A 16550 does no DMA.
    match unsafe { Mmio::new(start, len as usize, layout) } {
        Ok(window) => window,
        Err(error) => panic!("serial port: {error}"),
    }
}

impl Registers for SerialPort {
    fn read8(&self, offset: usize) -> u8 {
        match self {
            Self::Ports(ports) => ports.read8(offset),
            Self::Mmio(mmio) => mmio.read8(offset),
        }
    }

    fn write8(&self, offset: usize, value: u8) {
        match self {
            Self::Ports(ports) => ports.write8(offset, value),
            Self::Mmio(mmio) => mmio.write8(offset, value),
        }
    }

    fn write_burst(&self, offset: usize, values: &[u8]) {
        match self {
            Self::Ports(ports) => ports.write_burst(offset, values),
            Self::Mmio(mmio) => mmio.write_burst(offset, values),
        }
    }

    fn burst_instructions(&self, values: usize) -> usize {
        match self {
            Self::Ports(ports) => ports.burst_instructions(values),
            Self::Mmio(mmio) => mmio.burst_instructions(values),
        }
    }
}
