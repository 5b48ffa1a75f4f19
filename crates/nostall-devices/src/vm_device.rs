//! rust-vmm's device manager hands accesses to these models.
//!
//! A model in an `Arc<Mutex<..>>` can be registered with vm-device's `IoManager`.
//! One access of the guest is one call: its data has 1, 2, 4 or (MMIO) 8 bytes. A
//! string instruction, which some hypervisors deliver in one piece, must be taken
//! apart first.

use std::io::Write;

use nostall_io::Clock;
use vm_device::bus::{MmioAddress, MmioAddressOffset, PioAddress, PioAddressOffset};
use vm_device::{MutDeviceMmio, MutDevicePio};

use crate::pci::HostBridge;
use crate::uart::{Stride, Uart};

/// The ports 0xcf8 to 0xcff. A PC's reset control at 0xcf9 lies in between:
/// register one range for each if you have one, from 0xcf8 on for this.
impl MutDevicePio for HostBridge {
    fn pio_read(&mut self, base: PioAddress, offset: PioAddressOffset, data: &mut [u8]) {
        self.port_read(pci_port(base, offset), data);
    }

    fn pio_write(&mut self, base: PioAddress, offset: PioAddressOffset, data: &[u8]) {
        self.port_write(pci_port(base, offset), data);
    }
}

/// The ECAM window. A VMM with a [`Shadow`](crate::pci::Shadow) lets it follow
/// after every write, these and those by ports.
impl MutDeviceMmio for HostBridge {
    fn mmio_read(&mut self, _: MmioAddress, offset: MmioAddressOffset, data: &mut [u8]) {
        self.ecam_read(offset, data);
    }

    fn mmio_write(&mut self, _: MmioAddress, offset: MmioAddressOffset, data: &[u8]) {
        self.ecam_write(offset, data);
    }
}

/// Ports, one register each. A wider access is one to each of several registers,
/// as on a PC's bus.
impl<C: Clock, W: Write> MutDevicePio for Uart<C, W> {
    fn pio_read(&mut self, _: PioAddress, offset: PioAddressOffset, data: &mut [u8]) {
        read_bytes(self, offset.into(), data);
    }

    fn pio_write(&mut self, _: PioAddress, offset: PioAddressOffset, data: &[u8]) {
        write_bytes(self, offset.into(), data);
    }
}

/// A serial port's registers in memory, a [`Stride`] apart.
///
/// Accesses have 1, 2, 4 or 8 bytes; others read all ones and write nothing.
#[derive(Debug)]
pub struct MmioUart<C, W> {
    uart: Uart<C, W>,
    stride: Stride,
}

impl<C: Clock, W: Write> MmioUart<C, W> {
    /// Places `uart` in memory.
    pub const fn new(uart: Uart<C, W>, stride: Stride) -> Self {
        Self { uart, stride }
    }

    /// Returns the port.
    pub const fn uart_mut(&mut self) -> &mut Uart<C, W> {
        &mut self.uart
    }
}

impl<C: Clock, W: Write> MutDeviceMmio for MmioUart<C, W> {
    fn mmio_read(&mut self, _: MmioAddress, offset: MmioAddressOffset, data: &mut [u8]) {
        if !matches!(data.len(), 1 | 2 | 4 | 8) {
            return data.fill(0xff);
        }
        let is_of_words = self.uart.chip().model() == nostall_uart::Model::DesignWare;
        self.stride
            .read(offset, data, |register| match is_of_words {
                true if self.stride != Stride::BYTES => self.uart.read32(register),
                _ => self.uart.read(register).into(),
            });
    }

    fn mmio_write(&mut self, _: MmioAddress, offset: MmioAddressOffset, data: &[u8]) {
        if matches!(data.len(), 1 | 2 | 4 | 8) {
            self.stride.write(offset, data, |register, byte| {
                self.uart.write(register, byte)
            });
        }
    }
}

/// The port within 0xcf8 to 0xcff, wherever the range registered begins.
fn pci_port(base: PioAddress, offset: PioAddressOffset) -> u16 {
    const INDEX: u16 = 0xcf8;
    let port = base.0.wrapping_add(offset);
    port.wrapping_sub(INDEX)
}

fn read_bytes<C: Clock, W: Write>(uart: &mut Uart<C, W>, offset: usize, data: &mut [u8]) {
    if !matches!(data.len(), 1 | 2 | 4) {
        data.fill(0xff);
        return;
    }
    for (n, byte) in data.iter_mut().enumerate() {
        *byte = uart.read(offset.saturating_add(n));
    }
}

fn write_bytes<C: Clock, W: Write>(uart: &mut Uart<C, W>, offset: usize, data: &[u8]) {
    if !matches!(data.len(), 1 | 2 | 4) {
        return;
    }
    for (n, &byte) in data.iter().enumerate() {
        uart.write(offset.saturating_add(n), byte);
    }
}
