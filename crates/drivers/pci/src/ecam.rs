//! Memory-mapped access: every register has its own address.

use core::ops::RangeInclusive;

use nostall_io::Registers;

use crate::Address;
use crate::access::{AccessError, ConfigAccess, Register, check};

/// Size of one bus in an ECAM window, in bytes.
pub const ECAM_BUS_SIZE: usize = 1 << 20;

/// Configuration space through PCI Express's Enhanced Configuration Access Mechanism (PCI Express
/// Base, 7.2.2): all or some buses of one segment, in memory.
///
/// A register takes one bus access. In a virtual machine that is one exit, or none if the
/// hypervisor maps the registers. There is no lock, because an access is one load or store. Only
/// the window limits how many CPUs may use it at once.
#[derive(Clone, Copy, Debug)]
pub struct Ecam<R> {
    window: R,
    segment: u32,
    first_bus: u8,
    last_bus: u8,
    /// Number of buses.
    count: u16,
}

impl<R: Registers> Ecam<R> {
    /// Creates the method. `window` starts with the first of `buses` and has [`ECAM_BUS_SIZE`]
    /// bytes for each.
    ///
    /// The window must make each access at its own width and at the exact byte:
    /// `MmioLayout::BYTES`, or `nostall_io::Accumulator` for old AMD processors.
    ///
    /// A kernel with a fixed window address keeps it in a `static`:
    ///
    /// ```
    /// use nostall_io::{Mmio, MmioLayout};
    /// use nostall_pci::{ECAM_BUS_SIZE, Ecam};
    ///
    /// const SIZE: usize = 256 * ECAM_BUS_SIZE;
    /// // SAFETY: QEMU's q35 has the window there, the kernel maps it, and accesses to it
    /// // start no DMA.
    /// const WINDOW: Mmio = unsafe { Mmio::at(0xb000_0000, SIZE, MmioLayout::BYTES) };
    /// static ECAM: Ecam<Mmio> = Ecam::new(WINDOW, 0, 0..=255);
    /// ```
    pub const fn new(window: R, segment: u32, buses: RangeInclusive<u8>) -> Self {
        let (first_bus, last_bus) = (*buses.start(), *buses.end());
        Self {
            window,
            segment,
            first_bus,
            last_bus,
            count: (last_bus as u16 + 1).saturating_sub(first_bus as u16),
        }
    }

    /// Returns the segment of the buses.
    pub const fn segment(&self) -> u32 {
        self.segment
    }

    /// Returns the buses in the window.
    pub fn buses(&self) -> RangeInclusive<u8> {
        self.first_bus..=self.last_bus
    }

    /// Returns the register window.
    pub const fn window(&self) -> &R {
        &self.window
    }

    #[inline]
    fn offset(&self, address: Address, register: u16) -> usize {
        let bus = address.bus().wrapping_sub(self.first_bus);
        Address::from_devfn(0, bus, address.devfn()).ecam_offset() + usize::from(register)
    }
}

impl<R: Registers> ConfigAccess for Ecam<R> {
    #[inline]
    fn reaches(&self, address: Address, register: u16) -> bool {
        let _ = register; // all of them
        let bus = address.bus().wrapping_sub(self.first_bus);
        address.segment() == self.segment && u16::from(bus) < self.count
    }

    #[inline(always)]
    fn read(&self, address: Address, register: Register) -> Result<u32, AccessError> {
        check(self, address, register)?;
        Ok(register
            .width()
            .read_in(&self.window, self.offset(address, register.number())))
    }

    #[inline(always)]
    fn write(&self, address: Address, register: Register, value: u32) -> Result<(), AccessError> {
        check(self, address, register)?;
        register
            .width()
            .write_in(&self.window, self.offset(address, register.number()), value);
        Ok(())
    }
}
