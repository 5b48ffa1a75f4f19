//! A function's header.

use core::fmt;

use thiserror::Error;

use crate::registers::{
    CACHE_LINE_SIZE, CARDBUS_SUBSYSTEM_VENDOR_ID, HEADER_MULTI_FUNCTION, INTERRUPT_LINE,
    PRIMARY_BUS, REVISION_ID, SUBSYSTEM_VENDOR_ID, VENDOR_ID,
};
use crate::{AccessError, Address, At, ConfigAccess};

/// A present function, from its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Address.
    pub address: Address,
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID, assigned by the vendor.
    pub device: u16,
    /// Revision ID.
    pub revision: u8,
    /// Class code.
    pub class: Class,
    /// Header type, with the fields of that type.
    pub header: Header,
    /// Set if the device reports several functions. Only function 0 must report it.
    pub multi_function: bool,
    /// Interrupt line.
    pub interrupt: Interrupt,
}

impl Function {
    /// Reads the header of the function at an address in five accesses, that of a CardBus bridge in
    /// six. One more access checks a value of all ones. Returns `None` after one access if the
    /// function is absent.
    ///
    /// A function is absent if its vendor reads 0xffff (PCI 3.0, 6.1: no answer). It is also absent
    /// if the register reads 0x0000_0000 or 0xffff_0000, as broken boards do without an answer.
    ///
    /// # Errors
    ///
    /// [`Unread`] if a function may exist but its header could not be read.
    pub fn read<A: ConfigAccess>(at: At<'_, A>) -> Result<Option<Self>, Unread> {
        let id = at.read32(VENDOR_ID)?;
        if !Self::is_there(id) {
            return Ok(None);
        }
        Self::read_header(at, id).map(Some)
    }

    /// Reads the header of a function from a list, such as a host's or a dump's.
    ///
    /// A virtual function is found even if its vendor and device read all ones (PCI Express
    /// Base, 9.3.4.1.1). A scan must not do the same: virtual functions are found through the
    /// capability of their physical function.
    ///
    /// # Errors
    ///
    /// [`Unread`] if a function may exist but its header could not be read.
    pub fn read_listed<A: ConfigAccess>(at: At<'_, A>) -> Result<Option<Self>, Unread> {
        let id = at.read32(VENDOR_ID)?;
        let is_virtual = id == !0 && at.read32(REVISION_ID)? != !0;
        if !is_virtual && !Self::is_there(id) {
            return Ok(None);
        }
        Self::read_header(at, id).map(Some)
    }

    fn read_header<A: ConfigAccess>(at: At<'_, A>, id: u32) -> Result<Self, Unread> {
        // The rest of the word is all ones in this case (PCI Express Base, 2.3.2).
        if id as u16 == 0x0001 {
            return Err(Unread::NotReady);
        }
        let class = at.read32(REVISION_ID)?;
        let kind = at.read32(CACHE_LINE_SIZE)?;
        let interrupt = at.read32(INTERRUPT_LINE)?;
        let [_, _, kind_byte, _] = kind.to_le_bytes();
        let (header, own) = Header::read(at, kind_byte & !HEADER_MULTI_FUNCTION)?;
        // The function answered the first access. Later all ones may be values or a missing answer.
        let doubtful = [class, kind, interrupt, own].contains(&!0);
        if doubtful && at.read32(VENDOR_ID)? != id {
            return Err(Unread::Vanished);
        }
        let [line, pin, ..] = interrupt.to_le_bytes();
        Ok(Self {
            address: at.address,
            vendor: id as u16,
            device: (id >> 16) as u16,
            revision: class as u8,
            class: Class(class >> 8),
            header,
            multi_function: kind_byte & HEADER_MULTI_FUNCTION != 0,
            interrupt: Interrupt { line, pin },
        })
    }

    /// Returns whether a function has this first word.
    pub(crate) const fn is_there(id: u32) -> bool {
        id as u16 != 0xffff && !matches!(id, 0x0000_0000 | 0xffff_0000)
    }

    /// Returns the bus numbers of a bridge to PCI or CardBus.
    pub const fn buses(&self) -> Option<Buses> {
        match self.header {
            Header::Bridge(buses) | Header::CardBus { buses, .. } => Some(buses),
            Header::Endpoint(_) | Header::Unknown(_) => None,
        }
    }

    /// Returns whether it is the host bridge of its own bus. Some root ports have the same class,
    /// but another header type.
    pub const fn is_host_bridge(&self) -> bool {
        self.class.is_host_bridge() && self.buses().is_none()
    }

    /// Returns the subsystem. A bridge may have it in a capability instead.
    pub const fn subsystem(&self) -> Option<Subsystem> {
        match self.header {
            Header::Endpoint(subsystem) | Header::CardBus { subsystem, .. } => Some(subsystem),
            Header::Bridge(_) | Header::Unknown(_) => None,
        }
    }
}

