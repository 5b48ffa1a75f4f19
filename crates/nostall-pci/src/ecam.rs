//! Memory-mapped access: every register has its own address.

use core::ops::RangeInclusive;

use nostall_io::Registers;

use crate::Address;
use crate::access::{AccessError, AccessWidth, ConfigAccess, check};

/// Bytes of one bus in an ECAM window.
pub const ECAM_BUS_SIZE: usize = 1 << 20;

/// Configuration space by PCI Express's Enhanced Configuration Access Mechanism (PCI
/// Express Base, 7.2.2): the buses of one segment, or some of them, in memory.
///
/// One bus access each; in a virtual machine one exit, or none where the hypervisor maps
/// the registers. No lock: an access is one load or store. As many CPUs may use it at once
/// as its window allows.
#[derive(Clone, Copy, Debug)]
pub struct Ecam<R> {
    window: R,
    segment: u32,
    first_bus: u8,
    last_bus: u8,
}

impl<R: Registers> Ecam<R> {
    /// Takes `window`, which begins with the first of `buses` and has [`ECAM_BUS_SIZE`] bytes for
    /// each.
    ///
    /// It must make each access at its own width, at the very byte that it is given
    /// (`MmioLayout::BYTES`, or `nostall_io::Accumulator`, which old AMD processors need).
    ///
    /// Constant, so that it can be in a `static`.
    pub const fn new(window: R, segment: u32, buses: RangeInclusive<u8>) -> Self {
        Self {
            window,
            segment,
            first_bus: *buses.start(),
            last_bus: *buses.end(),
        }
    }

    /// The segment whose buses these are.
    pub const fn segment(&self) -> u32 {
        self.segment
    }

    /// The buses it gets to.
    pub fn buses(&self) -> RangeInclusive<u8> {
        self.first_bus..=self.last_bus
    }

    /// The window.
    pub const fn window(&self) -> &R {
        &self.window
    }

    #[inline]
    fn offset(&self, address: Address, register: u16) -> usize {
        address.ecam_offset() - usize::from(self.first_bus) * ECAM_BUS_SIZE + usize::from(register)
    }
}

impl<R: Registers> ConfigAccess for Ecam<R> {
    #[inline]
    fn reaches(&self, address: Address, register: u16) -> bool {
        let _ = register; // all of them
        address.segment() == self.segment
            && self.first_bus <= address.bus()
            && address.bus() <= self.last_bus
    }

    #[inline]
    fn read(
        &self,
        address: Address,
        register: u16,
        width: AccessWidth,
    ) -> Result<u32, AccessError> {
        check(self, address, register, width)?;
        Ok(width.read_in(&self.window, self.offset(address, register)))
    }

    #[inline]
    fn write(
        &self,
        address: Address,
        register: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), AccessError> {
        check(self, address, register, width)?;
        width.write_in(&self.window, self.offset(address, register), value);
        Ok(())
    }
}
