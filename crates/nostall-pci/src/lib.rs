//! PCI configuration space without stalls: access to a function's registers, enumeration of the
//! buses, and assignment of addresses where no firmware has done it.
//!
//! Through a PC's ports a register takes two accesses and a lock, and in a virtual machine two
//! exits to the hypervisor. Through memory (ECAM) it takes one, or none where the hypervisor maps
//! the registers. [`Selector`] uses memory where that is known to be safe, and ports first on
//! bare metal. A scan makes five accesses for a function, and one for an absent one.
//!
//! Nothing here allocates, panics or recurses. No answer of a device, however wrong, makes
//! a walk longer than the bus numbers allow. Wrong answers are reported, and the walk goes on.
//!
//! - Access methods: [`ConfigAccess`]; [`ConfigPorts`], [`Ecam`]; both through [`Selector`]. ECAM
//!   windows are found by [`mcfg`] (ACPI) and [`device_tree`].
//! - Enumeration: [`Scan`], [`Function`], [`bars`], [`Capabilities`], [`ExtendedCapabilities`].
//! - Assignment of bus numbers, bridge windows and BARs: [`assign`]. If CPUs see the bus at other
//!   addresses, [`device_tree::Host::cpu_address`] translates.
//! - With `std`: a Linux host's devices, lspci's dumps, names.
//! - Adapters for other crates' traits: `PciTypes` and `VirtioDrivers`, features of the crates' names.
//!
//! When not to use it: if all you need is one device at a fixed place on a machine with ports,
//! `pci_types` and two `out` instructions serve you; and on Linux, processes have libpci.
//!
//! # Example
//!
//! A kernel that finds its network card. Here a model of a machine stands in for the ports
//! and the ECAM window:
//!
//! ```
//! use nostall_devices::pci::{Topology, VirtualBus};
//! use nostall_pci::{
//!     Capabilities, Decoding, Ecam, Environment, Known, Policy, ConfigPorts, Ranges, Scan, Selector,
//!     Signature, BarSlot, assign, bars,
//! };
//! use spin::mutex::SpinMutex;
//! # struct Cpu;
//! # impl nostall_io::Processor for Cpu {
//! #     fn id(&self) -> usize { 0 }
//! #     fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T { critical() }
//! # }
//!
//! let machine = VirtualBus::new(Topology::new(0..=255)?.bridge);
//! // In a kernel: unsafe { nostall_io::Ports::new(PORT, PORTS) }, and its own `Processor`.
//! let ports = ConfigPorts::<SpinMutex<()>, _, _>::new(machine.ports(), Cpu);
//! // In a kernel: unsafe { nostall_io::Mmio::new(window, size, MmioLayout::BYTES) }, of a
//! // window that `mcfg` or `device_tree` found and `Segment::validate` accepted.
//! let ecam = Ecam::new(machine.ecam(), 0, 0..=255);
//!
//! // In a kernel on x86_64: Environment::detect()
//! let here = Environment::Hypervisor(Signature::KVM);
//! let ports = ports.exist().then_some(ports);
//! let (access, why) = Selector::choose(ports, Some(ecam), Policy::of(here, Known::TABLE));
//! assert_eq!(
//!     why.to_string(),
//!     "ECAM first, ports for the rest; they agree about 0000:00:00.0"
//! );
//!
//! // Only where no firmware has done it: all devices change their places. A driver turns
//! // its device's decoding on when it is ready; bridges pass on from now on.
//! let ranges = Ranges {
//!     buses: 0..=255,
//!     io: 0x1000..0x1_0000,
//!     memory: 0xc000_0000..0xe000_0000,
//!     prefetchable: 0x80_0000_0000..0x90_0000_0000,
//! };
//! let mut slots = [BarSlot::EMPTY; 64]; // scratch memory, one a BAR
//! let done = assign(&access, 0, &ranges, Decoding::Off, &mut slots, |fault| println!("{fault}"))?;
//! assert_eq!(done.left, 0);
//!
//! let mut cards = Vec::new();
//! for found in Scan::new(&access, 0, 0..=255) {
//!     match found {
//!         Ok(function) if function.class.base() == 0x02 => cards.push(function),
//!         Ok(_) => {}
//!         Err(fault) => println!("{fault}"),
//!     }
//! }
//! let card = &cards[0];
//! assert_eq!(card.to_string(), "0000:05:00.0 0200: 1af4:1041");
//!
//! for bar in bars(&access, card)?.good() {
//!     println!("{:?} at {:#x}, {:#x} bytes", bar.kind, bar.address, bar.size.unwrap_or(0));
//! }
//! let names = Capabilities::new(&access, card).filter_map(|one| one.ok()?.name());
//! assert!(names.collect::<Vec<_>>().contains(&"msi-x"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Looking inside
//!
//! Wrap the window in `nostall_io::Counting` to see what a scan, or whatever you do, costs: the
//! counts of a fixed machine are asserted in this crate's tests. Print the [`Choice`] that
//! [`Selector::choose`] made, and every [`ScanFault`] and [`AssignFault`]: each names the
//! function and says what is wrong with it.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
// Two adapters implement traits that have unsafe methods.
#![deny(unsafe_code)]

#[cfg(feature = "std")]
extern crate std;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod access;
mod address;
mod ari;
mod assign;
mod bar;
mod bridge;
mod byte_set;
mod capability;
mod config_ports;
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
pub mod registers;
mod scan;
mod scan_fault;
mod selector;
#[cfg(all(feature = "std", unix))]
pub mod sysfs;
#[cfg(feature = "virtio-drivers")]
mod virtio;

pub use access::{AccessError, AccessWidth, ConfigAccess, REGISTERS};
pub use address::{Address, BadAddress};
pub use assign::{AssignFault, Assigned, BadRanges, BarSlot, Decoding, Ranges, assign};
pub use bar::{Bar, BarFault, BarKind, Bars, bars, bars_as_set};
pub use bridge::BridgeWindows;
pub use capability::{
    Capabilities, Capability, CapabilityFault, Express, ExtendedCapabilities, ExtendedCapability,
    PortType, WrongPort,
};
pub use config_ports::{ConfigPorts, PORT, PORTS};
#[cfg(feature = "std")]
pub use dump::Dump;
pub use ecam::{ECAM_BUS_SIZE, Ecam};
pub use environment::{Environment, Signature};
pub use function::{Buses, Class, Function, Header, Interrupt, Subsystem, Unread};
#[cfg(feature = "std")]
pub use names::Names;
pub use scan::Scan;
pub use scan_fault::{BusFault, ScanFault};
pub use selector::{Choice, Known, Policy, Selector};
#[cfg(all(feature = "std", unix))]
pub use sysfs::Sysfs;

#[cfg(feature = "pci_types")]
pub use self::pci_types::PciTypes;
#[cfg(feature = "virtio-drivers")]
pub use self::virtio::VirtioDrivers;
