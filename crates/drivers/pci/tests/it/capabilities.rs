//! Capability lists, valid and damaged.

use crate::common::{Fake, Tree, at, function};
use nostall_pci::registers::*;
use nostall_pci::{
    Capabilities, Capability, CapabilityFault, Express, ExtendedCapabilities, ExtendedCapability,
    PortType,
};
use proptest::prelude::*;

fn tree(fake: Fake) -> Tree {
    let tree = Tree::default();
    tree.put(None, 1, 0, fake);
    tree
}

fn list(fake: Fake) -> Vec<Result<Capability, CapabilityFault>> {
    let tree = tree(fake);
    let ecam = tree.ecam();
    let function = function(&ecam, at(0, 1, 0));
    // The limit of 100 is above the longest list, in case a list does not end.
    Capabilities::new(&ecam, &function).take(100).collect()
}

fn extended(fake: Fake) -> Vec<Result<ExtendedCapability, CapabilityFault>> {
    let tree = tree(fake);
    let ecam = tree.ecam();
    let function = function(&ecam, at(0, 1, 0));
    ExtendedCapabilities::new(&ecam, &function)
        .take(2000)
        .collect()
}

fn endpoint() -> Fake {
    Fake::new(0x1041, 0x02_0000)
}

#[test]
fn capabilities_come_in_the_order_of_the_list_with_one_access_each() {
    let tree = tree(endpoint().capabilities(&[
        (0x98, 0x8001_0011),
        (0x40, 0x0142_0010),
        (0xfc, 0x0000_0009),
        (0x50, 0x0000_00fe),
    ]));
    let ecam = tree.ecam();
    let function = function(&ecam, at(0, 1, 0));
    let before = ecam.window().counts();
    let found: Vec<_> = Capabilities::new(&ecam, &function)
        .map(Result::unwrap)
        .collect();
    assert_eq!((ecam.window().counts() - before).reads, 2 + 4);
    let names: Vec<_> = found.iter().map(|one| (one.register, one.name())).collect();
    let expected = [
        (0x98, Some("msi-x")),
        (0x40, Some("pcie")),
        (0xfc, Some("vendor")),
        (0x50, None),
    ];
    assert_eq!(names, expected);
    assert_eq!(found[0].word, 0x8001);
    assert_eq!(Express::of(&found[0]), None);
    let express = Express::of(&found[1]).unwrap();
    assert_eq!((express.version, express.port), (2, PortType::RootPort));
    assert!(express.slot);
    let found = Capabilities::new(&ecam, &function).find(0x09);
    assert_eq!(found.unwrap().register, 0xfc);
}

#[test]
fn without_the_bit_in_status_there_are_none() {
    let mut fake = endpoint().capabilities(&[(0x40, 0x05)]);
    fake.set16(STATUS, 0xffef);
    assert_eq!(list(fake), []);
}

#[test]
fn the_lower_bits_of_pointers_are_ignored() {
    let mut fake = endpoint().capabilities(&[(0x40, 0x05), (0x48, 0x11)]);
    fake.bytes[usize::from(CAPABILITIES_POINTER)] |= 3;
    fake.bytes[0x41] |= 2;
    assert_eq!(list(fake).len(), 2);
}

#[test]
fn a_loop_in_the_list_is_reported() {
    let mut fake = endpoint().capabilities(&[(0x40, 0x05), (0x48, 0x11)]);
    fake.bytes[0x49] = 0x40;
    let found = list(fake);
    assert_eq!(found.len(), 3);
    assert_eq!(found[2], Err(CapabilityFault::Loop(0x40)));
}

#[test]
fn a_pointer_into_the_header_is_reported() {
    let mut fake = endpoint().capabilities(&[(0x40, 0x05)]);
    fake.bytes[0x41] = 0x3c;
    assert_eq!(list(fake)[1], Err(CapabilityFault::InHeader(0x3c)));
    let mut fake = extended_list(&[(0x100, 1)]);
    fake.set32(0x100, 0x0fc1_0001);
    assert_eq!(extended(fake)[1], Err(CapabilityFault::InHeader(0xfc)));
}

#[test]
fn the_longest_lists_are_read_to_their_ends() {
    let all: Vec<_> = (0x10..0x40).map(|n| (n * 4, 0x09)).collect();
    let found = list(endpoint().capabilities(&all));
    assert_eq!(found.len(), 48);
    assert!(found.iter().all(Result::is_ok));

    let all: Vec<_> = (0x40..0x400).map(|n| (n * 4, 0x0b)).collect();
    let found = extended(extended_list(&all));
    assert_eq!(found.len(), 960);
    assert!(found.iter().all(Result::is_ok));
}

