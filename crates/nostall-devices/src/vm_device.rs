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
use crate::uart::Uart;

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

/// A serial port's registers in memory, so many bytes apart.
///
/// With a stride of 1 it is accessed as by ports. Else one access is one of a
/// register, of any width up to the stride, at its first byte; the upper bytes
/// read 0 and are ignored, except of the DesignWare's registers, which are words.
/// Elsewhere there is nothing: all ones.
#[derive(Debug)]
pub struct MmioUart<C, W> {
    uart: Uart<C, W>,
    stride: Stride,
}

/// How far apart registers lie: `reg-shift` as a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stride(u64);

impl Stride {
    /// Side by side.
    pub const BYTES: Self = Self(1);
    /// Four bytes apart, as in most chips.
    pub const WORDS: Self = Self(4);
    /// A page each, so that a VMM can map one without the others.
    pub const PAGES: Self = Self(4096);

    /// `None` if it is no power of two.
    pub const fn new(bytes: u64) -> Option<Self> {
        if bytes.is_power_of_two() {
            Some(Self(bytes))
        } else {
            None
        }
    }
}

impl<C: Clock, W: Write> MmioUart<C, W> {
    /// That port, in memory.
    pub const fn new(uart: Uart<C, W>, stride: Stride) -> Self {
        Self { uart, stride }
    }

    /// The port.
    pub const fn uart_mut(&mut self) -> &mut Uart<C, W> {
        &mut self.uart
    }

    /// Which register an access is to.
    fn register(&self, offset: u64, length: usize) -> Option<usize> {
        let fits = length as u64 <= self.stride.0 && matches!(length, 1 | 2 | 4);
        let register = usize::try_from(offset / self.stride.0).ok()?;
        (fits && offset.is_multiple_of(self.stride.0)).then_some(register)
    }

    fn is_of_words(&self) -> bool {
        self.uart.chip().model() == nostall_uart::Model::DesignWare
    }
}

impl<C: Clock, W: Write> MutDeviceMmio for MmioUart<C, W> {
    fn mmio_read(&mut self, _: MmioAddress, offset: MmioAddressOffset, data: &mut [u8]) {
        if self.stride == Stride::BYTES {
            let offset = usize::try_from(offset).unwrap_or(usize::MAX);
            return read_bytes(&mut self.uart, offset, data);
        }
        data.fill(0xff);
        let Some(register) = self.register(offset, data.len()) else {
            return;
        };
        let value = if self.is_of_words() {
            self.uart.read32(register)
        } else {
            self.uart.read(register).into()
        };
        data.copy_from_slice(&value.to_le_bytes()[..data.len()]);
    }

    fn mmio_write(&mut self, _: MmioAddress, offset: MmioAddressOffset, data: &[u8]) {
        if self.stride == Stride::BYTES {
            let offset = usize::try_from(offset).unwrap_or(usize::MAX);
            return write_bytes(&mut self.uart, offset, data);
        }
        if let Some(register) = self.register(offset, data.len()) {
            self.uart.write(register, data[0]);
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
