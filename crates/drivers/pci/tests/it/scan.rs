//! The functions that a scan finds, its accesses, and its reports.

use crate::common;

use crate::common::{Fake, Tree, at};
use nostall_io::Counts;
use nostall_pci::registers::*;
use nostall_pci::{
    BusFault, CapabilityFault, Class, Ecam, Header, PortType, Scan, ScanFault, Subsystem, Unread,
    WrongPort,
};

const ROOT_PORT: u32 = 4;
const UPSTREAM: u32 = 5;
const DOWNSTREAM: u32 = 6;
const TO_PCI: u32 = 7;

/// Scans the whole tree. Returns the functions as text, and the faults.
fn scan(tree: &Tree) -> (Vec<String>, Vec<ScanFault>) {
    split(Scan::new(&tree.ecam(), 0, 0..=255))
}

fn split(
    scan: impl Iterator<Item = Result<nostall_pci::Function, ScanFault>>,
) -> (Vec<String>, Vec<ScanFault>) {
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    for one in scan {
        match one {
            Ok(function) => found.push(function.address.to_string()[5..].to_string()),
            Err(fault) => faults.push(fault),
        }
    }
    (found, faults)
}

/// Returns a host bridge, a device with three functions, a root port with a device, and a switch
/// with two ports. Below one of these is a bridge to PCI with two devices.
fn nested() -> Tree {
    let tree = Tree::default();
    tree.put(None, 0, 0, Fake::host_bridge());
    tree.put(None, 2, 0, Fake::new(0x1000, 0x02_0000).multi());
    tree.put(None, 2, 1, Fake::new(0x1001, 0x01_0000));
    tree.put(None, 2, 5, Fake::new(0x1002, 0x01_0000));
    let port = tree.put(None, 3, 0, Fake::bridge(1, 0, 1, 1).express(ROOT_PORT));
    tree.put(Some(port), 0, 0, Fake::new(0x1041, 0x02_0000));
    let port = tree.put(None, 4, 0, Fake::bridge(2, 0, 2, 6).express(ROOT_PORT));
    let up = tree.put(Some(port), 0, 0, Fake::bridge(3, 2, 3, 6).express(UPSTREAM));
    let down = tree.put(Some(up), 0, 0, Fake::bridge(4, 3, 4, 4).express(DOWNSTREAM));
    tree.put(Some(down), 0, 0, Fake::new(0x1042, 0x01_0000).ghost());
    let down = tree.put(Some(up), 1, 0, Fake::bridge(5, 3, 5, 6).express(DOWNSTREAM));
    let pci = tree.put(Some(down), 0, 0, Fake::bridge(6, 5, 6, 6).express(TO_PCI));
    tree.put(Some(pci), 0, 0, Fake::new(0x100e, 0x02_0000));
    tree.put(Some(pci), 31, 0, Fake::new(0x100f, 0x02_0000));
    tree
}

#[test]
fn functions_come_in_the_order_of_their_addresses() {
    let (found, faults) = scan(&nested());
    let expected = [
        "00:00.0", "00:02.0", "00:02.1", "00:02.5", "00:03.0", "00:04.0", "01:00.0", "02:00.0",
        "03:00.0", "03:01.0", "04:00.0", "05:00.0", "06:00.0", "06:1f.0",
    ];
    assert_eq!(found, expected);
    assert_eq!(faults, []);
}

#[test]
fn a_scan_takes_five_accesses_a_function_and_writes_nothing() {
    let tree = nested();
    let ecam = tree.ecam();
    assert_eq!(Scan::new(&ecam, 0, 0..=255).count(), 14);
    let headers = 14 * 5;
    // Devices that may be absent on buses 0, 3 and 6, and functions of 00:02.
    let absent = (32 - 4) + (32 - 2) + (32 - 2) + 5;
    // Status, pointer and capability of each bridge. For a port with a link, also whether it
    // forwards ARI.
    let bridges = 6 * 3 + 4;
    let expected = Counts {
        reads: headers + absent + bridges,
        ..Counts::default()
    };
    assert_eq!(ecam.window().counts(), expected);
}

#[test]
fn a_header_has_the_right_fields() {
    let tree = nested();
    let ecam = tree.ecam();
    let nic = common::function(&ecam, at(0, 2, 0));
    assert_eq!((nic.vendor, nic.device, nic.revision), (0x1af4, 0x1000, 1));
    assert_eq!(nic.class, Class::new(0x02, 0x00, 0x00));
    assert_eq!(nic.class.to_string(), "0200");
    assert_eq!(nic.to_string(), "0000:00:02.0 0200: 1af4:1000");
    assert!(nic.multi_function);
    let board = Subsystem {
        vendor: 0x1af4,
        device: 2,
    };
    assert_eq!(nic.header, Header::Endpoint(board));
    assert_eq!((nic.interrupt.line, nic.interrupt.pin), (11, 1));

    let bridge = common::function(&ecam, at(2, 0, 0));
    assert_eq!(bridge.subsystem(), None);
    let buses = bridge.buses().unwrap();
    assert_eq!(buses.to_string(), "02 to 03-06");
    assert_eq!(bridge.header.number(), 1);
}