impl fmt::Display for Function {
    /// Writes the function as `lspci -nD` does: address, class, vendor and device.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            class,
            vendor,
            device,
            ..
        } = self;
        write!(f, "{address} {class}: {vendor:04x}:{device:04x}")
    }
}

/// Class Code, 24 bits (PCI Code and ID Assignment Specification 1.11, 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(u32);

impl Class {
    /// Combines the three numbers.
    pub const fn new(base: u8, sub: u8, interface: u8) -> Self {
        Self(u32::from_be_bytes([0, base, sub, interface]))
    }

    /// Returns the base class, for example 0x02 for network controllers.
    pub const fn base(self) -> u8 {
        (self.0 >> 16) as u8
    }

    /// Returns the sub-class, for example 0x00 of 0x02 for Ethernet.
    pub const fn sub(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Returns the programming interface, if the sub-class has several.
    pub const fn interface(self) -> u8 {
        self.0 as u8
    }

    /// Returns whether this is the class of host bridges, which connect the CPUs to this bus. See
    /// [`Function::is_host_bridge`].
    pub const fn is_host_bridge(self) -> bool {
        self.base() == 0x06 && self.sub() == 0x00
    }
}

impl fmt::Display for Class {
    /// Writes base class and sub-class as lspci does: `0200`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}{:02x}", self.base(), self.sub())
    }
}

/// Header type (PCI 3.0, 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Header {
    /// Type 0: functions that are not bridges, and host bridges.
    Endpoint(Subsystem),
    /// Type 1: a bridge to another PCI bus, or a PCI Express port.
    Bridge(Buses),
    /// Type 2: a bridge to CardBus.
    CardBus {
        /// Bus numbers, as in a bridge.
        buses: Buses,
        /// Subsystem, as in an endpoint.
        subsystem: Subsystem,
    },
    /// A type that is not defined by any specification.
    Unknown(u8),
}

impl Header {
    /// Reads the fields of a header type. Also returns the word that was read.
    fn read<A: ConfigAccess>(at: At<'_, A>, kind: u8) -> Result<(Self, u32), AccessError> {
        Ok(match kind {
            0 => {
                let own = at.read32(SUBSYSTEM_VENDOR_ID)?;
                (Self::Endpoint(Subsystem::of(own)), own)
            }
            1 => {
                let own = at.read32(PRIMARY_BUS)?;
                (Self::Bridge(Buses::of(own)), own)
            }
            2 => {
                let own = at.read32(PRIMARY_BUS)?;
                let subsystem = at.read32(CARDBUS_SUBSYSTEM_VENDOR_ID)?;
                let header = Self::CardBus {
                    buses: Buses::of(own),
                    subsystem: Subsystem::of(subsystem),
                };
                (header, own)
            }
            _ => (Self::Unknown(kind), 0),
        })
    }

    /// Returns the header type's number, 0 to 127.
    pub const fn number(self) -> u8 {
        match self {
            Self::Endpoint(_) => 0,
            Self::Bridge(_) => 1,
            Self::CardBus { .. } => 2,
            Self::Unknown(number) => number,
        }
    }
}

/// Bus numbers on both sides of a bridge, as in its registers (Bridge Architecture 1.2, 3.2.5.2).
/// They may be invalid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buses {
    /// Bus of the bridge.
    pub primary: u8,
    /// Bus directly below the bridge.
    pub secondary: u8,
    /// Last bus below the bridge.
    pub subordinate: u8,
}

impl Buses {
    const fn of(word: u32) -> Self {
        let [primary, secondary, subordinate, _] = word.to_le_bytes();
        Self {
            primary,
            secondary,
            subordinate,
        }
    }
}

impl fmt::Display for Buses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            primary,
            secondary,
            subordinate,
        } = self;
        write!(f, "{primary:02x} to {secondary:02x}-{subordinate:02x}")
    }
}

/// Vendor and device number of the board that has a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subsystem {
    /// Vendor ID of the board; 0 if it is not given.
    pub vendor: u16,
    /// Device number of the subsystem.
    pub device: u16,
}

impl Subsystem {
    const fn of(word: u32) -> Self {
        Self {
            vendor: word as u16,
            device: (word >> 16) as u16,
        }
    }
}

/// Wiring of a function's interrupt line (PCI 3.0, 6.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Value set by firmware: on a PC, the input of the interrupt controller, 255 for none.
    pub line: u8,
    /// Interrupt pin: 1 to 4 for INTA# to INTD#, 0 for none.
    pub pin: u8,
}

/// Reason for which a header was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unread {
    /// An access could not be made.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The function is not ready after a reset (vendor 0x0001: PCI Express Base, 2.3.2). Retry
    /// for up to a second.
    #[error("not ready yet after a reset; ask again")]
    NotReady,
    /// The function disappeared during the read.
    #[error("vanished while it was looked at")]
    Vanished,
}
