//! The host bridge as a guest sees it. Each test is one rule of the specifications.

use std::ops::RangeInclusive;

use nostall_devices::pci::{
    Address, Bar, BarPlace, BuildError, Capability, Class, Decoding, ExtendedCapability, Function,
    FunctionBuilder, FunctionId, HostBridge, IoWindow, Pin, PortType, Prefetch, PrefetchableWindow,
    Run, Shadow, Topology, TopologyError, Volatile, WindowKinds,
};

const ACCELERATOR: Class = Class::new(0x12, 0, 0);

fn endpoint() -> FunctionBuilder {
    Function::endpoint(0x1af4, 0x10f5, ACCELERATOR)
}

fn express() -> FunctionBuilder {
    endpoint().express(PortType::Endpoint)
}

fn port(port: PortType) -> Function {
    Function::bridge(0x1af4, 0x10f1)
        .express(port)
        .build()
        .unwrap()
}

fn at(bus: u8, device: u8, function: u8) -> Address {
    Address::new(bus, device, function).unwrap()
}

fn read32(bridge: &mut HostBridge, address: Address, register: u16) -> u32 {
    let mut data = [0; 4];
    bridge.read(address, register, &mut data);
    u32::from_le_bytes(data)
}

fn write32(bridge: &mut HostBridge, address: Address, register: u16, value: u32) {
    bridge.write(address, register, &value.to_le_bytes());
}

/// Writes all ones to `register`, and returns the value that it then reads.
fn sized(bridge: &mut HostBridge, address: Address, register: u16) -> u32 {
    write32(bridge, address, register, !0);
    read32(bridge, address, register)
}

/// Returns a bridge with one function, 00:00.0.
fn with(function: FunctionBuilder) -> HostBridge {
    let mut bridge = HostBridge::new(0..=7);
    bridge.add(0, 0, function.build().unwrap()).unwrap();
    bridge
}

fn number(bridge: &mut HostBridge, address: Address, primary: u8, secondary: u8, last: u8) {
    bridge.write(address, 0x18, &[primary]);
    bridge.write(address, 0x19, &[secondary]);
    bridge.write(address, 0x1a, &[last]);
}

/// Finds a capability's register as a driver does.
fn find_capability(bridge: &mut HostBridge, address: Address, id: u8) -> Option<u16> {
    let mut at = read32(bridge, address, 0x34) as u8;
    for _ in 0..48 {
        let header = read32(bridge, address, u16::from(at)).to_le_bytes();
        match (at, header[0] == id) {
            (0, _) => return None,
            (_, true) => return Some(at.into()),
            (_, false) => at = header[1],
        }
    }
    panic!("the list has no end");
}

#[test]
fn the_header_contains_the_builders_values() {
    let mut bridge = with(
        endpoint()
            .revision(7)
            .subsystem(0x1234, 0x5678)
            .interrupt(Pin::C),
    );
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0), 0x10f5_1af4);
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 8), 0x1200_0007);
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0x2c), 0x5678_1234);
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0x3c), 0x0000_0300);
    write32(&mut bridge, at(0, 0, 0), 0, 0);
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0), 0x10f5_1af4);
}

#[test]
fn a_bar_written_with_ones_reads_its_size() {
    let mut bridge = with(
        express()
            .bar(0, Bar::Memory32(0x1000, Prefetch::No))
            .bar(1, Bar::Io(0x20))
            .bar(2, Bar::Memory64(1 << 33, Prefetch::Yes))
            .bar(4, Bar::Memory32(16, Prefetch::Yes))
            .rom(0x800),
    );
    let sizes: Vec<u32> = (0x10..0x28)
        .step_by(4)
        .map(|register| sized(&mut bridge, at(0, 0, 0), register))
        .collect();
    assert_eq!(
        sizes,
        [0xffff_f000, 0xffff_ffe1, 0xc, 0xffff_fffe, 0xffff_fff8, 0]
    );
    assert_eq!(sized(&mut bridge, at(0, 0, 0), 0x30), 0xffff_f801);
    write32(&mut bridge, at(0, 0, 0), 0x10, 0xfebf_1234);
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0x10), 0xfebf_1000);
    write32(&mut bridge, at(0, 0, 0), 0x30, 0xfebf_0800);
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0x30), 0xfebf_0800);
}

