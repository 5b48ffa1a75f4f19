//! A ready-made set of PCI devices.

use std::ops::RangeInclusive;

use thiserror::Error;

use super::bar::{Bar, Prefetch};
use super::builder::{Class, Pin};
use super::capability::{Capability, ExtendedCapability};
use super::express::PortType;
use super::function::{BuildError, Function};
use super::host_bridge::HostBridge;
use super::tree::{FunctionId, TopologyError};

/// Red Hat's vendor ID. Its device IDs 0x10f0 to 0x10ff are reserved for experiments (QEMU,
/// docs/specs/pci-ids).
const VENDOR: u16 = 0x1af4;
/// Device IDs, one for each kind of function in this file.
const HOST_BRIDGE: u16 = 0x10f0;
const ROOT_PORT: u16 = 0x10f1;
const UPSTREAM: u16 = 0x10f2;
const DOWNSTREAM: u16 = 0x10f3;
const PCI_BRIDGE: u16 = 0x10f4;
const ENDPOINT: u16 = 0x10f5;
/// Device ID of a modern virtio network card (Virtio 1.2, 5.1.1 and 4.1.2).
const VIRTIO_NET: u16 = 0x1041;

/// The PCI devices of nostall's own virtual machine: one of each kind that a bus scan must handle.
/// They have no function beyond configuration space. Bus numbers and addresses are not assigned.
///
/// ```text
/// 00.0  host bridge
/// 01.0  accelerator, with 01.1 and 01.3: three functions
/// 02.0  root port
///       00.0  switch
///             00.0  port
///                   00.0  accelerator, 64-bit BAR, ROM
///             01.0  port
///                   00.0  accelerator with an MSI-X table
/// 03.0  root port
///       00.0  virtio network card
/// 04.0  bridge to a conventional bus
///       02.0  accelerator with I/O ports
/// ```
///
/// The classes are real, but a stock kernel has no driver for them: it lists the devices and leaves
/// them alone. The network card is an exception. It has virtio's IDs and capabilities, for code
/// that searches for them, but no queues. A driver may wait for it forever:
/// [`remove`](HostBridge::remove) the card before booting a kernel with a virtio driver.
#[derive(Debug)]
pub struct Topology {
    /// The host bridge with all devices.
    pub bridge: HostBridge,
    /// Both root ports: to the switch, then to the network card.
    pub root_ports: [FunctionId; 2],
    /// The switch's upstream port.
    pub upstream: FunctionId,
    /// The switch's downstream ports.
    pub downstream: [FunctionId; 2],
    /// The accelerators behind the downstream ports.
    pub behind_switch: [FunctionId; 2],
    /// The network card.
    pub virtio_net: FunctionId,
    /// The bridge to a conventional bus.
    pub pci_bridge: FunctionId,
    /// The accelerator behind the conventional bridge.
    pub conventional: FunctionId,
}

/// Failure to build a topology.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TopologyFailure {
    /// A function could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A function could not be added at its place.
    #[error(transparent)]
    Place(#[from] TopologyError),
}

impl Topology {
    /// Builds the topology with a host bridge that decodes `buses`. A full scan needs seven buses.
    ///
    /// # Errors
    ///
    /// [`TopologyFailure`]; it never occurs, because all parts fit.
    pub fn new(buses: RangeInclusive<u8>) -> Result<Self, TopologyFailure> {
        let mut bridge = HostBridge::new(buses);
        let host = Function::endpoint(VENDOR, HOST_BRIDGE, Class::HOST_BRIDGE).build()?;
        bridge.add(0, 0, host)?;
        for (function, pin) in [(0, Pin::A), (1, Pin::B), (3, Pin::D)] {
            bridge.add(1, function, integrated(pin, u32::from(function))?)?;
        }
        let first = bridge.add(2, 0, port(ROOT_PORT, PortType::RootPort)?)?;
        let second = bridge.add(3, 0, port(ROOT_PORT, PortType::RootPort)?)?;
        let pci_bridge = bridge.add(4, 0, Function::bridge(VENDOR, PCI_BRIDGE).build()?)?;
        let upstream = bridge.add_behind(first, 0, 0, port(UPSTREAM, PortType::Upstream)?)?;
        let downstream = || port(DOWNSTREAM, PortType::Downstream);
        let left = bridge.add_behind(upstream, 0, 0, downstream()?)?;
        let right = bridge.add_behind(upstream, 1, 0, downstream()?)?;
        let with_rom = bridge.add_behind(left, 0, 0, with_rom()?)?;
        let with_msix = bridge.add_behind(right, 0, 0, with_msix()?)?;
        let virtio_net = bridge.add_behind(second, 0, 0, virtio_net()?)?;
        let conventional = bridge.add_behind(pci_bridge, 2, 0, conventional()?)?;
        Ok(Self {
            bridge,
            root_ports: [first, second],
            upstream,
            downstream: [left, right],
            behind_switch: [with_rom, with_msix],
            virtio_net,
            pci_bridge,
            conventional,
        })
    }
}

