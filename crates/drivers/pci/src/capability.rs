//! Capability lists.

use core::fmt;

use thiserror::Error;

use crate::registers::{
    CAPABILITIES_POINTER, CARDBUS_CAPABILITIES_POINTER, FIRST_CAPABILITY,
    FIRST_EXTENDED_CAPABILITY, STATUS, STATUS_CAPABILITIES,
};
use crate::{AccessError, At, ConfigAccess, Function, Header};

/// A capability with its own registers (PCI 3.0, 6.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// Capability ID (PCI Code and ID Assignment Specification 1.11, 2).
    pub id: u8,
    /// First register.
    pub register: u16,
    /// The 16 bits after ID and pointer; the main register of most capabilities.
    pub word: u16,
}

impl Capability {
    /// ID of the PCI Express capability.
    pub const PCIE: u8 = 0x10;

    /// Returns a short, stable name such as `msi` or `pcie`; `None` for an unassigned ID.
    pub const fn name(&self) -> Option<&'static str> {
        // PCI Code and ID Assignment Specification 1.11, 2.
        Some(match self.id {
            0x00 => "null",
            0x01 => "pm",
            0x02 => "agp",
            0x03 => "vpd",
            0x04 => "slot-id",
            0x05 => "msi",
            0x06 => "compact-pci-hot-swap",
            0x07 => "pci-x",
            0x08 => "hypertransport",
            0x09 => "vendor",
            0x0a => "debug-port",
            0x0b => "compact-pci-control",
            0x0c => "hot-plug",
            0x0d => "bridge-subsystem",
            0x0e => "agp-8x",
            0x0f => "secure-device",
            0x10 => "pcie",
            0x11 => "msi-x",
            0x12 => "sata",
            0x13 => "advanced-features",
            0x14 => "enhanced-allocation",
            0x15 => "flattening-portal-bridge",
            _ => return None,
        })
    }
}

/// Registers of a list that were visited, and the next one. `WORDS` words hold a bit for each
/// register that is a multiple of 4.
#[derive(Clone, Debug)]
struct List<const WORDS: usize> {
    /// Next register; 0 at the end.
    next: u16,
    visited: [u32; WORDS],
}

impl<const WORDS: usize> List<WORDS> {
    const fn new(next: u16) -> Self {
        Self {
            next,
            visited: [0; WORDS],
        }
    }

    /// Takes the next register, which is `first` or later; `None` at the end.
    fn take(&mut self, first: u16) -> Result<Option<u16>, CapabilityFault> {
        let at = core::mem::take(&mut self.next);
        if at == 0 {
            return Ok(None);
        }
        if at < first {
            return Err(CapabilityFault::InHeader(at));
        }
        let (word, bit) = (usize::from(at / 128), 1 << (at / 4 % 32));
        if self.visited[word] & bit != 0 {
            return Err(CapabilityFault::Loop(at));
        }
        self.visited[word] |= bit;
        Ok(Some(at))
    }
}

/// Iterator over a function's capabilities, in the order of the list.
///
/// Takes two accesses, and one for each capability. A list that cannot be followed ends with a
/// fault.
#[derive(Clone, Debug)]
pub struct Capabilities<'a, A> {
    at: At<'a, A>,
    /// Register that holds the start of the list, before the first step.
    pointer: Option<u16>,
    /// List in the first 256 registers.
    list: List<2>,
}

impl<'a, A: ConfigAccess> Capabilities<'a, A> {
    /// Creates an iterator over the capabilities of `function`. Makes no access.
    pub fn new(access: &'a A, function: &Function) -> Self {
        Self {
            at: access.at(function.address),
            pointer: match function.header {
                Header::Endpoint(_) | Header::Bridge(_) => Some(CAPABILITIES_POINTER),
                Header::CardBus { .. } => Some(CARDBUS_CAPABILITIES_POINTER),
                Header::Unknown(_) => None,
            },
            list: List::new(0),
        }
    }

    /// Returns the first capability with this ID, if no fault comes before it.
    pub fn find(mut self, id: u8) -> Option<Capability> {
        self.find_map(|one| one.ok().filter(|one| one.id == id))
    }

    /// Reads the start of the list; 0 if there is none.
    fn head(&self, pointer: u16) -> Result<u16, CapabilityFault> {
        let status = self.at.read16(STATUS)?;
        if status == 0xffff {
            return Err(CapabilityFault::Vanished);
        }
        if status & STATUS_CAPABILITIES == 0 {
            return Ok(0);
        }
        // The lower two bits are reserved (PCI 3.0, 6.7).
        Ok((self.at.read8(pointer)? & 0xfc).into())
    }

    fn step(&mut self) -> Result<Option<Capability>, CapabilityFault> {
        if let Some(pointer) = self.pointer.take() {
            self.list.next = self.head(pointer)?;
        }
        let Some(register) = self.list.take(FIRST_CAPABILITY)? else {
            return Ok(None);
        };
        let word = self.at.read32(register)?;
        if word == !0 {
            return Err(CapabilityFault::Vanished);
        }
        let [id, next, ..] = word.to_le_bytes();
        self.list.next = (next & 0xfc).into();
        Ok(Some(Capability {
            id,
            register,
            word: (word >> 16) as u16,
        }))
    }
}