#[test]
fn an_impossible_bar_is_refused() {
    let build = |number, bar| endpoint().bar(number, bar).build().map(drop);
    let memory = |size| Bar::Memory32(size, Prefetch::No);
    assert_eq!(build(0, memory(0x1800)), Err(BuildError::Size));
    assert_eq!(build(0, memory(8)), Err(BuildError::Size));
    assert_eq!(build(0, Bar::Io(512)), Err(BuildError::Size));
    assert_eq!(build(6, memory(16)), Err(BuildError::BarNumber(6)));
    assert_eq!(
        build(5, Bar::Memory64(16, Prefetch::No)),
        Err(BuildError::BarNumber(5))
    );
    assert_eq!(
        build(usize::MAX, memory(16)),
        Err(BuildError::BarNumber(usize::MAX))
    );
    let overlap = endpoint()
        .bar(0, Bar::Memory64(16, Prefetch::No))
        .bar(1, memory(16));
    assert_eq!(overlap.build().map(drop), Err(BuildError::BarNumber(1)));
    let of_bridge = Function::bridge(0x1af4, 1).bar(2, memory(16));
    assert_eq!(of_bridge.build().map(drop), Err(BuildError::BarNumber(2)));
    assert_eq!(
        endpoint().rom(0x400).build().map(drop),
        Err(BuildError::Size)
    );
}

#[test]
fn a_vendor_that_reads_as_an_absent_or_unready_function_is_refused() {
    for vendor in [0x0000, 0x0001, 0xffff] {
        let endpoint = Function::endpoint(vendor, 0x10f5, ACCELERATOR).build();
        assert_eq!(endpoint.map(drop), Err(BuildError::Vendor(vendor)));
        let bridge = Function::bridge(vendor, 0x10f5).build();
        assert_eq!(bridge.map(drop), Err(BuildError::Vendor(vendor)));
    }
    assert_eq!(
        BuildError::Vendor(0xffff).to_string(),
        "vendor 0xffff means an absent or unready function: use another ID"
    );
    for vendor in [0x0002, 0x1af4, 0xfffe] {
        assert!(
            Function::endpoint(vendor, 0xffff, ACCELERATOR)
                .build()
                .is_ok()
        );
    }
}

#[test]
fn the_command_register_has_only_the_bits_with_an_effect() {
    let command = |function| sized(&mut with(function), at(0, 0, 0), 4) & 0xffff;
    assert_eq!(command(endpoint()), 0x0544);
    assert_eq!(command(endpoint().bar(0, Bar::Io(4))), 0x0545);
    assert_eq!(
        command(endpoint().bar(0, Bar::Memory32(16, Prefetch::No))),
        0x0546
    );
    assert_eq!(command(Function::bridge(0x1af4, 1)), 0x0547);
}

#[test]
fn an_error_bit_is_cleared_by_writing_1() {
    let mut bridge = with(endpoint());
    let id = bridge.at(at(0, 0, 0)).unwrap();
    bridge.store(id, 6, &[0, 0xf9]).unwrap();
    bridge.write(at(0, 0, 0), 6, &0x4000u16.to_le_bytes());
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 4) >> 16, 0xb900);
    // A write to Command alone does not touch Status, its neighbour.
    bridge.write(at(0, 0, 0), 4, &[0xff, 0xff]);
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 4), 0xb900_0544);
}

#[test]
fn capabilities_are_linked_in_the_order_given() {
    let mut bridge = with(
        express()
            .capability(Capability::power_management())
            .capability(Capability::msi())
            .capability(Capability::msix(32, 2, 0x1000, 0x1800))
            .capability(Capability::vendor(b"nostall")),
    );
    let mut at_register = read32(&mut bridge, at(0, 0, 0), 0x34) as u8;
    let mut ids = Vec::new();
    while at_register != 0 {
        let header = read32(&mut bridge, at(0, 0, 0), at_register.into()).to_le_bytes();
        ids.push(header[0]);
        assert_eq!(at_register % 4, 0);
        at_register = header[1];
    }
    assert_eq!(ids, [0x10, 0x01, 0x05, 0x11, 0x09]);
    assert_ne!(read32(&mut bridge, at(0, 0, 0), 4) >> 16 & 0x10, 0);
    let msix = find_capability(&mut bridge, at(0, 0, 0), 0x11).unwrap();
    assert_eq!(sized(&mut bridge, at(0, 0, 0), msix) >> 16, 0xc01f);
    assert_eq!(sized(&mut bridge, at(0, 0, 0), msix + 4), 0x1002);
    let vendor = find_capability(&mut bridge, at(0, 0, 0), 0x09).unwrap();
    assert_eq!(read32(&mut bridge, at(0, 0, 0), vendor) >> 16, 0x6e0a);
    let mut bare = with(endpoint());
    assert_eq!(read32(&mut bare, at(0, 0, 0), 4) >> 16 & 0x10, 0);
    assert_eq!(find_capability(&mut bare, at(0, 0, 0), 0x10), None);
}

