//! Adapters of the models for rust-vmm's device manager.
//!
//! A [`PciHost`], [`Serial`] or [`MmioUart`] in an `Arc<Mutex<..>>` can be registered with
//! vm-device's `IoManager`. Each guest access is one call with 1, 2, 4 or (MMIO) 8 bytes of data.
//! Some hypervisors deliver a string instruction in one piece: the VMM splits it first.
//!
//! The bus traits of vm-device return no result. Effects of an access reach the VMM through the
//! hook of a [`PciHost`] and the [`Trigger`] of a [`Serial`].

use std::fmt;
use std::io::Write;

use nostall_io::Clock;
use vm_device::bus::{MmioAddress, MmioAddressOffset, PioAddress, PioAddressOffset};
use vm_device::{MutDeviceMmio, MutDevicePio};

use crate::pci::{HostBridge, Written};
use crate::uart::{Serial, Stride, Trigger};

/// A host bridge with a hook that runs after each guest access, reads included.
///
/// If the access was a write that reached a function, the hook receives the written registers. The
/// VMM uses it to move a device whose BAR has moved ([`Function::bar`](crate::pci::Function::bar)).
/// It also calls [`Shadow::follow`](crate::pci::Shadow::follow) after every access, because trapped
/// reads pay for mappings. The guest resumes when the hook returns.
pub struct PciHost<H> {
    bridge: HostBridge,
    hook: H,
}

impl<H: FnMut(&mut HostBridge, Option<Written>)> PciHost<H> {
    /// Creates the adapter from `bridge` and `hook`.
    pub const fn new(bridge: HostBridge, hook: H) -> Self {
        Self { bridge, hook }
    }

    /// Returns the bridge. Changes made through it do not call the hook.
    pub const fn bridge_mut(&mut self) -> &mut HostBridge {
        &mut self.bridge
    }
}

impl<H> fmt::Debug for PciHost<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("PciHost");
        f.field("bridge", &self.bridge).finish_non_exhaustive()
    }
}

/// The ports 0xcf8 to 0xcff. A PC's reset control register, 0xcf9, is one of them. A VMM that has
/// one registers separate ranges, and this device's ranges start at 0xcf8.
impl<H: FnMut(&mut HostBridge, Option<Written>)> MutDevicePio for PciHost<H> {
    fn pio_read(&mut self, base: PioAddress, offset: PioAddressOffset, data: &mut [u8]) {
        self.bridge.port_read(pci_port(base, offset), data);
        (self.hook)(&mut self.bridge, None);
    }

    fn pio_write(&mut self, base: PioAddress, offset: PioAddressOffset, data: &[u8]) {
        let written = self.bridge.port_write(pci_port(base, offset), data);
        (self.hook)(&mut self.bridge, written);
    }
}

/// The ECAM window.
impl<H: FnMut(&mut HostBridge, Option<Written>)> MutDeviceMmio for PciHost<H> {
    fn mmio_read(&mut self, _: MmioAddress, offset: MmioAddressOffset, data: &mut [u8]) {
        self.bridge.ecam_read(offset, data);
        (self.hook)(&mut self.bridge, None);
    }

    fn mmio_write(&mut self, _: MmioAddress, offset: MmioAddressOffset, data: &[u8]) {
        let written = self.bridge.ecam_write(offset, data);
        (self.hook)(&mut self.bridge, written);
    }
}

/// I/O ports, one register each. A wider access reaches several consecutive registers, as on a PC's
/// bus.
impl<T: Trigger, C: Clock, W: Write> MutDevicePio for Serial<T, C, W> {
    fn pio_read(&mut self, _: PioAddress, offset: PioAddressOffset, data: &mut [u8]) {
        if !matches!(data.len(), 1 | 2 | 4) {
            return data.fill(0xff);
        }
        Stride::BYTES.read(offset.into(), data, |register| self.read(register).into());
    }

    fn pio_write(&mut self, _: PioAddress, offset: PioAddressOffset, data: &[u8]) {
        if matches!(data.len(), 1 | 2 | 4) {
            Stride::BYTES.write(offset.into(), data, |register, byte| {
                self.write_keeping_error(register, byte);
            });
        }
    }
}

/// A serial port with memory-mapped registers, one [`Stride`] apart.
///
/// Accesses have 1, 2, 4 or 8 bytes. Reads of any other length return all ones; such writes are
/// ignored.
#[derive(Debug)]
pub struct MmioUart<T: Trigger, C, W> {
    serial: Serial<T, C, W>,
    stride: Stride,
}

impl<T: Trigger, C: Clock, W: Write> MmioUart<T, C, W> {
    /// Maps the registers of `serial` at distances of `stride`.
    pub const fn new(serial: Serial<T, C, W>, stride: Stride) -> Self {
        Self { serial, stride }
    }

    /// Returns the port.
    pub const fn serial_mut(&mut self) -> &mut Serial<T, C, W> {
        &mut self.serial
    }
}

impl<T: Trigger, C: Clock, W: Write> MutDeviceMmio for MmioUart<T, C, W> {
    fn mmio_read(&mut self, _: MmioAddress, offset: MmioAddressOffset, data: &mut [u8]) {
        if !matches!(data.len(), 1 | 2 | 4 | 8) {
            return data.fill(0xff);
        }
        let (serial, stride) = (&mut self.serial, self.stride);
        stride.read(offset, data, |register| match stride {
            Stride::BYTES => serial.read(register).into(),
            _ => serial.read_word(register),
        });
    }

    fn mmio_write(&mut self, _: MmioAddress, offset: MmioAddressOffset, data: &[u8]) {
        if matches!(data.len(), 1 | 2 | 4 | 8) {
            self.stride.write(offset, data, |register, byte| {
                self.serial.write_keeping_error(register, byte);
            });
        }
    }
}

/// Returns the port's offset from 0xcf8, for any base of the registered range.
fn pci_port(base: PioAddress, offset: PioAddressOffset) -> u16 {
    const INDEX: u16 = 0xcf8;
    let port = base.0.wrapping_add(offset);
    port.wrapping_sub(INDEX)
}