impl<A: ConfigAccess> Iterator for Capabilities<'_, A> {
    type Item = Result<Capability, CapabilityFault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// An extended capability, in the registers above 255 (PCI Express Base, 7.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedCapability {
    /// Extended capability ID (PCI Code and ID Assignment Specification 1.11, 3).
    pub id: u16,
    /// Version, 0 to 15.
    pub version: u8,
    /// First register.
    pub register: u16,
}

impl ExtendedCapability {
    /// ID of Alternative Routing-ID Interpretation.
    pub const ARI: u16 = 0x000e;
    /// ID of Single Root I/O Virtualization.
    pub const SR_IOV: u16 = 0x0010;

    /// Returns a short, stable name; `None` for an unassigned ID.
    pub const fn name(&self) -> Option<&'static str> {
        // PCI Code and ID Assignment Specification 1.11, 3.
        Some(match self.id {
            0x0000 => "null",
            0x0001 => "aer",
            0x0002 => "virtual-channel",
            0x0003 => "serial-number",
            0x0004 => "power-budget",
            0x0005 => "root-complex-link",
            0x0006 => "root-complex-internal-link",
            0x0007 => "root-complex-event-collector",
            0x0008 => "multi-function-virtual-channel",
            0x0009 => "virtual-channel-9",
            0x000a => "root-complex-registers",
            0x000b => "vendor",
            0x000c => "configuration-access",
            0x000d => "acs",
            0x000e => "ari",
            0x000f => "ats",
            0x0010 => "sr-iov",
            0x0011 => "mr-iov",
            0x0012 => "multicast",
            0x0013 => "page-request",
            0x0014 => "amd",
            0x0015 => "resizable-bar",
            0x0016 => "dynamic-power",
            0x0017 => "tph",
            0x0018 => "ltr",
            0x0019 => "secondary-pcie",
            0x001a => "protocol-multiplexing",
            0x001b => "pasid",
            0x001c => "ln-requester",
            0x001d => "dpc",
            0x001e => "l1-pm",
            0x001f => "ptm",
            0x0020 => "m-pcie",
            0x0021 => "frs-queueing",
            0x0022 => "readiness-time",
            0x0023 => "designated-vendor",
            0x0024 => "vf-resizable-bar",
            0x0025 => "data-link-feature",
            0x0026 => "physical-layer-16",
            0x0027 => "lane-margining",
            0x0028 => "hierarchy-id",
            0x0029 => "native-pcie-enclosure",
            0x002a => "physical-layer-32",
            0x002b => "alternate-protocol",
            0x002c => "system-firmware-intermediary",
            0x002d => "shadow-functions",
            0x002e => "data-object-exchange",
            0x002f => "device-3",
            0x0030 => "ide",
            _ => return None,
        })
    }
}

/// Iterator over a function's extended capabilities, in the order of the list. Takes one access for
/// each.
///
/// There are none if the method does not reach register 256, if nothing answers there, or if an old
/// bridge repeats the header there.
#[derive(Clone, Debug)]
pub struct ExtendedCapabilities<'a, A> {
    at: At<'a, A>,
    /// Value of register 0, to identify an old bridge.
    id: u32,
    list: List<32>,
}

impl<'a, A: ConfigAccess> ExtendedCapabilities<'a, A> {
    /// Creates an iterator over the extended capabilities of `function`. Makes no access.
    pub fn new(access: &'a A, function: &Function) -> Self {
        let at = access.at(function.address);
        let is_there = at.reaches(FIRST_EXTENDED_CAPABILITY);
        Self {
            at,
            id: u32::from(function.device) << 16 | u32::from(function.vendor),
            list: List::new(if is_there {
                FIRST_EXTENDED_CAPABILITY
            } else {
                0
            }),
        }
    }

    /// Returns the first capability with this ID, if no fault comes before it.
    pub fn find(mut self, id: u16) -> Option<ExtendedCapability> {
        self.find_map(|one| one.ok().filter(|one| one.id == id))
    }

    fn step(&mut self) -> Result<Option<ExtendedCapability>, CapabilityFault> {
        let Some(register) = self.list.take(FIRST_EXTENDED_CAPABILITY)? else {
            return Ok(None);
        };
        let header = self.at.read32(register)?;
        let none = register == FIRST_EXTENDED_CAPABILITY && (header == !0 || header == self.id);
        // A zero word ends a list anywhere: no capability, and no next one.
        if none || header == 0 {
            return Ok(None);
        }
        if header == !0 {
            return Err(CapabilityFault::Vanished);
        }
        // The lower two bits of the pointer are reserved (PCI Express Base, 7.6.3).
        self.list.next = (header >> 20) as u16 & 0xffc;
        Ok(Some(ExtendedCapability {
            id: header as u16,
            version: (header >> 16) as u8 & 0xf,
            register,
        }))
    }
}