#[test]
fn extended_capabilities_start_at_0x100_and_point_to_the_next() {
    let mut bridge = with(
        express()
            .extended_capability(ExtendedCapability::serial_number(0x1122_3344_5566_7788))
            .extended_capability(
                ExtendedCapability::new(0x000b, 1, [0; 12]).writable([0, 0, 0, 0, 0xff]),
            ),
    );
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0x100), 0x10c1_0003);
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0x104), 0x5566_7788);
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0x10c), 0x0001_000b);
    assert_eq!(sized(&mut bridge, at(0, 0, 0), 0x110), 0);
    assert_eq!(sized(&mut bridge, at(0, 0, 0), 0x114), 0xff);
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0xffc), 0);
}

#[test]
fn capabilities_that_do_not_fit_are_refused() {
    let big = |length: usize| Capability::new(9, vec![0; length]);
    assert!(endpoint().capability(big(0xc0 - 2)).build().is_ok());
    let too_big = endpoint().capability(big(0xc0 - 1));
    assert_eq!(too_big.build().map(drop), Err(BuildError::NoRoom));
    let full = endpoint().capability(big(0xc0 - 2)).capability(big(0));
    assert_eq!(full.build().map(drop), Err(BuildError::NoRoom));
    let huge = |length: usize| ExtendedCapability::new(0xb, 1, vec![0; length]);
    assert!(
        express()
            .extended_capability(huge(0xf00 - 4))
            .build()
            .is_ok()
    );
    let too_big = express().extended_capability(huge(0xf00 - 3));
    assert_eq!(too_big.build().map(drop), Err(BuildError::NoRoom));
    let conventional = endpoint().extended_capability(huge(0));
    assert_eq!(conventional.build().map(drop), Err(BuildError::NotExpress));
    let header = endpoint().express(PortType::RootPort);
    assert_eq!(
        header.build().map(drop),
        Err(BuildError::Header(PortType::RootPort))
    );
}

#[test]
fn a_conventional_function_has_256_bytes() {
    let mut bridge = with(endpoint());
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0xfc), 0);
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0x100), !0);
    assert_eq!(bridge.write(at(0, 0, 0), 0x100, &[0; 4]), None);
    let mut bridge = with(express());
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0x100), 0);
}

#[test]
fn several_functions_set_the_multi_function_bit_of_the_first() {
    let mut bridge = with(endpoint());
    let header =
        |bridge: &mut HostBridge, function| read32(bridge, at(0, 0, function), 0xc) >> 16 & 0xff;
    assert_eq!(header(&mut bridge, 0), 0);
    let second = bridge.add(0, 5, endpoint().build().unwrap()).unwrap();
    assert_eq!(header(&mut bridge, 0), 0x80);
    assert_eq!(header(&mut bridge, 5), 0);
    // The bit belongs to the device. A reset or a missing function does not change it.
    bridge.reset();
    bridge.remove(second).unwrap();
    assert_eq!(header(&mut bridge, 0), 0x80);
    bridge.add(1, 0, endpoint().build().unwrap()).unwrap();
    assert_eq!(read32(&mut bridge, at(0, 1, 0), 0xc) >> 16 & 0xff, 0);
}

#[test]
fn an_access_must_be_whole_and_aligned() {
    let mut bridge = with(endpoint());
    for (register, length) in [(1, 2), (2, 4), (3, 2), (0, 3), (0, 8), (0, 0), (0xffff, 1)] {
        let mut data = vec![0; length];
        bridge.read(at(0, 0, 0), register, &mut data);
        assert!(data.iter().all(|&byte| byte == 0xff), "{register} {length}");
        assert_eq!(bridge.write(at(0, 0, 0), register, &data), None);
    }
    let mut byte = [0];
    bridge.read(at(0, 0, 0), 3, &mut byte);
    assert_eq!(byte, [0x10]);
    let mut word = [0; 2];
    bridge.read(at(0, 0, 0), 2, &mut word);
    assert_eq!(u16::from_le_bytes(word), 0x10f5);
}

#[test]
fn an_unaligned_ecam_read_returns_the_bytes_that_memory_would_hold() {
    let mut bridge = with(express());
    bridge.add(0, 1, express().build().unwrap()).unwrap();
    let mut eight = [0; 8];
    bridge.ecam_read(0, &mut eight);
    assert_eq!(eight[..4], 0x10f5_1af4u32.to_le_bytes());
    assert_eq!(eight[6], 0x10, "the status");
    let mut across = [0; 8];
    bridge.ecam_read(0xffd, &mut across);
    assert_eq!(across, [0, 0, 0, 0xf4, 0x1a, 0xf5, 0x10, 0]);
    let mut end = [0; 8];
    bridge.ecam_read(bridge.ecam_size() - 3, &mut end);
    assert_eq!(end, [0xff; 8]);
    bridge.ecam_read(u64::MAX - 2, &mut end);
    assert_eq!(end, [0xff; 8]);
}