#[test]
fn an_absent_function_reads_all_ones_or_zeros_on_broken_boards() {
    let tree = Tree::default();
    for (device, id) in [0, 0xffff_0000, 0xffff, 0x1234_ffff, !0]
        .into_iter()
        .enumerate()
    {
        let mut fake = Fake::new(1, 0);
        fake.set32(VENDOR_ID, id);
        tree.put(None, device as u8, 0, fake);
    }
    assert_eq!(scan(&tree), (vec![], vec![]));
}

#[test]
fn a_device_that_is_not_ready_is_reported() {
    let tree = Tree::default();
    let mut fake = Fake::new(1, 0);
    fake.set32(VENDOR_ID, 0xffff_0001);
    tree.put(None, 7, 0, fake);
    tree.put(None, 8, 0, Fake::new(1, 0));
    let fault = ScanFault::Unread {
        address: at(0, 7, 0),
        why: Unread::NotReady,
    };
    assert_eq!(scan(&tree), (vec!["00:08.0".into()], vec![fault]));
}

#[test]
fn a_function_that_vanishes_in_mid_scan_is_reported_and_the_scan_continues() {
    for lives in 1..5 {
        let tree = Tree::default();
        tree.put(None, 1, 0, Fake::new(1, 0x02_0000).lives(lives));
        tree.put(None, 2, 0, Fake::new(2, 0x02_0000));
        let fault = ScanFault::Unread {
            address: at(0, 1, 0),
            why: Unread::Vanished,
        };
        assert_eq!(
            scan(&tree),
            (vec!["00:02.0".into()], vec![fault]),
            "{lives}"
        );
    }
    // A bridge that vanishes while its capabilities are read.
    for lives in 5..8 {
        let tree = Tree::default();
        let bridge = Fake::bridge(1, 0, 1, 1).express(ROOT_PORT).lives(lives);
        let bridge = tree.put(None, 1, 0, bridge);
        tree.put(Some(bridge), 0, 0, Fake::new(2, 0x02_0000));
        let (_, faults) = scan(&tree);
        let address = at(0, 1, 0);
        assert!(
            matches!(faults[..], [ScanFault::Capabilities { address: a, .. }] if a == address),
            "{lives}: {faults:?}"
        );
    }
}

#[test]
fn all_ones_in_one_register_of_a_present_function_are_accepted() {
    let tree = Tree::default();
    let mut fake = Fake::new(1, 0x02_0000);
    fake.set32(SUBSYSTEM_VENDOR_ID, !0);
    tree.put(None, 1, 0, fake);
    assert_eq!(scan(&tree), (vec!["00:01.0".into()], vec![]));
}

