//! The machine model of nostall-devices: set-up, scan, and reads of its BARs and capabilities.
//! Other crates must find the same with our adapters.

use nostall_devices::pci::{EcamWindow, FunctionId, Topology, VirtualBus};
use nostall_io::{Counting, Mmio, MmioLayout};
use nostall_pci::registers::COMMAND;
use nostall_pci::{
    Address, Assigned, Bar, BarKind, BarSlot, Capabilities, ConfigAccess, Decoding, ECAM_BUS_SIZE,
    Ecam, Express, ExtendedCapabilities, Function, Header, PortType, Ranges, Scan, ScanFault,
    Unread, assign, bars,
};

fn ranges() -> Ranges {
    Ranges {
        buses: 0..=255,
        io: 0x1000..0x1_0000,
        memory: 0xc000_0000..0xe000_0000,
        prefetchable: 0x80_0000_0000..0x90_0000_0000,
    }
}

/// Returns the machine after set-up, and the id of a network card to remove.
fn machine() -> (VirtualBus, FunctionId, Assigned) {
    let topology = Topology::new(0..=255).unwrap();
    let card = topology.virtio_net;
    let bus = VirtualBus::new(topology.bridge);
    let ecam = Ecam::new(bus.ecam(), 0, 0..=255);
    let done = assign(
        &ecam,
        0,
        &ranges(),
        Decoding::On,
        &mut [BarSlot::EMPTY; 64],
        |fault| panic!("{fault}"),
    )
    .unwrap();
    (bus, card, done)
}

fn ecam(bus: &VirtualBus) -> Ecam<Counting<EcamWindow>> {
    Ecam::new(Counting::new(bus.ecam()), 0, 0..=255)
}

fn functions(access: &impl ConfigAccess) -> Vec<Function> {
    let scan = Scan::new(access, 0, 0..=255);
    scan.map(|found| found.unwrap()).collect()
}

#[test]
fn every_function_of_a_machine_is_found_after_its_set_up() {
    let (bus, _, done) = machine();
    let ecam = ecam(&bus);
    let found: Vec<_> = functions(&ecam).iter().map(Function::to_string).collect();
    let expected = [
        "0000:00:00.0 0600: 1af4:10f0",
        "0000:00:01.0 1200: 1af4:10f5",
        "0000:00:01.1 1200: 1af4:10f5",
        "0000:00:01.3 1200: 1af4:10f5",
        "0000:00:02.0 0604: 1af4:10f1",
        "0000:00:03.0 0604: 1af4:10f1",
        "0000:00:04.0 0604: 1af4:10f4",
        "0000:01:00.0 0604: 1af4:10f2",
        "0000:02:00.0 0604: 1af4:10f3",
        "0000:02:01.0 0604: 1af4:10f3",
        "0000:03:00.0 1200: 1af4:10f5",
        "0000:04:00.0 1200: 1af4:10f5",
        "0000:05:00.0 0200: 1af4:1041",
        "0000:06:02.0 1200: 1af4:10f5",
    ];
    assert_eq!(found, expected);
    assert_eq!(done.last_bus, 6);
    assert_eq!(done.left, 0);
}

#[test]
fn a_scan_of_a_shadowed_machine_takes_no_exits() {
    let topology = Topology::new(0..=255).unwrap();
    let bus = VirtualBus::shadowed(topology.bridge);
    let setup = Ecam::new(bus.ecam(), 0, 0..=255);
    assign(
        &setup,
        0,
        &ranges(),
        Decoding::On,
        &mut [BarSlot::EMPTY; 64],
        |_| {},
    )
    .unwrap();
    let before = bus.exits();
    assert_eq!(functions(&ecam(&bus)).len(), 14);
    assert_eq!(bus.exits(), before);
}