#[test]
fn an_ecam_write_of_eight_bytes_is_two_of_four() {
    let mut bridge = with(express().bar(0, Bar::Memory64(0x1000, Prefetch::No)));
    let written = bridge.ecam_write(0x10, &0x0000_0012_3456_7000u64.to_le_bytes());
    assert_eq!(written.unwrap().length, 8);
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0x10), 0x3456_7004);
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0x14), 0x12);
    assert_eq!(bridge.ecam_write(0x14, &[0; 8]), None);
    assert_eq!(bridge.ecam_write(0x11, &[0; 4]), None);
    assert_eq!(bridge.ecam_write(bridge.ecam_size(), &[0; 4]), None);
}

#[test]
fn only_a_write_of_32_bits_changes_the_index() {
    let mut bridge = with(endpoint());
    let index = |bridge: &mut HostBridge| {
        let mut data = [0; 4];
        bridge.port_read(0, &mut data);
        u32::from_le_bytes(data)
    };
    bridge.port_write(0, &0xffff_ffffu32.to_le_bytes());
    assert_eq!(index(&mut bridge), 0x80ff_fffc, "reserved bits read 0");
    bridge.port_write(0, &0x8000_0004u32.to_le_bytes());
    for (offset, data) in [(0, &[1u8][..]), (1, &[6]), (0, &[1, 2]), (2, &[1, 2])] {
        assert_eq!(bridge.port_write(offset, data), None);
        let mut read = vec![0; data.len()];
        bridge.port_read(offset, &mut read);
        assert!(read.iter().all(|&byte| byte == 0xff));
    }
    assert_eq!(index(&mut bridge), 0x8000_0004);
}

#[test]
fn the_data_port_reaches_the_bytes_of_the_register() {
    let mut bridge = with(endpoint());
    bridge.port_write(0, &0x8000_0000u32.to_le_bytes());
    let read = |bridge: &mut HostBridge, offset, length| {
        let mut data = vec![0; length];
        bridge.port_read(offset, &mut data);
        data
    };
    assert_eq!(read(&mut bridge, 4, 4), [0xf4, 0x1a, 0xf5, 0x10]);
    assert_eq!(read(&mut bridge, 6, 2), [0xf5, 0x10]);
    assert_eq!(read(&mut bridge, 7, 1), [0x10]);
    assert_eq!(read(&mut bridge, 5, 2), [0xff; 2], "unaligned");
    assert_eq!(read(&mut bridge, 6, 4), [0xff; 4], "beyond");
    assert_eq!(read(&mut bridge, 8, 1), [0xff]);
    bridge.port_write(0, &0x8000_003cu32.to_le_bytes());
    let written = bridge.port_write(4, &[9]).unwrap();
    assert_eq!((written.register, written.length), (0x3c, 1));
    assert_eq!(read(&mut bridge, 4, 1), [9]);
    // While the index is disabled, there is no data port.
    bridge.port_write(0, &0x0000_003cu32.to_le_bytes());
    assert_eq!(read(&mut bridge, 4, 1), [0xff]);
    assert_eq!(bridge.port_write(4, &[7]), None);
}

#[test]
fn bus_numbers_lead_to_the_functions_behind_a_bridge() {
    let topology = Topology::new(0..=7).unwrap();
    let mut bridge = topology.bridge;
    assert_eq!(bridge.at(at(1, 0, 0)), None, "no number is assigned");
    number(&mut bridge, at(0, 2, 0), 0, 1, 4);
    number(&mut bridge, at(1, 0, 0), 1, 2, 4);
    number(&mut bridge, at(2, 0, 0), 2, 3, 3);
    number(&mut bridge, at(2, 1, 0), 2, 4, 4);
    assert_eq!(bridge.at(at(1, 0, 0)), Some(topology.upstream));
    assert_eq!(bridge.at(at(2, 1, 0)), Some(topology.downstream[1]));
    assert_eq!(bridge.at(at(3, 0, 0)), Some(topology.behind_switch[0]));
    assert_eq!(bridge.at(at(4, 0, 0)), Some(topology.behind_switch[1]));
    // With new numbers the function is there, and nowhere else.
    number(&mut bridge, at(2, 1, 0), 2, 5, 5);
    assert_eq!(bridge.at(at(4, 0, 0)), None);
    assert_eq!(bridge.at(at(5, 0, 0)), None, "the switch passes up to 4");
    number(&mut bridge, at(1, 0, 0), 1, 2, 5);
    number(&mut bridge, at(0, 2, 0), 0, 1, 5);
    assert_eq!(bridge.at(at(5, 0, 0)), Some(topology.behind_switch[1]));
}

