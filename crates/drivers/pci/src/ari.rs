//! Alternative Routing-ID Interpretation: one device with up to 256 functions.

use crate::capability::{Capabilities, CapabilityFault, ExtendedCapabilities, ExtendedCapability};
use crate::registers::{
    ARI_CAPABILITY, EXPRESS_ARI_ENABLE, EXPRESS_ARI_SUPPORTED, EXPRESS_DEVICE_CAPABILITIES_2,
    EXPRESS_DEVICE_CONTROL_2,
};
use crate::{Address, ConfigAccess, Express, Function};

/// Handling of ports that support ARI forwarding but have it disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ari {
    /// Leaves forwarding as it is.
    AsFound,
    /// Enables forwarding if the device below uses it.
    Enable,
}

/// Returns the next function of the device after `function`, 0 for none; `None` if the function has
/// no ARI.
pub(crate) fn next_function<A: ConfigAccess>(
    access: &A,
    function: &Function,
) -> Result<Option<u8>, CapabilityFault> {
    for capability in ExtendedCapabilities::new(access, function) {
        let capability = capability?;
        if capability.id == ExtendedCapability::ARI {
            let at = capability.register + ARI_CAPABILITY;
            let word = access.at(function.address).read16(at)?;
            return Ok(Some((word >> 8) as u8));
        }
    }
    Ok(None)
}

/// Returns whether `port`, with the capability `express`, forwards all function numbers to the bus
/// `secondary`. Enables forwarding if `ari` requires it.
pub(crate) fn forwarding<A: ConfigAccess>(
    access: &A,
    port: &Function,
    express: &Express,
    secondary: u8,
    ari: Ari,
) -> Result<bool, CapabilityFault> {
    // Version 2 added the second set of registers. It must be within the first 256 bytes.
    let control = express.register + EXPRESS_DEVICE_CONTROL_2;
    if express.version < 2 || control > 0xfe {
        return Ok(false);
    }
    let at = access.at(port.address);
    let set = at.read16(control)?;
    if set == 0xffff {
        return Err(CapabilityFault::Vanished);
    }
    if set & EXPRESS_ARI_ENABLE != 0 || ari == Ari::AsFound {
        return Ok(set & EXPRESS_ARI_ENABLE != 0);
    }
    let can = at.read32(express.register + EXPRESS_DEVICE_CAPABILITIES_2)?;
    if can & EXPRESS_ARI_SUPPORTED == 0 || !wanted(access, port, secondary)? {
        return Ok(false);
    }
    at.write16(control, set | EXPRESS_ARI_ENABLE)?;
    Ok(true)
}

/// Returns whether function 0 below `port` has the ARI capability. Forwarding may be enabled only
/// then (PCI Express Base, 6.13).
fn wanted<A: ConfigAccess>(
    access: &A,
    port: &Function,
    secondary: u8,
) -> Result<bool, CapabilityFault> {
    let below = access.at(Address::from_devfn(port.address.segment(), secondary, 0));
    if !below.reaches(0) {
        return Ok(false);
    }
    match Function::read(below) {
        // The scan reports the fault when it reaches the device.
        Ok(None) | Err(_) => Ok(false),
        Ok(Some(device)) => {
            let express = Capabilities::new(access, &device).find(crate::Capability::PCIE);
            Ok(express.is_some() && matches!(next_function(access, &device), Ok(Some(_))))
        }
    }
}
