//! Adapter for code that uses the crate `pci_types`.

use core::num::TryFromIntError;

use ::pci_types::{ConfigRegionAccess, PciAddress};

use crate::{Address, ConfigAccess};

/// Adapter from any [`ConfigAccess`] to `pci_types`'s `ConfigRegionAccess`.
///
/// The trait's accesses have 32 bits and cannot fail: an unreachable register reads all ones and
/// drops writes. `pci_types` also writes whole words to change a part of one. So a write-1-to-clear
/// register in the same word is cleared.
///
/// ```
/// use nostall_devices::pci::{Topology, VirtualBus};
/// use nostall_pci::{Ecam, PciTypes, Scan};
/// use pci_types::PciHeader;
///
/// let machine = VirtualBus::new(Topology::new(0..=7)?.bridge);
/// let ecam = Ecam::new(machine.ecam(), 0, 0..=7);
/// let bridge = Scan::new(&ecam, 0, 0..=7).next().expect("a host bridge")?;
///
/// // Code written for `pci_types` reads the same function.
/// let header = PciHeader::new(bridge.address.try_into()?);
/// assert_eq!(header.id(PciTypes(&ecam)), (bridge.vendor, bridge.device));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PciTypes<A>(pub A);

#[expect(
    unsafe_code,
    reason = "the trait's methods are unsafe; nothing here is"
)]
impl<A: ConfigAccess> ConfigRegionAccess for PciTypes<A> {
    unsafe fn read(&self, address: PciAddress, offset: u16) -> u32 {
        self.0.at(here(address)).read32(offset).unwrap_or(!0)
    }

    unsafe fn write(&self, address: PciAddress, offset: u16, value: u32) {
        // The trait cannot return an error.
        let _ = self.0.at(here(address)).write32(offset, value);
    }
}

/// Converts an address of `pci_types`.
fn here(address: PciAddress) -> Address {
    let devfn = address.device() << 3 | address.function() & 7;
    Address::from_devfn(address.segment().into(), address.bus(), devfn)
}

impl TryFrom<Address> for PciAddress {
    type Error = TryFromIntError;

    /// Fails for a segment above 16 bits, which `pci_types` cannot represent.
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