#[test]
fn a_window_begins_with_the_first_bus() {
    let mut bridge = HostBridge::new(0x80..=0x83);
    let function = express().build().unwrap();
    bridge.add(3, 1, function).unwrap();
    assert_eq!(bridge.ecam_size(), 4 << 20);
    let address = at(0x80, 3, 1);
    assert_eq!(address.ecam_offset(0x80), Some(0x19000));
    assert_eq!(address.ecam_offset(0x81), None);
    let mut ids = [0; 4];
    bridge.ecam_read(0x19000, &mut ids);
    assert_eq!(ids, 0x10f5_1af4u32.to_le_bytes());
    assert_eq!(read32(&mut bridge, address, 0), 0x10f5_1af4);
    assert_eq!(read32(&mut bridge, at(0, 3, 1), 0), !0);
    assert_eq!(
        HostBridge::new(RangeInclusive::new(9, 3)).buses(),
        9..=9,
        "at least one bus"
    );
}

#[test]
fn impossible_bus_numbers_lead_nowhere_or_to_the_first() {
    let topology = Topology::new(0..=7).unwrap();
    let mut bridge = topology.bridge;
    number(&mut bridge, at(0, 2, 0), 0, 3, 1);
    assert!(
        (1..=255).all(|bus| bridge.at(at(bus, 0, 0)).is_none()),
        "upside down"
    );
    number(&mut bridge, at(0, 2, 0), 0, 0, 255);
    assert_eq!(
        bridge.at(at(0, 2, 0)),
        Some(topology.root_ports[0]),
        "the root's own"
    );
    number(&mut bridge, at(0, 2, 0), 0, 1, 255);
    number(&mut bridge, at(1, 0, 0), 1, 1, 255);
    assert_eq!(
        bridge.at(at(1, 0, 0)),
        Some(topology.upstream),
        "its parent's number"
    );
    assert_eq!(bridge.at(at(2, 0, 0)), None);
    number(&mut bridge, at(0, 3, 0), 0, 1, 1);
    assert_eq!(
        bridge.at(at(1, 0, 0)),
        Some(topology.upstream),
        "two bridges have bus 1"
    );
    number(&mut bridge, at(0, 2, 0), 0, 0, 0);
    assert_eq!(bridge.at(at(1, 0, 0)), Some(topology.virtio_net));
    number(&mut bridge, at(0, 3, 0), 0, 9, 9);
    assert_eq!(
        bridge.at(at(9, 0, 0)),
        None,
        "outside the host bridge's buses"
    );
}

#[test]
fn a_link_has_device_0_alone() {
    let mut bridge = HostBridge::new(0..=7);
    let root = bridge.add(1, 0, port(PortType::RootPort)).unwrap();
    number(&mut bridge, at(0, 1, 0), 0, 1, 1);
    let plain = || express().build().unwrap();
    assert_eq!(
        bridge.add_behind(root, 1, 0, plain()),
        Err(TopologyError::OneDevice)
    );
    let first = bridge.add_behind(root, 0, 0, plain()).unwrap();
    assert_eq!(bridge.at(at(1, 0, 0)), Some(first));
    assert_eq!(read32(&mut bridge, at(1, 1, 0), 0), !0);
    assert_eq!(
        bridge.add_behind(root, 0, 0, plain()),
        Err(TopologyError::Occupied)
    );
    assert_eq!(
        bridge.add_behind(first, 0, 0, plain()),
        Err(TopologyError::NoBridge)
    );
    assert_eq!(bridge.add(32, 0, plain()), Err(TopologyError::Number));
    assert_eq!(bridge.add(0, 8, plain()), Err(TopologyError::Number));
}

#[test]
fn ari_functions_beyond_7_answer_while_the_port_forwards_to_them() {
    let mut bridge = HostBridge::new(0..=7);
    let root = bridge.add(1, 0, port(PortType::RootPort)).unwrap();
    number(&mut bridge, at(0, 1, 0), 0, 1, 1);
    let ari = || {
        express()
            .extended_capability(ExtendedCapability::ari())
            .build()
            .unwrap()
    };
    for n in [0, 3, 9, 200] {
        bridge.add_behind(root, n / 8, n % 8, ari()).unwrap();
    }
    let next =
        |bridge: &mut HostBridge, n: u8| read32(bridge, at(1, n / 8, n % 8), 0x104) >> 8 & 0xff;
    assert_eq!(read32(&mut bridge, at(1, 1, 1), 0), !0);
    let express = find_capability(&mut bridge, at(0, 1, 0), 0x10).unwrap();
    bridge
        .write(at(0, 1, 0), express + 0x28, &[1 << 5, 0])
        .unwrap();
    assert_eq!([0, 3, 9, 200].map(|n| next(&mut bridge, n)), [3, 9, 200, 0]);
    bridge.write(at(0, 1, 0), express + 0x28, &[0, 0]).unwrap();
    assert_eq!(read32(&mut bridge, at(1, 1, 1), 0), !0);
}