fn extended_list(list: &[(u16, u16)]) -> Fake {
    let mut fake = endpoint().express(0);
    for (n, (at, id)) in list.iter().enumerate() {
        let next = list.get(n + 1).map_or(0, |next| next.0);
        fake.set32(*at, u32::from(next) << 20 | 1 << 16 | u32::from(*id));
    }
    fake
}

#[test]
fn extended_capabilities_come_in_the_order_of_the_list() {
    let found = extended(extended_list(&[
        (0x100, 1),
        (0xffc, 3),
        (0x148, 0xe),
        (0x200, 0xbbb),
    ]));
    let found: Vec<_> = found
        .into_iter()
        .map(|one| one.map(|one| (one.register, one.version, one.name())))
        .collect();
    let expected = [
        Ok((0x100, 1, Some("aer"))),
        Ok((0xffc, 1, Some("serial-number"))),
        Ok((0x148, 1, Some("ari"))),
        Ok((0x200, 1, None)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn zeros_end_a_list_of_extended_capabilities_wherever_they_are() {
    let mut fake = extended_list(&[(0x100, 1), (0x200, 3), (0x300, 0xe)]);
    fake.set32(0x200, 0);
    let found = extended(fake);
    assert_eq!(found.len(), 1);
    assert!(found[0].is_ok());
    // An entry without an ID that has a successor is a capability.
    let found = extended(extended_list(&[(0x100, 1), (0x200, 0), (0x300, 0xe)]));
    let names: Vec<_> = found.iter().map(|one| one.unwrap().name()).collect();
    assert_eq!(names, [Some("aer"), Some("null"), Some("ari")]);
}

#[test]
fn a_loop_of_extended_capabilities_is_reported() {
    let mut fake = extended_list(&[(0x100, 1), (0x200, 3)]);
    fake.set32(0x200, 0x2001_0003);
    let found = extended(fake);
    assert_eq!(found.len(), 3);
    assert_eq!(found[2], Err(CapabilityFault::Loop(0x200)));
}

#[test]
fn a_repeated_header_means_no_extended_capabilities() {
    let mut fake = endpoint();
    let header: Vec<u8> = fake.bytes[..256].to_vec();
    for copy in fake.bytes.chunks_exact_mut(256) {
        copy.copy_from_slice(&header);
    }
    assert_eq!(extended(fake), []);
    let mut fake = endpoint();
    fake.bytes[256..].fill(0xff);
    assert_eq!(extended(fake), []);
    assert_eq!(extended(endpoint()), []);
}

#[test]
fn a_function_that_vanishes_ends_its_lists() {
    for lives in 5..8 {
        let found = list(
            endpoint()
                .capabilities(&[(0x40, 5), (0x48, 0x11)])
                .lives(lives),
        );
        assert!(found.len() <= 2);
        assert!(found.last().unwrap().is_err(), "{lives}: {found:?}");
    }
    let found = extended(extended_list(&[(0x100, 1), (0x200, 3)]).lives(6));
    assert_eq!(found[1..], [Err(CapabilityFault::Vanished)]);
}

#[test]
fn a_function_that_is_not_a_port_has_no_slot() {
    for (number, port) in [
        (0, PortType::Endpoint),
        (1, PortType::LegacyEndpoint),
        (5, PortType::UpstreamPort),
        (7, PortType::ToPci),
        (9, PortType::RootComplexEndpoint),
        (10, PortType::EventCollector),
        (15, PortType::Unknown(15)),
    ] {
        let capability = Capability {
            id: Capability::PCIE,
            register: 0x40,
            word: 1 << 8 | number << 4 | 2,
        };
        let express = Express::of(&capability).unwrap();
        assert_eq!((express.port, express.slot), (port, false));
    }
}

proptest! {
    #[test]
    fn lists_end_for_any_register_values(
        noise in prop::collection::vec(any::<u8>(), 4096), kind in 0u8..4,
    ) {
        let mut fake = endpoint();
        fake.bytes[0x10..].copy_from_slice(&noise[0x10..]);
        fake.bytes[0x0e] = kind;
        fake.set16(STATUS, 0x10);
        prop_assert!(list(fake.clone()).len() <= 49);
        prop_assert!(extended(fake).len() <= 961);
    }
}
