//! Configuration space for what is written on the crate `pci_types`.

use core::num::TryFromIntError;

use ::pci_types::{ConfigRegionAccess, PciAddress};

use crate::{Address, ConfigAccess};

/// Any [`ConfigAccess`] as `pci_types` has it.
///
/// Its accesses are of 32 bits and cannot fail: what cannot be read reads all ones, what
/// cannot be written is not. Reading and writing a part of a word is done over there, and
/// writes the rest of the word back: a write-1-to-clear register next to it is cleared.
#[derive(Clone, Copy, Debug)]
pub struct PciTypes<A>(pub A);

#[expect(
    unsafe_code,
    reason = "the trait's methods are unsafe; nothing here is"
)]
impl<A: ConfigAccess> ConfigRegionAccess for PciTypes<A> {
    unsafe fn read(&self, address: PciAddress, offset: u16) -> u32 {
        self.0.read32(here(address), offset).unwrap_or(!0)
    }

    unsafe fn write(&self, address: PciAddress, offset: u16, value: u32) {
        // It has no way to tell.
        let _ = self.0.write32(here(address), offset, value);
    }
}

/// An address of `pci_types` as one of ours.
fn here(address: PciAddress) -> Address {
    let devfn = address.device() << 3 | address.function() & 7;
    Address::from_devfn(address.segment().into(), address.bus(), devfn)
}

impl TryFrom<Address> for PciAddress {
    type Error = TryFromIntError;

    /// Fails for a segment above 16 bits, which `pci_types` cannot name.
    fn try_from(address: Address) -> Result<Self, TryFromIntError> {
        Ok(Self::new(
            address.segment().try_into()?,
            address.bus(),
            address.device(),
            address.function(),
        ))
    }
}

impl From<PciAddress> for Address {
    fn from(address: PciAddress) -> Self {
        here(address)
    }
}
