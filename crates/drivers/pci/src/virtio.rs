//! Adapter for drivers of the crate `virtio-drivers`.

use virtio_drivers::transport::pci::bus::{ConfigurationAccess, DeviceFunction};

use crate::{Address, ConfigAccess};

/// Adapter from one segment of a [`ConfigAccess`] to `virtio-drivers`.
///
/// The trait's accesses have 32 bits, reach the first 256 registers, and cannot fail: an
/// unreachable register reads all ones and drops writes. `A` is cloned for every device, so pass a
/// reference.
#[derive(Clone, Copy, Debug)]
pub struct VirtioDrivers<A> {
    access: A,
    segment: u32,
}

impl<A: ConfigAccess> VirtioDrivers<A> {
    /// Creates an adapter for the functions of `segment`, accessed with `access`.
    pub const fn new(access: A, segment: u32) -> Self {
        Self { access, segment }
    }

    fn here(&self, function: DeviceFunction) -> Address {
        let devfn = function.device << 3 | function.function & 7;
        Address::from_devfn(self.segment, function.bus, devfn)
    }
}

#[expect(
    unsafe_code,
    reason = "a method of the trait is unsafe; nothing here is"
)]
impl<A: ConfigAccess + Clone> ConfigurationAccess for VirtioDrivers<A> {
    fn read_word(&self, function: DeviceFunction, register: u8) -> u32 {
        let address = self.here(function);
        self.access
            .at(address)
            .read32(register.into())
            .unwrap_or(!0)
    }

    fn write_word(&mut self, function: DeviceFunction, register: u8, value: u32) {
        // The trait cannot return an error.
        let _ = self
            .access
            .at(self.here(function))
            .write32(register.into(), value);
    }

    unsafe fn unsafe_clone(&self) -> Self {
        self.clone()
    }
}

impl From<Address> for DeviceFunction {
    /// Converts without the segment.
    fn from(address: Address) -> Self {
        Self {
            bus: address.bus(),
            device: address.device(),
            function: address.function(),
        }
    }
}