#[test]
fn a_conventional_bus_does_not_pass_on_extended_registers() {
    let mut bridge = HostBridge::new(0..=7);
    let to_pci = bridge.add(1, 0, port(PortType::ToConventional)).unwrap();
    let back = bridge
        .add_behind(to_pci, 4, 0, port(PortType::FromConventional))
        .unwrap();
    let end = bridge
        .add_behind(back, 0, 0, express().build().unwrap())
        .unwrap();
    number(&mut bridge, at(0, 1, 0), 0, 1, 2);
    number(&mut bridge, at(1, 4, 0), 1, 2, 2);
    assert_eq!(bridge.at(at(2, 0, 0)), Some(end));
    assert_eq!(read32(&mut bridge, at(0, 1, 0), 0x100), 0);
    assert_eq!(read32(&mut bridge, at(1, 4, 0), 0x100), !0);
    assert_eq!(read32(&mut bridge, at(2, 0, 0), 0x100), !0);
    assert_eq!(read32(&mut bridge, at(2, 0, 0), 0), 0x10f5_1af4);
}

#[test]
fn a_bridge_has_its_configured_windows() {
    let bridge = |windows| with(Function::bridge(0x1af4, 1).windows(windows));
    let sizes = |bridge: &mut HostBridge| {
        [0x1c, 0x20, 0x24, 0x28, 0x2c, 0x30].map(|register| sized(bridge, at(0, 0, 0), register))
    };
    let none = WindowKinds {
        io: IoWindow::Absent,
        prefetchable: PrefetchableWindow::Absent,
    };
    assert_eq!(sizes(&mut bridge(none)), [0, 0xfff0_fff0, 0, 0, 0, 0]);
    let small = WindowKinds {
        io: IoWindow::Bits16,
        prefetchable: PrefetchableWindow::Bits32,
    };
    assert_eq!(
        sizes(&mut bridge(small)),
        [0xf0f0, 0xfff0_fff0, 0xfff0_fff0, 0, 0, 0]
    );
    let large = WindowKinds::default();
    assert_eq!(
        sizes(&mut bridge(large)),
        [0xf1f1, 0xfff0_fff0, 0xfff1_fff1, !0, !0, !0]
    );
}

#[test]
fn a_secondary_reset_silences_and_resets_all_that_is_behind() {
    let topology = Topology::new(0..=7).unwrap();
    let mut bridge = topology.bridge;
    number(&mut bridge, at(0, 2, 0), 0, 1, 4);
    number(&mut bridge, at(1, 0, 0), 1, 2, 4);
    write32(&mut bridge, at(1, 0, 0), 0x3c, 0x55);
    write32(&mut bridge, at(0, 3, 0), 0x3c, 0x66);
    let (port, switch) = (topology.root_ports[0], topology.upstream);
    let written = bridge.write(at(0, 2, 0), 0x3e, &[1 << 6]).unwrap();
    // From the written register the VMM derives the bridge, and so the functions to reset.
    assert_eq!((written.function, written.register), (port, 0x3e));
    assert_eq!(bridge.function(switch).unwrap().stored(0x3c), [0]);
    assert_eq!(read32(&mut bridge, at(1, 0, 0), 0), !0);
    bridge.write(at(0, 2, 0), 0x3e, &[0]).unwrap();
    assert_eq!(read32(&mut bridge, at(1, 0, 0), 0), 0x10f2_1af4);
    assert_eq!(read32(&mut bridge, at(1, 0, 0), 0x3c) & 0xff, 0);
    assert_eq!(bridge.at(at(2, 0, 0)), None, "the switch lost its numbers");
    assert_eq!(read32(&mut bridge, at(0, 3, 0), 0x3c) & 0xff, 0x66);
}

#[test]
fn a_removed_function_reads_all_ones_until_another_is_inserted() {
    let topology = Topology::new(0..=7).unwrap();
    let mut bridge = topology.bridge;
    number(&mut bridge, at(0, 2, 0), 0, 1, 4);
    let switch = bridge.remove(topology.upstream).unwrap();
    assert_eq!(read32(&mut bridge, at(1, 0, 0), 0), !0);
    assert_eq!(bridge.store(topology.upstream, 0, &[0]), None);
    assert!(bridge.remove(topology.upstream).is_none());
    bridge.insert(topology.upstream, switch).unwrap();
    assert_eq!(bridge.at(at(1, 0, 0)), Some(topology.upstream));
    let another = endpoint().build().unwrap();
    assert_eq!(
        bridge.insert(topology.upstream, another),
        Err(TopologyError::Occupied)
    );
}

/// A register that shows its number of reads, and the last value written to it.
#[derive(Debug, Default)]
struct Mailbox {
    reads: u8,
    written: u8,
}

impl Volatile for Mailbox {
    fn read(&mut self, register: u16, data: &mut [u8]) {
        self.reads += 1;
        for (at, byte) in (register..).zip(data) {
            match at {
                0x80 => *byte = self.reads,
                0x81 => *byte = self.written,
                _ => {}
            }
        }
    }