#[test]
fn the_accesses_of_a_set_up_and_a_scan_are_known() {
    let bus = VirtualBus::new(Topology::new(0..=255).unwrap().bridge);
    let ecam = ecam(&bus);
    assign(
        &ecam,
        0,
        &ranges(),
        Decoding::On,
        &mut [BarSlot::EMPTY; 64],
        |_| {},
    )
    .unwrap();
    let counts = ecam.window().counts();
    // One walk along the buses, a second access to each bridge, and one to each BAR.
    assert_eq!((counts.reads, counts.writes), (376, 180));
    let before = ecam.window().counts();
    for function in functions(&ecam) {
        bars(&ecam, &function).unwrap();
    }
    let counts = ecam.window().counts() - before;
    // A scan, two reads and two writes for each register, and disabling and enabling of decoding.
    assert_eq!((counts.reads, counts.writes), (344, 174));
}

#[test]
fn before_the_set_up_bridges_are_reported() {
    let bus = VirtualBus::new(Topology::new(0..=255).unwrap().bridge);
    let ecam = ecam(&bus);
    let faults = Scan::new(&ecam, 0, 0..=255).filter_map(Result::err);
    let texts: Vec<_> = faults.map(|fault| fault.to_string()).collect();
    let expected = ["02", "03", "04"].map(|device| {
        format!("0000:00:{device}.0: bridge 00 to 00-00 not entered: it has no bus numbers yet")
    });
    assert_eq!(texts, expected);
}

#[test]
fn every_bar_is_in_the_range_for_its_kind() {
    let (bus, ..) = machine();
    let ecam = ecam(&bus);
    let ranges = ranges();
    let mut kinds = Vec::new();
    for function in functions(&ecam) {
        for bar in bars(&ecam, &function).unwrap() {
            let Bar { address, kind, .. } = bar.unwrap();
            let range = match kind {
                BarKind::Io => &ranges.io,
                BarKind::Prefetchable => &ranges.prefetchable,
                BarKind::Memory | BarKind::Rom => &ranges.memory,
            };
            assert!(range.contains(&address), "{function} {bar:x?}");
            kinds.push(kind);
        }
    }
    let count = |wanted| kinds.iter().filter(|kind| **kind == wanted).count();
    let counts = [
        count(BarKind::Io),
        count(BarKind::Memory),
        count(BarKind::Prefetchable),
        count(BarKind::Rom),
    ];
    assert_eq!(counts, [1, 7, 3, 1]);
}

#[test]
fn capabilities_identify_ports() {
    let (bus, ..) = machine();
    let ecam = ecam(&bus);
    let mut ports = Vec::new();
    for function in functions(&ecam) {
        for capability in Capabilities::new(&ecam, &function) {
            ports.extend(Express::of(&capability.unwrap()).map(|express| express.port));
        }
    }
    use PortType::*;
    let expected = [
        RootComplexEndpoint,
        RootComplexEndpoint,
        RootComplexEndpoint,
        RootPort,
        RootPort,
        UpstreamPort,
        DownstreamPort,
        DownstreamPort,
        Endpoint,
        Endpoint,
        Endpoint,
    ];
    assert_eq!(ports, expected);
    let extended: Vec<_> = functions(&ecam)
        .iter()
        .flat_map(|function| ExtendedCapabilities::new(&ecam, function).map(Result::unwrap))
        .map(|capability| capability.name().unwrap())
        .collect();
    assert_eq!(extended, ["serial-number", "serial-number"]);
}

#[test]
fn a_card_removed_at_any_moment_does_not_affect_the_rest() {
    let (bus, ..) = machine();
    let whole = {
        let ecam = ecam(&bus);
        functions(&ecam);
        ecam.window().counts().reads
    };
    let mut vanished = 0;
    for accesses in 1..whole {
        let (bus, card, _) = machine();
        bus.vanish_after(accesses, card);
        let ecam = ecam(&bus);
        let (mut there, mut faults) = (0, Vec::new());
        for found in Scan::new(&ecam, 0, 0..=255) {
            match found {
                Ok(_) => there += 1,
                Err(fault) => faults.push(fault),
            }
        }
        let reported = match faults[..] {
            [] => 0,
            [
                ScanFault::Unread {
                    why: Unread::Vanished,
                    ..
                },
            ] => 1,
            _ => panic!("{faults:?}"),
        };
        assert!(there == 13 || there == 14 && reported == 0, "{accesses}");
        vanished += reported;
    }
    // Its header takes five reads, so it can vanish after each of the first four.
    assert_eq!(vanished, 4);
}

