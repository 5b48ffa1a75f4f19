//! A PCI function in the form of a report.

use core::hash::Hash;

use nostall_pci::registers::FIRST_EXTENDED_CAPABILITY;
use nostall_pci::{
    Address, Bar, BarKind, Bars, BridgeWindows, Buses, Capability, Class, ExtendedCapability,
    Function, Header, Interrupt, Subsystem,
};
use serde::{Deserialize, Serialize};

/// A function that was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FoundFunction {
    /// PCI segment.
    pub segment: u32,
    /// Bus number.
    pub bus: u8,
    /// Device number in bits 7:3, function number in bits 2:0.
    pub devfn: u8,
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Revision ID.
    pub revision: u8,
    /// Base class, sub-class and programming interface, in 24 bits.
    pub class: u32,
    /// Header type.
    pub header: u8,
    /// Whether the device reports several functions.
    pub multi_function: bool,
    /// Subsystem vendor and device ID.
    pub subsystem: Option<(u16, u16)>,
    /// Primary, secondary and subordinate bus of a bridge.
    pub buses: Option<(u8, u8, u8)>,
    /// First and last address of a bridge's windows: I/O, memory and prefetchable memory.
    pub windows: [Option<(u64, u64)>; 3],
    /// Interrupt line and pin.
    pub interrupt: (u8, u8),
    /// BARs that could be sized.
    pub bars: heapless::Vec<FoundBar, 7>,
}

/// A base address register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FoundBar {
    /// Offset of its first register.
    pub register: u16,
    /// Kind of address range.
    pub kind: FoundBarKind,
    /// Number of address bits that it decodes.
    pub bits: u8,
    /// Address of the range.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
}

/// Kind of a BAR's address range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FoundBarKind {
    /// I/O space.
    Io,
    /// Memory.
    Memory,
    /// Prefetchable memory.
    Prefetchable,
    /// Expansion ROM.
    Rom,
}

/// A capability or extended capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FoundCapability {
    /// Offset of its first register; above 255 for an extended capability.
    pub register: u16,
    /// Capability ID.
    pub id: u16,
    /// The 16 bits after ID and next pointer, or an extended capability's version.
    pub word: u16,
}

impl FoundFunction {
    /// Collects the fields of a function's header, windows and BARs.
    pub fn new(function: &Function, windows: &BridgeWindows, bars: &Bars) -> Self {
        let windows = [&windows.io, &windows.memory, &windows.prefetchable];
        let Function { address, .. } = function;
        Self {
            segment: address.segment(),
            bus: address.bus(),
            devfn: address.devfn(),
            vendor: function.vendor,
            device: function.device,
            revision: function.revision,
            class: u32::from_be_bytes([
                0,
                function.class.base(),
                function.class.sub(),
                function.class.interface(),
            ]),
            header: function.header.number(),
            multi_function: function.multi_function,
            subsystem: function.subsystem().map(|s| (s.vendor, s.device)),
            buses: function
                .buses()
                .map(|b| (b.primary, b.secondary, b.subordinate)),
            windows: windows.map(|range| Some((*range.as_ref()?.start(), *range.as_ref()?.end()))),
            interrupt: (function.interrupt.line, function.interrupt.pin),
            bars: bars.good().map(FoundBar::from).collect(),
        }
    }

    /// Returns the fields of the function's header.
    pub fn function(&self) -> Function {
        let [_, base, sub, interface] = self.class.to_be_bytes();
        let (line, pin) = self.interrupt;
        let (vendor, device) = self.subsystem.unwrap_or_default();
        let subsystem = Subsystem { vendor, device };
        let (primary, secondary, subordinate) = self.buses.unwrap_or_default();
        let buses = Buses {
            primary,
            secondary,
            subordinate,
        };
        Function {
            address: self.address(),
            vendor: self.vendor,
            device: self.device,
            revision: self.revision,
            class: Class::new(base, sub, interface),
            header: match self.header {
                0 => Header::Endpoint(subsystem),
                1 => Header::Bridge(buses),
                2 => Header::CardBus { buses, subsystem },
                other => Header::Unknown(other),
            },
            multi_function: self.multi_function,
            interrupt: Interrupt { line, pin },
        }
    }

    /// Returns the function's windows.
    pub fn windows(&self) -> BridgeWindows {
        let [io, memory, prefetchable] = self
            .windows
            .map(|range| range.map(|(first, last)| first..=last));
        BridgeWindows {
            io,
            memory,
            prefetchable,
        }
    }

    /// Returns the function's address.
    pub const fn address(&self) -> Address {
        Address::from_devfn(self.segment, self.bus, self.devfn)
    }
}

impl From<Bar> for FoundBar {
    fn from(bar: Bar) -> Self {
        Self {
            register: bar.register,
            kind: match bar.kind {
                BarKind::Io => FoundBarKind::Io,
                BarKind::Memory => FoundBarKind::Memory,
                BarKind::Prefetchable => FoundBarKind::Prefetchable,
                BarKind::Rom => FoundBarKind::Rom,
            },
            bits: bar.bits,
            address: bar.address,
            size: bar.size.unwrap_or(0),
        }
    }
}

impl From<FoundBar> for Bar {
    fn from(bar: FoundBar) -> Self {
        Self {
            register: bar.register,
            kind: match bar.kind {
                FoundBarKind::Io => BarKind::Io,
                FoundBarKind::Memory => BarKind::Memory,
                FoundBarKind::Prefetchable => BarKind::Prefetchable,
                FoundBarKind::Rom => BarKind::Rom,
            },
            bits: bar.bits,
            address: bar.address,
            size: Some(bar.size),
        }
    }
}

impl FoundCapability {
    /// Returns the capability; `None` if it is an extended one.
    pub fn capability(&self) -> Option<Capability> {
        (self.register < FIRST_EXTENDED_CAPABILITY).then_some(Capability {
            id: self.id as u8,
            register: self.register,
            word: self.word,
        })
    }

    /// Returns the extended capability; `None` if it is not one.
    pub fn extended(&self) -> Option<ExtendedCapability> {
        (self.register >= FIRST_EXTENDED_CAPABILITY).then_some(ExtendedCapability {
            id: self.id,
            version: self.word as u8,
            register: self.register,
        })
    }
}

impl From<Capability> for FoundCapability {
    fn from(capability: Capability) -> Self {
        Self {
            register: capability.register,
            id: capability.id.into(),
            word: capability.word,
        }
    }
}

impl From<ExtendedCapability> for FoundCapability {
    fn from(capability: ExtendedCapability) -> Self {
        Self {
            register: capability.register,
            id: capability.id,
            word: capability.version.into(),
        }
    }
}
