//! Address of a function.

use core::fmt;
use core::str::FromStr;

use thiserror::Error;

/// Address of a function: segment, bus, device, function.
///
/// Device and function share one byte, as on the bus (PCI Express Base, 7.2.2). It has five bits
/// and three, or eight bits of function for a device with ARI. Addresses sort in scan order, and
/// are written as in Linux: `0000:00:1f.2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    segment: u32,
    bus: u8,
    devfn: u8,
}

impl Address {
    /// Creates the address of a function in segment 0; `None` if `device` is above 31 or `function`
    /// above 7.
    pub const fn new(bus: u8, device: u8, function: u8) -> Option<Self> {
        if device > 31 || function > 7 {
            return None;
        }
        Some(Self::from_devfn(0, bus, device << 3 | function))
    }

    /// Creates an address from `devfn`, which is `device * 8 + function`, or a function number of 0
    /// to 255 with ARI.
    pub const fn from_devfn(segment: u32, bus: u8, devfn: u8) -> Self {
        Self {
            segment,
            bus,
            devfn,
        }
    }

    /// Returns the same address in another segment (ACPI's segment group, Linux's domain).
    ///
    /// Firmware numbers segments with 16 bits. Linux numbers the segments of its own drivers from
    /// 0x10000.
    pub const fn in_segment(self, segment: u32) -> Self {
        Self { segment, ..self }
    }

    /// Returns the segment.
    pub const fn segment(self) -> u32 {
        self.segment
    }

    /// Returns the bus in its segment.
    pub const fn bus(self) -> u8 {
        self.bus
    }

    /// Returns the device on its bus, 0 to 31.
    pub const fn device(self) -> u8 {
        self.devfn >> 3
    }

    /// Returns the function of its device, 0 to 7.
    pub const fn function(self) -> u8 {
        self.devfn & 7
    }

    /// Returns device and function in one byte.
    pub const fn devfn(self) -> u8 {
        self.devfn
    }

    /// Returns the offset of this function's 4 KiB in an ECAM window that starts at bus 0 (PCI
    /// Express Base, 7.2.2, "Enhanced Configuration Access Mechanism").
    pub const fn ecam_offset(self) -> usize {
        (self.bus as usize) << 20 | (self.devfn as usize) << 12
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment, bus, .. } = self;
        let (device, function) = (self.device(), self.function());
        write!(f, "{segment:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

/// Error: the text is not an [`Address`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a PCI address such as 0000:00:1f.2 or 00:1f.2, in hexadecimal")]
pub struct BadAddress;

impl FromStr for Address {
    type Err = BadAddress;

    /// Parses the format of Linux and lspci, with or without the segment.
    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let hex = |text: &str, longest: usize| -> Result<u32, BadAddress> {
            let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
            if text.len() > longest || !digits {
                return Err(BadAddress);
            }
            u32::from_str_radix(text, 16).map_err(|_| BadAddress)
        };
        let (rest, function) = text.rsplit_once('.').ok_or(BadAddress)?;
        let (rest, device) = rest.rsplit_once(':').ok_or(BadAddress)?;
        let (segment, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
        let small = |text| hex(text, 2).map(|number| number as u8);
        let address = Self::new(small(bus)?, small(device)?, small(function)?);
        Ok(address.ok_or(BadAddress)?.in_segment(hex(segment, 8)?))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    proptest! {
        #[test]
        fn an_address_is_read_as_it_is_written(segment: u32, bus: u8, devfn: u8) {
            let address = Address::from_devfn(segment, bus, devfn);
            prop_assert_eq!(address.to_string().parse(), Ok(address));
            let short = address.in_segment(0);
            prop_assert_eq!(short.to_string()[5..].parse(), Ok(short));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[0-9a-f:.+ ]{0,16}") {
            let _ = text.parse::<Address>();
        }
    }

    #[test]
    fn there_are_32_devices_of_8_functions() {
        assert!(Address::new(255, 31, 7).is_some());
        assert_eq!(Address::new(0, 32, 0), None);
        assert_eq!(Address::new(0, 0, 8), None);
        for text in [
            "",
            "00:20.0",
            "00:00.8",
            "0:0",
            "00.0",
            "100000000:00:00.0",
            "00:00:+0.0",
            "000:00.0",
        ] {
            assert_eq!(text.parse::<Address>(), Err(BadAddress), "{text}");
        }
    }
}
