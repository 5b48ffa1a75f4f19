//! PCI configuration space without stalls: access to a function's registers, enumeration of buses,
//! and assignment of addresses if no firmware has done it.
//!
//! Through a PC's ports a register takes two accesses and a lock, and in a virtual machine two
//! exits to the hypervisor. Through memory (ECAM) it takes one access: one exit, or none if the
//! hypervisor maps the registers. [`Selector`] prefers memory where that is known to be safe, and
//! ports on bare metal. A scan makes five accesses for a function, and one for an absent one.
//!
//! Nothing here allocates, panics or recurses. No answer of a device makes a walk longer than the
//! bus numbers allow. Wrong answers are reported, and the walk continues.
//!
//! - Access methods: [`ConfigAccess`]; [`ConfigPorts`], [`Ecam`], and both combined in
//!   [`Selector`]. [`mcfg`] (ACPI) and [`device_tree`] find ECAM windows.
//! - Enumeration: [`Scan`], [`Function`], [`bars`], [`Capabilities`], [`ExtendedCapabilities`].
//! - Assignment of bus numbers, bridge windows and BARs: [`assign`]. If CPUs use other addresses
//!   than the bus, [`device_tree::Host::cpu_address`] translates.
//! - Adapters for other crates' traits: `PciTypes` and `VirtioDrivers`. Their features have the
//!   names of those crates.
//!
//! When not to use it: for one device at a fixed address on a machine with ports, use `pci_types`
//! and two `out` instructions. On Linux, processes have libpci; the example `functions` lists a
//! host's functions, or those in an lspci dump.
//!
//! # Example
//!
//! A kernel that finds its network card. Here, a model of a machine replaces the ports and the ECAM
//! window:
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
//! // In a kernel: unsafe { nostall_io::Mmio::new(window, size, MmioLayout::BYTES) }, for a
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
//! // Only if no firmware has done it, because all addresses change. Each driver enables the
//! // decoding of its device; bridges forward from now on.
//! let ranges = Ranges {
//!     buses: 0..=255,
//!     io: 0x1000..0x1_0000,
//!     memory: 0xc000_0000..0xe000_0000,
//!     prefetchable: 0x80_0000_0000..0x90_0000_0000,
//! };
//! let mut slots = [BarSlot::EMPTY; 64]; // scratch memory, one for each BAR
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
//! Wrap the window in `nostall_io::Counting` to count the accesses of a scan or any other
//! operation. This crate's tests assert the counts of a fixed machine. Print the [`Choice`] of
//! [`Selector::choose`], and every [`ScanFault`] and [`AssignFault`]: each names the function and
//! its fault.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
// Two adapters implement traits that have unsafe methods.
#![deny(unsafe_code)]

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
mod dwords;
mod ecam;
mod environment;
mod function;
pub mod mcfg;
mod one_bus;
#[cfg(feature = "pci_types")]
mod pci_types;
pub mod registers;
mod scan;
mod scan_fault;
mod selector;
#[cfg(feature = "virtio-drivers")]
mod virtio;

pub use access::{AccessError, AccessWidth, At, ConfigAccess, REGISTERS, Register};
pub use address::{Address, BadAddress};
pub use assign::{AssignFault, Assigned, BadRanges, BarSlot, Decoding, Ranges, assign};
pub use bar::{Bar, BarFault, BarKind, Bars, bars, bars_as_set};
pub use bridge::BridgeWindows;
pub use capability::{
    Capabilities, Capability, CapabilityFault, Express, ExtendedCapabilities, ExtendedCapability,
    PortType, WrongPort,
};
pub use config_ports::{ConfigPorts, PORT, PORTS};
pub use dwords::Dwords;
pub use ecam::{ECAM_BUS_SIZE, Ecam};
pub use environment::{Environment, Signature};
pub use function::{Buses, Class, Function, Header, Interrupt, Subsystem, Unread};
pub use scan::Scan;
pub use scan_fault::{BusFault, ScanFault};
pub use selector::{Choice, Known, Policy, Selector};

#[cfg(feature = "pci_types")]
pub use self::pci_types::PciTypes;
#[cfg(feature = "virtio-drivers")]
pub use self::virtio::VirtioDrivers;