    fn write(&mut self, register: u16, data: &[u8]) {
        if register == 0x80 {
            self.written = data[0];
        }
    }
}

#[test]
fn the_device_answers_for_its_volatile_register() {
    let mut bridge = with(endpoint().volatile(0x80..0x82, Mailbox::default()));
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0x80), 1);
    bridge.write(at(0, 0, 0), 0x80, &[9, 0]).unwrap();
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0x80), 0x0902);
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0x7c), 0, "beside it");
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0x80), 0x0903);
    let outside = endpoint().volatile(0xff..0x101, Mailbox::default());
    assert_eq!(outside.build().map(drop), Err(BuildError::Volatile));
    let nowhere = endpoint().volatile(0x80..0x80, Mailbox::default());
    assert_eq!(nowhere.build().map(drop), Err(BuildError::Volatile));
}

#[test]
fn several_volatile_ranges_of_a_function_must_not_overlap() {
    let mailbox = Mailbox::default;
    let two = || {
        endpoint()
            .volatile(0x80..0x82, mailbox())
            .volatile(0x90..0x94, mailbox())
    };
    assert!(two().build().is_ok());
    for range in [0x7f..0x81, 0x81..0x91, 0x93..0x94, 0x80..0x82] {
        let overlapping = two().volatile(range.clone(), mailbox()).build();
        assert_eq!(overlapping.map(drop), Err(BuildError::Volatile));
        let built = two().build().unwrap().with_volatile(range, mailbox());
        assert_eq!(built.map(drop), Err(BuildError::Volatile));
    }
    // Each range has its own device, even for an access that touches both.
    let marked = endpoint()
        .volatile(0x80..0x82, Mark(0x80, 1))
        .volatile(0x82..0x84, Mark(0x82, 2));
    let mut bridge = with(marked);
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0x80), 0x0202_0101);
    let mut shadow = Shadow::new(&bridge, 0..=0);
    let traps = |run: &Run| run.offset != 0;
    shadow.follow(&bridge);
    assert!(
        shadow.runs().all(|run| traps(&run)),
        "its page is not mapped"
    );
}

/// Two registers with these values.
#[derive(Debug)]
struct Mark(u16, u8);

impl Volatile for Mark {
    fn read(&mut self, register: u16, data: &mut [u8]) {
        for (at, byte) in (register..).zip(data) {
            if (self.0..self.0 + 2).contains(&at) {
                *byte = self.1;
            }
        }
    }

    fn write(&mut self, _: u16, _: &[u8]) {}
}

#[test]
fn a_function_returns_the_locations_of_its_capabilities() {
    let function = express()
        .capability(Capability::msi())
        .capability(Capability::vendor(b"first"))
        .capability(Capability::vendor(b"second"))
        .extended_capability(ExtendedCapability::serial_number(7))
        .extended_capability(ExtendedCapability::ari())
        .build()
        .unwrap();
    let landed: Vec<_> = function.capabilities().collect();
    let extended: Vec<_> = function.extended_capabilities().collect();
    let ids: Vec<_> = landed.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [0x10, 0x05, 0x09, 0x09]);
    assert_eq!(extended, [(0x0003, 0x100), (0x000e, 0x10c)]);
    for ((id, register), word) in landed.iter().zip([None, None, Some(b"fi"), Some(b"se")]) {
        assert_eq!(function.stored(*register), [*id]);
        if let Some(word) = word {
            assert_eq!(function.stored(register + 3), *word);
        }
    }
    // The guest finds them at the same place.
    let mut bridge = HostBridge::new(0..=0);
    bridge.add(0, 0, function).unwrap();
    assert_eq!(
        find_capability(&mut bridge, at(0, 0, 0), 0x05),
        Some(landed[1].1)
    );
    // A capability with a volatile register, which memory cannot represent.
    let function = endpoint()
        .capability(Capability::vendor(b"mail"))
        .build()
        .unwrap();
    let (_, vendor) = function.capabilities().next().unwrap();
    let function = function.with_volatile(vendor + 4..vendor + 6, Mailbox::default());
    assert!(function.is_ok());
    let bare = endpoint().build().unwrap();
    assert_eq!(
        (
            bare.capabilities().count(),
            bare.extended_capabilities().count()
        ),
        (0, 0)
    );
}