#[test]
fn decoding_is_enabled_where_requested() {
    let (bus, ..) = machine();
    let ecam = ecam(&bus);
    for function in functions(&ecam) {
        let command = ecam.at(function.address).read16(COMMAND).unwrap() & 7;
        let expected = match function.header {
            _ if function.class.is_host_bridge() => 0,
            Header::Bridge(_) if function.address.device() == 4 => 7, // forwards I/O
            Header::Bridge(_) => 6,
            _ if function.address.bus() == 6 => 3,
            _ => 2,
        };
        assert_eq!(command, expected, "{function}");
    }
}

#[cfg(feature = "virtio-drivers")]
mod virtio {
    use super::*;
    use nostall_pci::{Address, VirtioDrivers};
    use virtio_drivers::transport::pci::bus::{BarInfo, DeviceFunction, PciRoot};

    #[test]
    fn virtio_drivers_finds_the_same_functions_capabilities_and_bars() {
        let (bus, ..) = machine();
        let ecam = ecam(&bus);
        let mut root = PciRoot::new(VirtioDrivers::new(&ecam, 0));
        let ours = functions(&ecam);
        // virtio-drivers is called for each bus number, and reads all functions of all devices.
        let theirs: Vec<_> = (0..=6).flat_map(|bus| root.enumerate_bus(bus)).collect();
        assert_eq!(theirs.len(), ours.len());
        for ((at, info), function) in theirs.into_iter().zip(ours) {
            assert_eq!(at, DeviceFunction::from(function.address));
            let class = function.class;
            assert_eq!(
                (info.vendor_id, info.device_id, info.revision),
                (function.vendor, function.device, function.revision)
            );
            assert_eq!(
                (info.class, info.subclass, info.prog_if),
                (class.base(), class.sub(), class.interface())
            );
            let their_capabilities: Vec<_> = root
                .capabilities(at)
                .map(|one| (one.id, u16::from(one.offset), one.private_header))
                .collect();
            let our_capabilities: Vec<_> = Capabilities::new(&ecam, &function)
                .map(Result::unwrap)
                .map(|one| (one.id, one.register, one.word))
                .collect();
            assert_eq!(their_capabilities, our_capabilities);
            if let Header::Endpoint(_) = function.header {
                let their_bars = root.bars(at).unwrap().into_iter().flatten();
                let their_bars: Vec<_> = their_bars
                    .map(|bar| match bar {
                        BarInfo::Memory { address, size, .. } => (address, Some(size)),
                        BarInfo::IO { address, size } => (address.into(), Some(size.into())),
                    })
                    .collect();
                let our_bars: Vec<_> = bars(&ecam, &function)
                    .unwrap()
                    .good()
                    .filter(|bar| bar.kind != BarKind::Rom)
                    .map(|bar| (bar.address, bar.size))
                    .collect();
                assert_eq!(their_bars, our_bars, "{function}");
            }
        }
    }

    #[test]
    fn unreachable_registers_are_absent_and_writes_to_them_are_dropped() {
        let (bus, ..) = machine();
        let ecam = Ecam::new(bus.ecam(), 3, 0..=255);
        let mut root = PciRoot::new(VirtioDrivers::new(&ecam, 0));
        assert_eq!(root.enumerate_bus(0).count(), 0);
        let at = DeviceFunction::from(Address::new(0, 1, 0).unwrap());
        let before = bus.exits();
        root.set_bar_32(at, 0, 0x1000);
        assert_eq!(bus.exits(), before);
        let root = PciRoot::new(VirtioDrivers::new(&ecam, 3));
        assert_eq!(root.enumerate_bus(0).count(), 7);
    }
}

