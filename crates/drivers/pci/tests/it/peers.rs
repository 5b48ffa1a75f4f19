//! Enumeration of other crates and of this one: the number of reads of configuration space.

#![cfg(all(feature = "pci_types", feature = "virtio-drivers"))]

use std::cell::Cell;

use nostall_devices::pci::{Topology, VirtualBus};
use nostall_pci::{
    AccessError, Address, ConfigAccess, Ecam, PciTypes, Register, Scan, VirtioDrivers,
};
use pci_types::{PciAddress, PciHeader};
use virtio_drivers::transport::pci::bus::PciRoot;

/// An access method that counts its reads.
struct Reads<A>(A, Cell<u32>);

impl<A: ConfigAccess> ConfigAccess for Reads<A> {
    fn reaches(&self, address: Address, register: u16) -> bool {
        self.0.reaches(address, register)
    }

    fn read(&self, address: Address, register: Register) -> Result<u32, AccessError> {
        self.1.set(self.1.get() + 1);
        self.0.read(address, register)
    }

    fn write(&self, address: Address, register: Register, value: u32) -> Result<(), AccessError> {
        self.0.write(address, register, value)
    }
}

/// Result of an enumeration: the device and function number of each function, in order.
type Places = Vec<u8>;

/// Returns the functions that `enumerate` finds on bus 0 of the model, and the number of reads.
fn reads(
    enumerate: impl FnOnce(&Reads<Ecam<nostall_devices::pci::EcamWindow>>) -> Places,
) -> (Places, u32) {
    let bus = VirtualBus::new(Topology::new(0..=255).unwrap().bridge);
    let access = Reads(Ecam::new(bus.ecam(), 0, 0..=255), Cell::new(0));
    let found = enumerate(&access);
    (found, access.1.get())
}

/// Finds the functions of bus 0 with `pci_types`, which has no enumeration of its own. The loop
/// reads ID, class and header type of each function. It tries more functions of a device only if
/// the first one has the bit for them.
fn with_pci_types(access: &impl ConfigAccess) -> Places {
    let mut found = Vec::new();
    for device in 0..32 {
        for function in 0..8 {
            let header = PciHeader::new(PciAddress::new(0, 0, device, function));
            let is_there = header.id(PciTypes(access)).0 != 0xffff;
            if is_there {
                let _ = header.revision_and_class(PciTypes(access));
                let _ = header.header_type(PciTypes(access));
                found.push(device << 3 | function);
            }
            if function == 0 && !(is_there && header.has_multiple_functions(PciTypes(access))) {
                break;
            }
        }
    }
    found
}

#[test]
fn a_bus_is_scanned_with_a_quarter_of_the_reads_of_virtio_drivers() {
    // The host bridge, a device with three functions, two root ports, a bridge.
    let places = [0x00, 0x08, 0x09, 0x0b, 0x10, 0x18, 0x20];
    let ours = reads(|access| {
        // The buses behind the bridges have no numbers. The scan reports them as faults.
        let functions = Scan::new(access, 0, 0..=0).filter_map(Result::ok);
        functions.map(|found| found.address.devfn()).collect()
    });
    let virtio_drivers = reads(|access| {
        let root = PciRoot::new(VirtioDrivers::new(access, 0));
        let functions = root.enumerate_bus(0);
        functions
            .map(|(at, _)| at.device << 3 | at.function)
            .collect()
    });
    let pci_types = reads(with_pci_types);
    // One read for each absent function, and two more for each present one.
    assert_eq!(virtio_drivers, (places.to_vec(), 256 + 2 * 7));
    // One read for each device, and seven more for the device with several functions. Then class
    // and header type of each function, and the bit for more functions of each present device.
    assert_eq!(pci_types, (places.to_vec(), 32 + 7 + 2 * 7 + 5));
    // The same 39 reads, and four more for each function: class, header type with that bit,
    // interrupt, and subsystem or bus numbers.
    assert_eq!(ours, (places.to_vec(), 32 + 7 + 4 * 7));
}