#[test]
fn a_function_returns_the_address_of_each_bar_and_whether_it_is_decoded() {
    let bars: [(usize, Bar, u64, u64); 3] = [
        (
            0,
            Bar::Memory32(0x1000, Prefetch::No),
            0xc000_1000,
            0xc000_1fff,
        ),
        (1, Bar::Io(0x20), 0xe020, 0xe03f),
        (
            2,
            Bar::Memory64(0x10_0000, Prefetch::Yes),
            0x12_3450_0000,
            0x12_345f_ffff,
        ),
    ];
    let builder = bars
        .iter()
        .fold(endpoint(), |all, (n, bar, ..)| all.bar(*n, *bar));
    let mut bridge = with(builder);
    let address = at(0, 0, 0);
    let id = bridge.at(address).unwrap();
    for (number, _, first, last) in bars {
        // A guest may write the bits below the size. They are not kept.
        write32(&mut bridge, address, 0x10 + 4 * number as u16, last as u32);
        if number == 2 {
            write32(&mut bridge, address, 0x1c, (first >> 32) as u32);
        }
    }
    for (enabled, io, memory) in [
        (0, Decoding::Off, Decoding::Off),
        (1, Decoding::On, Decoding::Off),
        (2, Decoding::Off, Decoding::On),
        (3, Decoding::On, Decoding::On),
    ] {
        write32(&mut bridge, address, 0x04, enabled);
        let function = bridge.function(id).unwrap();
        for (number, bar, address, _) in bars {
            let decoding = if number == 1 { io } else { memory };
            let place = BarPlace {
                bar,
                address,
                decoding,
            };
            assert_eq!(function.bar(number), Some(place));
        }
        // The upper half of the third BAR, and a BAR that does not exist.
        assert_eq!(
            [3, 4, usize::MAX].map(|number| function.bar(number)),
            [None; 3]
        );
    }
}

#[test]
fn a_restored_bridge_reads_as_the_saved_one() {
    let mut saved = Topology::new(0..=7).unwrap().bridge;
    number(&mut saved, at(0, 2, 0), 0, 1, 4);
    number(&mut saved, at(1, 0, 0), 1, 2, 4);
    write32(&mut saved, at(0, 1, 0), 0x10, 0xfeb0_0000);
    saved.port_write(0, &0x8000_0810u32.to_le_bytes());
    let json = serde_json::to_string(&saved.save()).unwrap();
    assert!(json.len() < 1_000, "{json}");
    let mut other = Topology::new(0..=7).unwrap().bridge;
    write32(&mut other, at(0, 1, 0), 0x3c, 0x77);
    other.restore(&serde_json::from_str(&json).unwrap());
    assert_eq!(other.save(), saved.save());
    for offset in (0..saved.ecam_size()).step_by(64) {
        let [mut a, mut b] = [[0; 64]; 2];
        saved.ecam_read(offset, &mut a);
        other.ecam_read(offset, &mut b);
        assert_eq!(a, b, "{offset:#x}");
    }
}

#[test]
fn a_state_from_an_attacker_changes_only_what_a_guest_could() {
    let everything: Vec<(u32, u8)> = (0..0x1100).map(|at| (at, 0xff)).collect();
    let functions = vec![Some(everything); 20];
    let json = serde_json::json!({ "index": u32::MAX, "functions": functions });
    let mut bridge = Topology::new(0..=7).unwrap().bridge;
    bridge.restore(&serde_json::from_value(json).unwrap());
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0), 0x10f0_1af4);
    assert_eq!(read32(&mut bridge, at(0, 1, 0), 0x10), 0xffff_f000);
    let mut index = [0; 4];
    bridge.port_read(0, &mut index);
    assert_eq!(u32::from_le_bytes(index), 0x80ff_fffc);
    assert_eq!(read32(&mut bridge, at(0, 0, 0), 0x100), !0);
}

/// A scan with bus numbers alone finds every function of the topology.
#[test]
fn a_scan_finds_the_topology() {
    let mut bridge = Topology::new(0..=7).unwrap().bridge;
    let places: Vec<FunctionId> = bridge.functions().map(|(id, _)| id).collect();
    for (address, secondary, last) in [
        (at(0, 2, 0), 1, 4),
        (at(1, 0, 0), 2, 4),
        (at(2, 0, 0), 3, 3),
        (at(2, 1, 0), 4, 4),
        (at(0, 3, 0), 5, 5),
        (at(0, 4, 0), 6, 6),
    ] {
        number(&mut bridge, address, address.bus(), secondary, last);
    }
    let found: Vec<(Address, FunctionId)> = (0..0x800)
        .map(Address::from_bits)
        .filter_map(|address| Some((address, bridge.at(address)?)))
        .collect();
    let addresses: Vec<String> = found.iter().map(|(at, _)| at.to_string()).collect();
    let expected = "00:00.0 00:01.0 00:01.1 00:01.3 00:02.0 00:03.0 00:04.0 01:00.0 02:00.0 \
                    02:01.0 03:00.0 04:00.0 05:00.0 06:02.0";
    assert_eq!(addresses.join(" "), expected);
    let mut ids: Vec<FunctionId> = found.iter().map(|&(_, id)| id).collect();
    ids.sort_unstable();
    assert_eq!(ids, places);
}