#[cfg(feature = "pci_types")]
mod pci_types {
    use super::*;
    use ::pci_types::{
        Bar as TheirBar, ConfigRegionAccess, EndpointHeader, HeaderType, PciAddress, PciHeader,
        PciPciBridgeHeader,
    };
    use nostall_pci::{Address, PciTypes};

    #[test]
    fn pci_types_reads_the_same_headers_capabilities_and_bars() {
        let (bus, ..) = machine();
        let ecam = ecam(&bus);
        let access = PciTypes(&ecam);
        for function in functions(&ecam) {
            let header = PciHeader::new(PciAddress::try_from(function.address).unwrap());
            assert_eq!(Address::from(header.address()), function.address);
            assert_eq!(header.id(access), (function.vendor, function.device));
            let (revision, base, sub, interface) = header.revision_and_class(access);
            let class = function.class;
            assert_eq!(revision, function.revision);
            assert_eq!(
                (base, sub, interface),
                (class.base(), class.sub(), class.interface())
            );
            assert_eq!(
                header.has_multiple_functions(access),
                function.multi_function
            );
            match function.header {
                Header::Endpoint(subsystem) => {
                    assert_eq!(header.header_type(access), HeaderType::Endpoint);
                    let header = EndpointHeader::from_header(header, access).unwrap();
                    let theirs = header.subsystem(access);
                    assert_eq!(theirs, (subsystem.device, subsystem.vendor));
                    let theirs: Vec<_> = header
                        .capabilities(access)
                        .map(|one| one.address().offset)
                        .collect();
                    let ours: Vec<_> = Capabilities::new(&ecam, &function)
                        .map(|one| one.unwrap().register)
                        .collect();
                    assert_eq!(theirs, ours);
                    compare_bars(&ecam, &function, header);
                }
                Header::Bridge(buses) => {
                    let header = PciPciBridgeHeader::from_header(header, access).unwrap();
                    assert_eq!(header.primary_bus_number(access), buses.primary);
                    assert_eq!(header.secondary_bus_number(access), buses.secondary);
                    assert_eq!(header.subordinate_bus_number(access), buses.subordinate);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn compare_bars(ecam: &impl ConfigAccess, function: &Function, header: EndpointHeader) {
        let ours = bars(ecam, function).unwrap();
        for bar in ours.good().filter(|bar| bar.kind != BarKind::Rom) {
            let slot = (bar.register - 0x10) / 4;
            let theirs = match header.bar(slot as u8, PciTypes(ecam)).unwrap() {
                TheirBar::Memory32 { address, size, .. } => (address.into(), Some(size.into())),
                TheirBar::Memory64 { address, size, .. } => (address, Some(size)),
                TheirBar::Io { port } => (port.into(), bar.size), // pci_types has no I/O size
            };
            assert_eq!(theirs, (bar.address, bar.size));
        }
    }

    #[test]
    fn unreachable_registers_read_all_ones() {
        let (bus, ..) = machine();
        let access = PciTypes(Ecam::new(bus.ecam(), 0, 0..=0));
        // SAFETY: any address is allowed, because an absent function is not accessed.
        let [read, odd] =
            [0, 3].map(|offset| unsafe { access.read(PciAddress::new(0, 1, 0, 0), offset) });
        assert_eq!([read, odd], [!0, !0]);
    }
}

/// ECAM in a static, as in a kernel that takes a window's address from its firmware's tables.
// SAFETY: never accessed.
static IN_A_STATIC: Ecam<Mmio> = Ecam::new(
    unsafe { Mmio::at(0xb000_0000, 256 * ECAM_BUS_SIZE, MmioLayout::BYTES) },
    0,
    0..=255,
);

#[test]
fn ecam_over_mmio_in_a_static_needs_no_unsafe_code_in_its_user() {
    fn shared<A: ConfigAccess + Send + Sync>(_: &'static A) {}
    shared(&IN_A_STATIC);
    assert_eq!(IN_A_STATIC.buses(), 0..=255);
    assert!(IN_A_STATIC.reaches(Address::new(255, 31, 7).unwrap(), 0xffc));
}