#[test]
fn bridges_with_impossible_bus_numbers_are_reported_and_not_entered() {
    use BusFault::*;
    let bridge = |primary, secondary, subordinate| {
        let tree = Tree::default();
        let outer = tree.put(None, 1, 0, Fake::bridge(1, 0, 2, 9));
        tree.put(None, 2, 0, Fake::bridge(2, 0, 10, 12));
        let inner = Fake::bridge(3, primary, secondary, subordinate);
        tree.put(Some(outer), 0, 0, inner);
        let (_, faults) = scan(&tree);
        faults
            .iter()
            .map(|fault| match fault {
                ScanFault::Buses { address, why, .. } if *address == at(2, 0, 0) => *why,
                other => panic!("{other}"),
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(bridge(2, 3, 9), []);
    assert_eq!(bridge(2, 9, 9), []);
    assert_eq!(bridge(0, 0, 0), [NotAssigned]);
    assert_eq!(bridge(2, 5, 4), [Backwards]);
    assert_eq!(bridge(2, 2, 2), [OutsideParent]); // itself
    assert_eq!(bridge(2, 1, 3), [OutsideParent]);
    assert_eq!(bridge(2, 3, 10), [Beyond(9)]); // buses of its parent's sibling
    assert_eq!(bridge(2, 3, 255), [Beyond(9)]);
    assert_eq!(bridge(2, 11, 11), [OutsideParent]); // buses of its parent's sibling
}

#[test]
fn of_two_bridges_with_the_same_buses_the_first_is_entered() {
    for (secondary, subordinate) in [(1, 1), (2, 2), (3, 5), (1, 5)] {
        let tree = Tree::default();
        let first = tree.put(None, 1, 0, Fake::bridge(1, 0, 1, 3));
        tree.put(Some(first), 0, 0, Fake::new(1, 0x02_0000));
        tree.put(None, 2, 0, Fake::bridge(2, 0, secondary, subordinate));
        let (found, faults) = scan(&tree);
        assert_eq!(found, ["00:01.0", "00:02.0", "01:00.0"]);
        let [ScanFault::Buses { address, why, .. }] = faults[..] else {
            panic!("{faults:?}");
        };
        assert_eq!((address, why), (at(0, 2, 0), BusFault::Taken));
    }
}

#[test]
fn a_scan_stays_within_the_given_buses() {
    let tree = nested();
    let (found, faults) = split(Scan::new(&tree.ecam(), 0, 0..=3));
    assert!(found.iter().all(|address| &address[..2] <= "03"));
    let why: Vec<_> = faults
        .iter()
        .map(|fault| match fault {
            ScanFault::Buses { why, .. } => *why,
            other => panic!("{other}"),
        })
        .collect();
    use BusFault::*;
    let expected = [Beyond(3), Beyond(3), OutsideParent, OutsideParent];
    assert_eq!(why, expected);
    // The same buses, from another root.
    let (found, _) = split(Scan::new(&tree.ecam(), 0, 3..=255));
    assert_eq!(found[0], "03:00.0");
    // An empty range of buses.
    #[expect(clippy::reversed_empty_ranges)]
    let none = Scan::new(&tree.ecam(), 0, 3..=2).count();
    assert_eq!(none, 0);
}

#[test]
fn a_bridge_whose_buses_end_too_late_is_entered_as_far_as_possible() {
    // MCFG has buses 0 to 0x3f, but the firmware's last bridge ends at bus 0xff.
    let tree = Tree::default();
    let first = tree.put(None, 1, 0, Fake::bridge(1, 0, 1, 1));
    tree.put(Some(first), 0, 0, Fake::new(1, 0x02_0000));
    let last = tree.put(None, 2, 0, Fake::bridge(1, 0, 2, 0xff));
    let inner = tree.put(Some(last), 0, 0, Fake::bridge(1, 2, 3, 0xff));
    tree.put(Some(inner), 0, 0, Fake::new(2, 0x02_0000));
    let ecam = Ecam::new(&tree, 0, 0..=0x3f);
    let (found, faults) = split(Scan::new(&ecam, 0, ecam.buses()));
    assert_eq!(
        found,
        ["00:01.0", "00:02.0", "01:00.0", "02:00.0", "03:00.0"]
    );
    let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
    let expected = [
        "0000:00:02.0: bridge 00 to 02-ff entered in part: no bus after 3f can be below it or is \
         scanned",
        "0000:02:00.0: bridge 02 to 03-ff entered in part: no bus after 3f can be below it or is \
         scanned",
    ];
    assert_eq!(told, expected);
}

#[test]
fn unreachable_buses_are_reported() {
    let tree = nested();
    let ecam = Ecam::new(&tree, 0, 0..=4);
    let (found, faults) = split(Scan::new(&ecam, 0, 0..=255));
    assert_eq!(found.last().unwrap(), "04:00.0");
    assert_eq!(faults, [ScanFault::OutOfReach(at(5, 0, 0))]);
    assert_eq!(Scan::new(&ecam, 1, 0..=255).count(), 1);
}

#[test]
fn a_capability_list_that_loops_is_reported_and_the_bridge_entered() {
    let tree = Tree::default();
    let mut bridge = Fake::bridge(1, 0, 1, 1).capabilities(&[(0x50, 0x05), (0x60, 0x11)]);
    bridge.bytes[0x61] = 0x50;
    let bridge = tree.put(None, 1, 0, bridge);
    tree.put(Some(bridge), 3, 0, Fake::new(1, 0x02_0000));
    let fault = ScanFault::Capabilities {
        address: at(0, 1, 0),
        why: CapabilityFault::Loop(0x50),
    };
    let found = vec!["00:01.0".to_string(), "01:03.0".to_string()];
    assert_eq!(scan(&tree), (found, vec![fault]));
}

#[test]
fn a_device_without_function_0_is_absent() {
    let tree = Tree::default();
    tree.put(None, 1, 1, Fake::new(1, 0x02_0000).multi());
    assert_eq!(scan(&tree), (vec![], vec![]));
}

/// Returns a root port, a switch with two ports, and a device below each. The switch's port towards
/// the root reports type `up`, and its other ports report `down`.
fn switch(up: u32, down: u32) -> Tree {
    let tree = Tree::default();
    tree.put(None, 0, 0, Fake::host_bridge());
    let port = tree.put(None, 1, 0, Fake::bridge(1, 0, 1, 4).express(ROOT_PORT));
    let up = tree.put(Some(port), 0, 0, Fake::bridge(2, 1, 2, 4).express(up));
    for (device, bus) in [(0, 3), (1, 4)] {
        let down = Fake::bridge(3, 2, bus, bus).express(down);
        let down = tree.put(Some(up), device, 0, down);
        tree.put(Some(down), 0, 0, Fake::new(4, 0x02_0000).ghost());
    }
    tree
}

#[test]
fn a_switch_port_with_a_wrong_type_hides_no_function_and_is_reported() {
    let (all, none) = scan(&switch(UPSTREAM, DOWNSTREAM));
    assert_eq!((all.len(), none), (7, vec![]));
    let said =
        |faults: Vec<ScanFault>| -> Vec<_> { faults.iter().map(ToString::to_string).collect() };
    // The port towards the root has the wrong type: a link cannot lead to a downstream port.
    let (found, faults) = scan(&switch(DOWNSTREAM, DOWNSTREAM));
    assert_eq!(found, all);
    assert_eq!(
        said(faults),
        [
            "0000:01:00.0: says that it is a downstream port, which cannot be below a downstream or root \
          port: taken for an upstream port"
        ]
    );
    // The ports away from the root have the wrong type: inside a switch, no port leads to the root.
    // The device below responds once, not 32 times.
    let (found, faults) = scan(&switch(UPSTREAM, UPSTREAM));
    assert_eq!(found, all);
    let expected = [0, 1].map(|device| ScanFault::Port {
        address: at(2, device, 0),
        why: WrongPort {
            says: PortType::UpstreamPort,
            is: PortType::DownstreamPort,
        },
    });
    assert_eq!(faults, expected);
    // All types are wrong. The corrected type of the port above decides the type of each port.
    let (found, faults) = scan(&switch(DOWNSTREAM, UPSTREAM));
    assert_eq!((found, faults.len()), (all, 3));
}

/// Returns a port and a device of functions 0, 1, 8 and 255.
fn with_ari(forwards: bool) -> Tree {
    let tree = Tree::default();
    let port = Fake::bridge(1, 0, 1, 1)
        .express(ROOT_PORT)
        .ari_port(forwards);
    let port = tree.put(None, 1, 0, port);
    tree.put(Some(port), 0, 0, Fake::new(1, 0x02_0000).ari(1).multi());
    tree.put(Some(port), 0, 1, Fake::new(2, 0x02_0000).ari(8));
    tree.put(Some(port), 1, 0, Fake::new(3, 0x02_0000).ari(255));
    tree.put(Some(port), 31, 7, Fake::new(4, 0x02_0000).ari(0));
    tree
}

#[test]
fn with_ari_a_scan_follows_the_list_of_functions() {
    let tree = with_ari(true);
    let ecam = tree.ecam();
    let (found, faults) = split(Scan::new(&ecam, 0, 0..=255));
    assert_eq!(
        found,
        ["00:01.0", "01:00.0", "01:00.1", "01:01.0", "01:1f.7"]
    );
    assert_eq!(faults, []);
    // Five for each function, 31 for absent devices, four for the port (status, pointer,
    // capability, control), and two for each link of the list.
    assert_eq!(ecam.window().counts().reads, 5 * 5 + 31 + 4 + 4 * 2);
}

#[test]
fn ari_is_enabled_only_on_request() {
    let tree = with_ari(false);
    let (found, _) = scan(&tree);
    assert_eq!(found, ["00:01.0", "01:00.0", "01:00.1"]);
    let ecam = tree.ecam();
    let (found, faults) = split(Scan::new(&ecam, 0, 0..=255).enabling_ari());
    assert_eq!(found.len(), 5);
    assert_eq!(faults, []);
    assert_eq!(ecam.window().counts().writes, 1);

    // Not if the device lacks it.
    let tree = Tree::default();
    let port = Fake::bridge(1, 0, 1, 1).express(ROOT_PORT).ari_port(false);
    let port = tree.put(None, 1, 0, port);
    tree.put(Some(port), 0, 0, Fake::new(1, 0x02_0000).multi());
    tree.put(Some(port), 0, 6, Fake::new(1, 0x02_0000));
    let ecam = tree.ecam();
    assert_eq!(Scan::new(&ecam, 0, 0..=255).enabling_ari().count(), 3);
    assert_eq!(ecam.window().counts().writes, 0);
}

#[test]
fn a_loop_of_ari_functions_is_reported() {
    let tree = with_ari(true);
    tree.functions.borrow_mut()[3].fake.set16(0x104, 0x0100);
    let (found, faults) = scan(&tree);
    assert_eq!(found.len(), 4);
    let fault = ScanFault::NextFunction {
        address: at(1, 1, 0),
        next: 1,
    };
    assert_eq!(faults, [fault]);
    assert_eq!(
        fault.to_string(),
        "0000:01:01.0: names 1 as its next function, which is not after it"
    );
}