impl<A: ConfigAccess> Iterator for ExtendedCapabilities<'_, A> {
    type Item = Result<ExtendedCapability, CapabilityFault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// Fault of a capability list. It ends the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CapabilityFault {
    /// The list returns to this register.
    #[error("the list of capabilities loops to {0:#x}")]
    Loop(u16),
    /// The list points to this register, where this kind of capability cannot be.
    #[error("the list of capabilities points to {0:#x}, where there is none")]
    InHeader(u16),
    /// The function no longer answers.
    #[error("vanished while its capabilities were read")]
    Vanished,
    /// The access could not be made.
    #[error(transparent)]
    Access(#[from] AccessError),
}

/// Main register of the PCI Express capability, decoded (PCI Express Base, 7.5.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Express {
    /// First register of the capability.
    pub register: u16,
    /// Version. From 2, it has the second set of registers.
    pub version: u8,
    /// Role in the PCI Express tree.
    pub port: PortType,
    /// Set if a port leads to a slot instead of a soldered device.
    pub slot: bool,
}

impl Express {
    /// Decodes `capability`; `None` if it is another one. Makes no access.
    pub const fn of(capability: &Capability) -> Option<Self> {
        if capability.id != Capability::PCIE {
            return None;
        }
        let port = PortType::of((capability.word >> 4) as u8 & 0xf);
        Some(Self {
            register: capability.register,
            version: capability.word as u8 & 0xf,
            port,
            slot: capability.word & 1 << 8 != 0
                && matches!(port, PortType::RootPort | PortType::DownstreamPort),
        })
    }
}

/// Role of a function in the PCI Express tree (PCI Express Base, 7.5.3.2, "Device/Port Type").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortType {
    /// A device on a link.
    Endpoint,
    /// An endpoint with features of older PCI versions, such as I/O space.
    LegacyEndpoint,
    /// A root complex's port to a link.
    RootPort,
    /// A switch's port towards the root.
    UpstreamPort,
    /// A switch's port away from the root.
    DownstreamPort,
    /// A bridge from PCI Express to PCI or PCI-X.
    ToPci,
    /// A bridge from PCI or PCI-X to PCI Express.
    FromPci,
    /// A device inside the root complex.
    RootComplexEndpoint,
    /// Collector of the errors of root complex endpoints.
    EventCollector,
    /// A number that is not assigned.
    Unknown(u8),
}

impl fmt::Display for PortType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Endpoint => "an endpoint",
            Self::LegacyEndpoint => "a legacy endpoint",
            Self::RootPort => "a root port",
            Self::UpstreamPort => "an upstream port",
            Self::DownstreamPort => "a downstream port",
            Self::ToPci => "a bridge to PCI",
            Self::FromPci => "a bridge from PCI",
            Self::RootComplexEndpoint => "a root complex endpoint",
            Self::EventCollector => "an event collector",
            Self::Unknown(number) => return write!(f, "of the unknown type {number}"),
        })
    }
}

impl PortType {
    const fn of(number: u8) -> Self {
        match number {
            0 => Self::Endpoint,
            1 => Self::LegacyEndpoint,
            4 => Self::RootPort,
            5 => Self::UpstreamPort,
            6 => Self::DownstreamPort,
            7 => Self::ToPci,
            8 => Self::FromPci,
            9 => Self::RootComplexEndpoint,
            10 => Self::EventCollector,
            _ => Self::Unknown(number),
        }
    }

    /// Returns the reason why a port cannot have this type on a bus below a port of type `above`;
    /// `None` if it can.
    ///
    /// Some switches report a wrong type. A downstream port cannot be on a link, and an upstream
    /// port cannot be inside a switch. Each is treated as the other, as in Linux's
    /// `set_pcie_port_type`. Types that Linux accepts are accepted.
    pub const fn wrong_below(self, above: Self) -> Option<WrongPort> {
        let is = match (self, above) {
            (Self::DownstreamPort, above) if above.leads_to_a_link() => Self::UpstreamPort,
            (Self::UpstreamPort, Self::UpstreamPort) => Self::DownstreamPort,
            _ => return None,
        };
        Some(WrongPort { says: self, is })
    }

    /// Returns a description of the ports below which a port of this type cannot be.
    const fn never_below(self) -> &'static str {
        match self {
            Self::UpstreamPort => "a downstream or root port",
            _ => "an upstream port",
        }
    }

    /// Returns whether the bus below is a link, which has only device 0 (PCI Express Base, 7.3.1).
    pub const fn leads_to_a_link(self) -> bool {
        matches!(self, Self::RootPort | Self::DownstreamPort | Self::FromPci)
    }
}

/// Port type that is impossible at its place ([`PortType::wrong_below`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("says that it is {says}, which cannot be below {}: taken for {is}", .is.never_below())]
pub struct WrongPort {
    /// Type in the port's register.
    pub says: PortType,
    /// Type that is assumed instead.
    pub is: PortType,
}
