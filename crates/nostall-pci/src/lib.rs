//! PCI configuration space without stalls.

#![no_std]
// Two adapters implement traits that have unsafe methods.
#![deny(unsafe_code)]

#[cfg(feature = "std")]
extern crate std;

mod access;
mod address;
mod ari;
mod assign;
mod bar;
mod bridge;
mod bus_set;
mod capability;
pub mod device_tree;
#[cfg(feature = "std")]
pub mod dump;
mod ecam;
mod environment;
mod function;
pub mod mcfg;
#[cfg(feature = "std")]
mod names;
mod one_bus;
#[cfg(feature = "pci_types")]
mod pci_types;
mod ports;
#[cfg(feature = "std")]
mod recorded;
pub mod registers;
mod scan;
mod selector;
#[cfg(all(feature = "std", unix))]
pub mod sysfs;
#[cfg(feature = "virtio-drivers")]
mod virtio;
mod window;
mod windows;

pub use access::{AccessError, ConfigAccess, REGISTERS, Width};
pub use address::{Address, BadAddress};
pub use assign::{AssignFault, Assigned, BadRanges, Decoding, Ranges, assign};
pub use bar::{Bar, BarFault, BarKind, Bars, bars, bars_as_set};
pub use capability::{
    Capabilities, Capability, CapabilityFault, Express, ExtendedCapabilities, ExtendedCapability,
    PortType,
};
#[cfg(feature = "std")]
pub use dump::Dump;
pub use ecam::{BUS, Ecam};
pub use environment::{Environment, Signature};
pub use function::{Buses, Class, Function, Header, Interrupt, Subsystem, Unread};
#[cfg(feature = "std")]
pub use names::Names;
pub use ports::{PORT, PORTS, Ports};
pub use scan::{BusFault, Scan, ScanFault};
pub use selector::{Choice, Known, Policy, Selector};
#[cfg(all(feature = "std", unix))]
pub use sysfs::Sysfs;
pub use windows::Windows;

#[cfg(feature = "pci_types")]
pub use self::pci_types::PciTypes;
#[cfg(feature = "virtio-drivers")]
pub use self::virtio::VirtioDrivers;