/// Starts a processing accelerator: a class without a driver in any kernel.
fn accelerator() -> super::FunctionBuilder {
    Function::endpoint(VENDOR, ENDPOINT, Class::new(0x12, 0x00, 0x00)).subsystem(VENDOR, ENDPOINT)
}

fn integrated(pin: Pin, function: u32) -> Result<Function, BuildError> {
    accelerator()
        .express(PortType::RootComplexEndpoint)
        .interrupt(pin)
        .bar(0, Bar::Memory32(0x1000 << function, Prefetch::No))
        .capability(Capability::power_management())
        .capability(Capability::msi())
        .build()
}

fn port(device: u16, port: PortType) -> Result<Function, BuildError> {
    Function::bridge(VENDOR, device)
        .express(port)
        .subsystem(VENDOR, device)
        .interrupt(Pin::A)
        .capability(Capability::power_management())
        .capability(Capability::msi())
        .build()
}

fn with_rom() -> Result<Function, BuildError> {
    accelerator()
        .express(PortType::Endpoint)
        .bar(0, Bar::Memory64(1 << 33, Prefetch::Yes))
        .bar(2, Bar::Memory32(0x4000, Prefetch::No))
        .rom(0x1_0000)
        .capability(Capability::power_management())
        .extended_capability(ExtendedCapability::serial_number(0x6e6f_7374_616c_6c01))
        .build()
}

fn with_msix() -> Result<Function, BuildError> {
    accelerator()
        .express(PortType::Endpoint)
        .bar(0, Bar::Memory64(0x1_0000, Prefetch::No))
        .bar(4, Bar::Memory64(0x10_0000, Prefetch::Yes))
        .capability(Capability::msix(32, 0, 0x8000, 0xc000))
        .extended_capability(ExtendedCapability::serial_number(0x6e6f_7374_616c_6c02))
        .build()
}

fn conventional() -> Result<Function, BuildError> {
    accelerator()
        .interrupt(Pin::A)
        .bar(0, Bar::Io(0x40))
        .bar(1, Bar::Memory32(0x800, Prefetch::No))
        .capability(Capability::power_management())
        .build()
}

/// Builds a function with a virtio network card's IDs, BARs and vendor capabilities (Virtio 1.2,
/// 4.1.4). The capability for BAR access through configuration space is omitted.
fn virtio_net() -> Result<Function, BuildError> {
    const MODERN: u8 = 1;
    let structure = |kind: u8, offset: u32, length: u32, more: &[u8]| {
        let place = [offset.to_le_bytes(), length.to_le_bytes()].concat();
        Capability::vendor(&[&[kind, 4, 0, 0, 0], &place[..], more].concat())
    };
    Function::endpoint(VENDOR, VIRTIO_NET, Class::new(0x02, 0x00, 0x00))
        .revision(MODERN)
        .subsystem(VENDOR, 0x1100)
        .express(PortType::Endpoint)
        .interrupt(Pin::A)
        .bar(1, Bar::Memory32(0x1000, Prefetch::No))
        .bar(4, Bar::Memory64(0x4000, Prefetch::Yes))
        .capability(Capability::msix(3, 1, 0, 0x800))
        .capability(structure(1, 0x0000, 0x1000, &[]))
        .capability(structure(3, 0x1000, 0x1000, &[]))
        .capability(structure(4, 0x2000, 0x1000, &[]))
        .capability(structure(2, 0x3000, 0x1000, &4u32.to_le_bytes()))
        .build()
}
