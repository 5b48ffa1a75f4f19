//! rust-vmm's device manager hands accesses to these models.
//!
//! A [`PciHost`], a [`Serial`] or a [`MmioUart`] in an `Arc<Mutex<..>>` can be registered with
//! vm-device's `IoManager`. One access of the guest is one call: its data has 1, 2, 4 or (MMIO) 8
//! bytes. A string instruction, which some hypervisors deliver in one piece, must be taken
//! apart first.
//!
//! vm-device's accesses return nothing. Effects of an access reach the VMM in other ways: through
//! the hook of a [`PciHost`], and through the [`Trigger`] of a [`Serial`].

use std::fmt;
use std::io::Write;

use nostall_io::Clock;
use vm_device::bus::{MmioAddress, MmioAddressOffset, PioAddress, PioAddressOffset};
use vm_device::{MutDeviceMmio, MutDevicePio};

use crate::pci::{HostBridge, Written};
use crate::uart::{Serial, Stride, Trigger};

/// A host bridge, and a hook that is called after each of the guest's accesses, reads included.
///
/// The hook gets the registers that were written, if the access was a write that reached a
/// function. There a VMM moves a device whose BAR has moved
/// ([`Function::bar`](crate::pci::Function::bar)). After every access the VMM calls
/// [`Shadow::follow`](crate::pci::Shadow::follow) there: reads that trap pay for mappings. The
/// guest goes on when the hook returns.
pub struct PciHost<H> {
    bridge: HostBridge,
    hook: H,
}

impl<H: FnMut(&mut HostBridge, Option<Written>)> PciHost<H> {
    /// Puts `bridge` behind the bus.
    pub const fn new(bridge: HostBridge, hook: H) -> Self {
        Self { bridge, hook }
    }

    /// Returns the bridge. Changes that the VMM makes here do not call the hook.
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

/// The ports 0xcf8 to 0xcff. A PC's reset control at 0xcf9 lies in between:
/// register one range for each if you have one, from 0xcf8 on for this.
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

/// Ports, one register each. A wider access is one to each of several registers,
/// as on a PC's bus.
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

/// A serial port's registers in memory, a [`Stride`] apart.
///
/// Accesses have 1, 2, 4 or 8 bytes; others read all ones and write nothing.
#[derive(Debug)]
pub struct MmioUart<T: Trigger, C, W> {
    serial: Serial<T, C, W>,
    stride: Stride,
}

impl<T: Trigger, C: Clock, W: Write> MmioUart<T, C, W> {
    /// Places `serial` in memory.
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

/// The port within 0xcf8 to 0xcff, wherever the range registered begins.
fn pci_port(base: PioAddress, offset: PioAddressOffset) -> u16 {
    const INDEX: u16 = 0xcf8;
    let port = base.0.wrapping_add(offset);
    port.wrapping_sub(INDEX)
}
