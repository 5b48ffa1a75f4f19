//! Bus numbers and addresses, assigned on machines without firmware that has done it.

use std::cell::Cell;
use std::ops::Range;

use crate::common::{Fake, Tree, at, function};
use nostall_pci::registers::*;
use nostall_pci::{
    AccessError, Address, AssignFault, Assigned, BadRanges, Bar, BarKind, BarSlot, ConfigAccess,
    Decoding, Function, Header, PortType, Ranges, Register, Scan, ScanFault, assign, bars,
};
use proptest::prelude::*;

const MEMORY: u32 = 0x0;
const IO: u32 = 0x1;
const WIDE: u32 = 0x4;
const PREFETCHABLE: u32 = 0x8;

/// Returns the ranges of QEMU's riscv64 `virt` machine.
fn ranges() -> Ranges {
    Ranges {
        buses: 0..=255,
        io: 0..0x1_0000,
        memory: 0x4000_0000..0x8000_0000,
        prefetchable: 0x4_0000_0000..0x8_0000_0000,
    }
}

fn run(tree: &Tree, ranges: &Ranges, decoding: Decoding) -> (Assigned, Vec<AssignFault>) {
    let mut faults = Vec::new();
    let mut slots = slots();
    let done = assign(&tree.ecam(), 0, ranges, decoding, &mut slots, |fault| {
        faults.push(fault)
    });
    (done.unwrap(), faults)
}

fn slots() -> Vec<BarSlot> {
    vec![BarSlot::EMPTY; 8192]
}

/// Returns a bridge in its state after reset.
fn fresh() -> Fake {
    Fake::bridge(0xb, 0, 0, 0)
}

fn nic() -> Fake {
    Fake::new(0x1041, 0x02_0000)
        .bar(0, IO, 0x20)
        .bar(1, MEMORY, 0x1000)
        .bar(4, WIDE | PREFETCHABLE, 0x4000)
        .rom(0x4_0000)
}

/// Returns a tree with a host bridge, two root ports and a NIC on the root bus. The first port has a
/// BAR of its own, and a NIC below it. Below the second port is a switch with two NICs.
fn nested() -> Tree {
    let tree = Tree::default();
    tree.put(None, 0, 0, Fake::host_bridge());
    let port = tree.put(None, 1, 0, fresh().express(4).bar(0, MEMORY, 0x1000));
    tree.put(Some(port), 0, 0, nic());
    let port = tree.put(None, 2, 0, fresh().express(4));
    let up = tree.put(Some(port), 0, 0, fresh().express(5));
    for device in 0..2 {
        let down = tree.put(Some(up), device, 0, fresh().express(6));
        tree.put(Some(down), 0, 0, nic());
    }
    tree.put(None, 3, 0, nic());
    tree
}

#[test]
fn buses_are_numbered_depth_first() {
    let tree = nested();
    let (done, faults) = run(&tree, &ranges(), Decoding::Off);
    assert_eq!(faults, []);
    assert_eq!(done.last_bus, 5);
    assert_eq!((done.placed, done.left), (4 * 4 + 1, 0));
    let ecam = tree.ecam();
    let buses: Vec<_> = Scan::new(&ecam, 0, 0..=255)
        .map(Result::unwrap)
        .filter_map(|function| Some(format!("{} {}", function.address, function.buses()?)))
        .collect();
    let expected = [
        "0000:00:01.0 00 to 01-01",
        "0000:00:02.0 00 to 02-05",
        "0000:02:00.0 02 to 03-05",
        "0000:03:00.0 03 to 04-04",
        "0000:03:01.0 03 to 05-05",
    ];
    assert_eq!(buses, expected);
    // A register in the same word as the bus numbers is not changed.
    assert_eq!(ecam.at(at(0, 1, 0)).read8(0x1b), Ok(0x40));
}

#[test]
fn functions_below_a_switch_port_with_a_wrong_type_get_addresses() {
    let tree = nested();
    // The switch's port to the root misreports its type.
    tree.functions.borrow_mut()[4].fake.set32(0x40, 0x0062_0010);
    let (done, faults) = run(&tree, &ranges(), Decoding::Off);
    assert_eq!((done.last_bus, done.left), (5, 0));
    let [AssignFault::Scan(ScanFault::Port { address, why })] = faults[..] else {
        panic!("{faults:?}");
    };
    assert_eq!((address, why.is), (at(2, 0, 0), PortType::UpstreamPort));
}

#[test]
fn no_two_bridges_ever_claim_one_bus_with_any_old_numbers() {
    let fresh = nested();
    run(&fresh, &ranges(), Decoding::On);
    let tree = nested();
    // Firmware left room behind the first port, and a switch was moved.
    let bridges = [
        (1, 0x04_0100),
        (3, 0xff_0100),
        (4, 0x08_0303),
        (5, 0x07_0100),
        (7, 0x01_0203),
    ];
    for (index, numbers) in bridges {
        let fake = &mut tree.functions.borrow_mut()[index].fake;
        assert_eq!(fake.bytes[usize::from(HEADER_TYPE)], 1, "{index}");
        fake.set32(PRIMARY_BUS, 0x4000_0000 | numbers);
    }
    run(&tree, &ranges(), Decoding::On);
    assert_eq!(tree.disputed.get(), 0);
    assert_eq!(tree.contents(), fresh.contents());
}

#[test]
fn a_bridge_forwards_all_of_its_io_window_and_keeps_its_other_controls() {
    const VGA: u16 = 1 << 3;
    let tree = nested();
    {
        let port = &mut tree.functions.borrow_mut()[1].fake;
        port.set16(BRIDGE_CONTROL, VGA | BRIDGE_CONTROL_ISA);
        port.mask16(BRIDGE_CONTROL, VGA | BRIDGE_CONTROL_ISA);
    }
    run(&tree, &ranges(), Decoding::On);
    assert_eq!(tree.ecam().at(at(0, 1, 0)).read16(BRIDGE_CONTROL), Ok(VGA));
}

#[test]
fn windows_contain_only_the_functions_below() {
    let tree = nested();
    run(&tree, &ranges(), Decoding::Off);
    let ecam = tree.ecam();
    // On the root bus the largest alignment of I/O comes first, and address 0 is not used.
    assert_eq!(windows(&ecam, at(0, 1, 0))[0], 0x1000..0x2000);
    assert_eq!(windows(&ecam, at(0, 2, 0))[0], 0x2000..0x4000);
    assert_eq!(windows(&ecam, at(0, 1, 0))[1], 0x4000_0000..0x4010_0000);
    assert_eq!(windows(&ecam, at(0, 2, 0))[1], 0x4010_0000..0x4030_0000);
    assert_eq!(windows(&ecam, at(0, 1, 0))[2], 0x4_0000_0000..0x4_0010_0000);
    check(&tree, &ranges());
}

#[test]
fn functions_decode_only_if_the_caller_requests_it() {
    let tree = nested();
    tree.functions.borrow_mut()[0].fake.set16(COMMAND, 7);
    tree.functions.borrow_mut()[2].fake.set16(COMMAND, 7);
    let command = |address| tree.ecam().at(address).read16(COMMAND).unwrap();
    run(&tree, &ranges(), Decoding::Off);
    assert_eq!(command(at(0, 0, 0)), 7); // the host bridge keeps its own
    assert_eq!(command(at(1, 0, 0)), COMMAND_BUS_MASTER); // unchanged
    // A driver enables its own device, not the bridges above it.
    assert_eq!(command(at(0, 1, 0)), 7);
    assert_eq!(command(at(0, 3, 0)), 0);
    run(&tree, &ranges(), Decoding::On);
    assert_eq!(command(at(0, 0, 0)), 7);
    assert_eq!(command(at(0, 1, 0)), 7);
    assert_eq!(command(at(0, 3, 0)), COMMAND_IO | COMMAND_MEMORY);
    // Expansion ROMs stay disabled in any case.
    assert_eq!(
        tree.ecam().at(at(1, 0, 0)).read32(EXPANSION_ROM).unwrap() & 1,
        0
    );
}

#[test]
fn a_second_run_changes_nothing() {
    let tree = nested();
    let first = run(&tree, &ranges(), Decoding::On);
    let contents = tree.contents();
    assert_eq!(run(&tree, &ranges(), Decoding::On), first);
    assert_eq!(tree.contents(), contents);
}

#[test]
fn a_host_bridges_own_bars_are_not_changed() {
    let tree = nested();
    {
        let host = &mut tree.functions.borrow_mut()[0].fake;
        *host = host.clone().bar(0, WIDE | PREFETCHABLE, 0x1000_0000);
        host.set32(0x10, 0xe000_000c);
        host.set16(COMMAND, 6);
    }
    let before = tree.contents()[0].clone();
    run(&tree, &ranges(), Decoding::On);
    assert_eq!(tree.contents()[0], before);
}

#[test]
fn a_port_with_the_class_of_a_host_bridge_is_entered_as_in_a_scan() {
    let tree = Tree::default();
    let mut port = fresh().express(4);
    port.set32(REVISION_ID, 0x0600_0001);
    let port = tree.put(None, 1, 0, port);
    tree.put(Some(port), 0, 0, nic());
    let (done, faults) = run(&tree, &ranges(), Decoding::On);
    assert_eq!((done.last_bus, done.placed, faults), (1, 4, vec![]));
    assert_eq!(Scan::new(&tree.ecam(), 0, 0..=255).flatten().count(), 2);
    check(&tree, &ranges());
}

#[test]
fn the_largest_fitting_bar_is_placed_first_and_the_rest_is_reported() {
    let tree = Tree::default();
    let giant = Fake::new(1, 0x03_0000).bar(0, MEMORY, 0x8000_0000);
    tree.put(None, 1, 0, giant);
    for device in 2..7 {
        let big = Fake::new(2, 0x03_0000).bar(0, MEMORY, 0x1000_0000);
        tree.put(None, device, 0, big.bar(1, IO, 8));
    }
    tree.put(None, 7, 0, Fake::new(3, 0x02_0000).bar(0, MEMORY, 0x100));
    let ranges = Ranges {
        memory: 0x4000_0000..0x7fff_f000,
        ..ranges()
    };
    let (done, faults) = run(&tree, &ranges, Decoding::On);
    assert_eq!((done.placed, done.left), (3 + 5 + 1, 3));
    let at_fault: Vec<_> = faults
        .iter()
        .map(|fault| match fault {
            AssignFault::NoRoom { address, bar } => (address.device(), bar.register),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(at_fault, [(1, 0x10), (5, 0x10), (6, 0x10)]);
    assert_eq!(
        faults[0].to_string(),
        "0000:00:01.0: there is no room for the 0x80000000 bytes of BAR 0x10: enlarge the range \
         of memory, unless a bridge above cannot pass it on"
    );
    // The BAR stays 0. Memory decoding is off, I/O decoding is on.
    let ecam = tree.ecam();
    assert_eq!(ecam.at(at(0, 5, 0)).read32(BASE_ADDRESS), Ok(0));
    assert_eq!(ecam.at(at(0, 5, 0)).read16(COMMAND), Ok(COMMAND_IO));
    assert_eq!(
        ecam.at(at(0, 4, 0)).read16(COMMAND),
        Ok(COMMAND_IO | COMMAND_MEMORY)
    );
    check(&tree, &ranges);
}

/// A device whose second BAR returns another mask after the number of reads in `after`.
struct Fickle<'a> {
    tree: &'a Tree,
    address: Address,
    after: u32,
    mask: u32,
    reads: Cell<u32>,
}

impl ConfigAccess for Fickle<'_> {
    fn reaches(&self, _: Address, _: u16) -> bool {
        true
    }
    fn read(&self, at: Address, register: Register) -> Result<u32, AccessError> {
        let value = self.tree.ecam().read(at, register)?;
        if (at, register.number()) != (self.address, BASE_ADDRESS + 4) {
            return Ok(value);
        }
        self.reads.set(self.reads.get() + 1);
        Ok(match self.reads.get() > self.after {
            true => self.mask,
            false => value,
        })
    }
    fn write(&self, at: Address, register: Register, value: u32) -> Result<(), AccessError> {
        self.tree.ecam().write(at, register, value)
    }
}

#[test]
fn a_device_with_changing_sizes_gets_no_address_of_another_device() {
    // A larger BAR, one as large as other BARs, a smaller one, and no BAR.
    for mask in [0xff00_0000, 0xfff0_0000, 0xffff_ffe0, !0] {
        for after in 0..16 {
            let tree = Tree::default();
            for device in 1..4 {
                let big = Fake::new(1, 0x02_0000).bar(0, MEMORY, 0x10_0000);
                tree.put(None, device, 0, big.bar(1, MEMORY, 0x100));
            }
            let fickle = Fickle {
                tree: &tree,
                address: at(0, 1, 0),
                after,
                mask,
                reads: Cell::new(0),
            };
            let range = 0x4000_0000..0x4050_0000;
            let ranges = Ranges {
                memory: range.clone(),
                ..ranges()
            };
            let placed = assign(&fickle, 0, &ranges, Decoding::On, &mut slots(), |_| {}).unwrap();
            assert!(fickle.reads.get() > 0 && placed.placed + placed.left >= 5);
            // With the reported size and with its true size: the BAR's range begins at the reported
            // address, and overlaps no other.
            let ecam = tree.ecam();
            let register = |device, slot| ecam.at(at(0, device, 0)).read32(slot).unwrap();
            let mut starts = Vec::new();
            for device in 1..4 {
                for slot in [0x10, 0x14] {
                    starts.push(u64::from(register(device, slot)));
                }
            }
            starts.retain(|start| *start != 0);
            starts.sort();
            let apart = starts.windows(2).all(|pair| pair[0] < pair[1]);
            let within = starts.iter().all(|start| range.contains(start));
            assert!(apart && within, "{mask:#x} after {after}: {starts:x?}");
            // The other devices keep their ranges.
            for device in 2..4 {
                for (slot, size) in [(0x10, 0x10_0000), (0x14, 0x100)] {
                    let start = u64::from(register(device, slot));
                    let inside = |other: &&u64| (start..start + size).contains(other);
                    assert_eq!(
                        starts.iter().filter(inside).count(),
                        usize::from(start != 0)
                    );
                }
            }
        }
    }
}

#[test]
fn a_window_is_aligned_to_the_largest_below_it() {
    let tree = Tree::default();
    for sizes in [&[0x10_0000][..], &[0x100_0000, 0x10_0000]] {
        let device = sizes.len() as u8;
        let outer = tree.put(None, device, 0, fresh());
        let inner = tree.put(Some(outer), 0, 0, fresh());
        for (device, size) in sizes.iter().enumerate() {
            let fake = Fake::new(1, 0x02_0000).bar(0, MEMORY, *size);
            tree.put(Some(inner), device as u8, 0, fake);
        }
    }
    // Space for all BARs, but not for a further gap.
    let ranges = Ranges {
        memory: 0x4000_0000..0x4120_0000,
        ..ranges()
    };
    let (done, faults) = run(&tree, &ranges, Decoding::On);
    assert_eq!((done.placed, faults), (3, vec![]));
    check(&tree, &ranges);
}

#[test]
fn bars_that_a_bridge_cannot_forward_are_placed_elsewhere_or_not_at_all() {
    let tree = Tree::default();
    let mut narrow = fresh();
    narrow.set16(IO_BASE, 0);
    narrow.mask16(IO_BASE, 0);
    narrow.set32(PREFETCHABLE_BASE, 0);
    narrow.mask32(PREFETCHABLE_BASE_UPPER, 0);
    narrow.mask32(PREFETCHABLE_LIMIT_UPPER, 0);
    let bridge = tree.put(None, 1, 0, narrow);
    let inner = tree.put(Some(bridge), 0, 0, fresh());
    tree.put(Some(inner), 0, 0, nic());
    let (done, faults) = run(&tree, &ranges(), Decoding::On);
    assert_eq!((done.placed, done.left), (3, 1));
    let [AssignFault::NoRoom { bar, .. }] = faults[..] else {
        panic!("{faults:?}");
    };
    assert_eq!(bar.kind, BarKind::Io);
    let prefetchable = bars(&tree.ecam(), &function(&tree.ecam(), at(2, 0, 0)))
        .unwrap()
        .good()
        .find(|bar| bar.kind == BarKind::Prefetchable);
    assert!((0x4000_0000..0x8000_0000).contains(&prefetchable.unwrap().address));
    check(&tree, &ranges());
}

fn prefetchable(tree: &Tree) -> Vec<u64> {
    let ecam = tree.ecam();
    let functions: Vec<_> = Scan::new(&ecam, 0, 0..=255).flatten().collect();
    functions
        .iter()
        .flat_map(|function| bars(&ecam, function).unwrap().good().collect::<Vec<_>>())
        .filter(|bar| bar.kind == BarKind::Prefetchable)
        .map(|bar| bar.address)
        .collect()
}

#[test]
fn prefetchable_bars_without_space_in_their_range_are_placed_in_memory() {
    const SIZE: u64 = 0x100_0000;
    let card = || nic().bar(4, WIDE | PREFETCHABLE, SIZE);
    let behind_ports = || {
        let tree = Tree::default();
        for device in 1..4 {
            let port = tree.put(None, device, 0, fresh().express(4));
            tree.put(Some(port), 0, 0, card());
        }
        tree
    };
    let behind_one_port = || {
        let tree = Tree::default();
        let port = tree.put(None, 1, 0, fresh().express(4));
        let up = tree.put(Some(port), 0, 0, fresh().express(5));
        for device in 1..4 {
            let down = tree.put(Some(up), device, 0, fresh().express(6));
            tree.put(Some(down), 0, 0, card());
        }
        tree
    };
    let on_the_root_bus = || {
        let tree = Tree::default();
        for device in 1..4 {
            tree.put(None, device, 0, card());
        }
        tree
    };
    let on_one_bus = || {
        let tree = Tree::default();
        let bridge = tree.put(None, 1, 0, fresh());
        for device in 1..4 {
            tree.put(Some(bridge), device, 0, card());
        }
        tree
    };
    let trees = [
        behind_ports(),
        behind_one_port(),
        on_the_root_bus(),
        on_one_bus(),
    ];
    for (n, tree) in trees.into_iter().enumerate() {
        for (room, there) in [(0, 0), (SIZE / 2, 0), (2 * SIZE, 2), (3 * SIZE, 3)] {
            let wide = 0x4_0000_0000..0x4_0000_0000 + room;
            let ranges = Ranges {
                prefetchable: wide.clone(),
                ..ranges()
            };
            let (done, faults) = run(&tree, &ranges, Decoding::On);
            assert_eq!((done.placed, faults), (12, vec![]), "{n} {room:#x}");
            let places = prefetchable(&tree);
            let (high, low): (Vec<_>, Vec<_>) = places.iter().partition(|at| wide.contains(at));
            assert_eq!(high.len(), there, "{n} {room:#x}: {places:x?}");
            assert!(low.iter().all(|at| ranges.memory.contains(at)));
            check(&tree, &ranges);
        }
    }
}

#[test]
fn a_bar_of_fewer_than_64_bits_is_placed_where_it_can_decode() {
    for (high, place) in [
        (0xff, 0x80_0000_0000..0x100_0000_0000),
        (0x7f, ranges().memory),
        (0, ranges().memory),
    ] {
        let tree = Tree::default();
        let port = tree.put(None, 1, 0, fresh().express(4));
        let mut card = nic();
        card.mask32(0x24, high);
        tree.put(Some(port), 0, 0, card);
        let ranges = Ranges {
            prefetchable: 0x80_0000_0000..0x100_0000_0000,
            ..ranges()
        };
        let (done, faults) = run(&tree, &ranges, Decoding::On);
        assert_eq!((done.placed, faults), (4, vec![]));
        assert!(place.contains(&prefetchable(&tree)[0]), "{high:#x}");
        check(&tree, &ranges);
    }
}

#[test]
fn bars_moved_to_memory_take_no_space_that_others_need() {
    let tree = Tree::default();
    for device in 1..7 {
        let port = tree.put(None, device, 0, fresh().express(4));
        let card = Fake::new(1, 0x03_0000).bar(0, MEMORY, 0x100_0000).bar(
            2,
            WIDE | PREFETCHABLE,
            0x1000_0000,
        );
        tree.put(Some(port), 0, 0, card);
    }
    // Memory has space for three of the large BARs and all small ones.
    let ranges = Ranges {
        prefetchable: 0x4_0000_0000..0x4_1000_0000,
        ..ranges()
    };
    let (done, faults) = run(&tree, &ranges, Decoding::On);
    let large = |fault: &AssignFault| match fault {
        AssignFault::NoRoom { bar, .. } => bar.size == Some(0x1000_0000),
        _ => false,
    };
    assert!(faults.iter().all(large), "{faults:?}");
    // One BAR is in its own range, and two or three are in memory, depending on the gaps.
    assert!(done.placed >= 6 + 1 + 2, "{done:?}");
    check(&tree, &ranges);
    let contents = tree.contents();
    assert_eq!(run(&tree, &ranges, Decoding::On), (done, faults));
    assert_eq!(tree.contents(), contents);
}

#[test]
fn functions_whose_bars_get_no_slot_are_reported_and_disabled_and_the_rest_gets_addresses() {
    let tree = nested();
    let (whole, _) = run(&tree, &ranges(), Decoding::On);
    assert_eq!((whole.placed, whole.slots), (17, 17));
    for lent in 0..17 {
        let tree = nested();
        let mut slots = vec![BarSlot::EMPTY; lent];
        let (mut silent, mut other) = (Vec::new(), 0);
        let done = assign(
            &tree.ecam(),
            0,
            &ranges(),
            Decoding::On,
            &mut slots,
            |fault| match fault {
                AssignFault::NoSlot(address) => silent.push(address),
                _ => other += 1,
            },
        );
        let done = done.unwrap();
        assert!(!silent.is_empty() && other == 0, "{lent}");
        assert!(done.placed as usize <= lent && done.slots > lent as u32);
        let ecam = tree.ecam();
        for address in silent {
            assert_eq!(ecam.at(address).read16(COMMAND), Ok(0), "{lent} {address}");
            assert_eq!(ecam.at(address).read32(BASE_ADDRESS + 4), Ok(0));
        }
        check(&tree, &ranges());
    }
}

/// Returns the limit of accesses of `assign` that the book gives.
fn most_accesses(tree: &Tree, buses: u64) -> u64 {
    let functions = tree.functions.borrow();
    let bridges = functions
        .iter()
        .filter(|node| node.fake.bytes[usize::from(HEADER_TYPE)] & 0x7f == 1)
        .count() as u64;
    let endpoints = functions.len() as u64 - bridges;
    let registers = 7 * endpoints + 3 * bridges;
    32 * buses + 16 * (endpoints + bridges) + 4 * registers + 48 * bridges
}

/// Returns ports on the root bus, eight per device. Below each is a device of `functions`
/// functions, each with two BARs: memory and prefetchable memory.
fn ports_of_functions(ports: u8, functions: u8, size: u64) -> Tree {
    let tree = Tree::default();
    for port in 0..ports {
        let bridge = tree.put(None, port / 8, port % 8, fresh().express(4).multi());
        for function in 0..functions {
            let card = Fake::new(1, 0x02_0000).multi().bar(0, MEMORY, 0x1000);
            let card = card.bar(2, WIDE | PREFETCHABLE, size);
            tree.put(Some(bridge), 0, function, card);
        }
    }
    tree
}

/// Returns a chain of `bridges` bridges, with a device on each bus.
fn chain(bridges: u8, size: u64) -> Tree {
    let tree = Tree::default();
    let mut at = None;
    for _ in 0..bridges {
        tree.put(
            at,
            1,
            0,
            Fake::new(1, 0x02_0000).bar(0, WIDE | PREFETCHABLE, size),
        );
        at = Some(tree.put(at, 0, 0, fresh()));
    }
    tree
}

/// Returns `ports` ports, each with an ARI device of 256 functions with three prefetchable BARs
/// each.
fn ports_with_ari(ports: u8, size: u64) -> Tree {
    let tree = Tree::default();
    for port in 0..ports {
        let bridge = fresh().express(4).ari_port(false);
        let bridge = tree.put(None, port, 0, bridge);
        for number in 0..=255u8 {
            let mut function = Fake::new(1, 0x02_0000).ari(number.wrapping_add(1)).multi();
            for bar in [0, 2, 4] {
                function = function.bar(bar, WIDE | PREFETCHABLE, size);
            }
            tree.put(Some(bridge), number >> 3, number & 7, function);
        }
    }
    tree
}

#[test]
fn accesses_are_at_most_linear_in_functions_and_bars_however_small_the_address_space() {
    const MIB: u64 = 1 << 20;
    type Shape = (&'static str, fn() -> Tree);
    let shapes: [Shape; 8] = [
        ("200 ports of 8", || ports_of_functions(200, 8, 16 * MIB)),
        ("200 ports of 1", || ports_of_functions(200, 1, 16 * MIB)),
        ("20 ports of 8", || ports_of_functions(20, 8, 16 * MIB)),
        ("one of 8", || ports_of_functions(1, 8, 16 * MIB)),
        ("a chain of 60", || chain(60, 16 * MIB)),
        ("a chain of 200", || chain(200, 16 * MIB)),
        ("a switch", nested),
        ("2 ports of 256 with ARI", || ports_with_ari(2, 16 * MIB)),
    ];
    // Sizes of memory and of prefetchable memory: enough; too little of the second; too little of
    // both; hardly any; none.
    let rooms = [(1024, 1 << 20), (1024, 256), (64, 64), (2, 1), (0, 0)];
    for (name, tree) in shapes {
        for (memory, prefetchable) in rooms {
            let tree = tree();
            let ranges = Ranges {
                memory: 0x4000_0000..0x4000_0000 + memory * MIB,
                prefetchable: 0x4_0000_0000..0x4_0000_0000 + prefetchable * MIB,
                ..ranges()
            };
            let ecam = tree.ecam();
            let done = assign(&ecam, 0, &ranges, Decoding::On, &mut slots(), |_| {}).unwrap();
            let accesses = ecam.window().counts().bus_accesses();
            let most = most_accesses(&tree, u64::from(done.last_bus) + 1);
            println!("{name}, {memory} and {prefetchable} MiB: {accesses} of {most}");
            assert!(
                accesses <= most,
                "{name}, {memory} and {prefetchable} MiB: {accesses} > {most}"
            );
        }
    }
}

#[test]
fn a_bar_that_cannot_be_placed_is_reported_and_its_function_disabled() {
    let tree = Tree::default();
    let mut fake = nic();
    fake.mask32(0x14, 0x0f0f_0000);
    tree.put(None, 1, 0, fake);
    let (done, faults) = run(&tree, &ranges(), Decoding::On);
    assert_eq!((done.placed, done.left), (3, 1));
    assert!(matches!(faults[..], [AssignFault::Bar { .. }]));
    assert_eq!(tree.ecam().at(at(0, 1, 0)).read16(COMMAND), Ok(0));
    assert_eq!(tree.ecam().at(at(0, 1, 0)).read32(0x14), Ok(0));
}

#[test]
fn without_a_free_bus_number_the_bridge_is_reported_and_leads_nowhere() {
    let tree = nested();
    let ranges = Ranges {
        buses: 0..=3,
        ..ranges()
    };
    let (done, faults) = run(&tree, &ranges, Decoding::On);
    assert_eq!(done.last_bus, 3);
    let expected = [
        AssignFault::NoBus(at(3, 0, 0)),
        AssignFault::NoBus(at(3, 1, 0)),
    ];
    assert_eq!(faults, expected);
    assert_eq!(
        tree.ecam().at(at(3, 0, 0)).read32(PRIMARY_BUS),
        Ok(0x4000_0000)
    );
    for window in windows(&tree.ecam(), at(3, 0, 0)) {
        assert!(window.is_empty());
    }
}

#[test]
fn ari_functions_also_get_addresses() {
    let tree = Tree::default();
    let port = tree.put(None, 1, 0, fresh().express(4).ari_port(false));
    let first = Fake::new(1, 0x02_0000).ari(9).multi();
    tree.put(Some(port), 0, 0, first.bar(0, MEMORY, 0x1000));
    let second = Fake::new(1, 0x02_0000).ari(0).bar(0, MEMORY, 0x1000);
    tree.put(Some(port), 1, 1, second);
    let (done, faults) = run(&tree, &ranges(), Decoding::On);
    assert_eq!((done.placed, faults), (2, vec![]));
    check(&tree, &ranges());
}

#[test]
fn a_bridge_to_cardbus_is_disabled_reported_and_leads_nowhere() {
    let tree = nested();
    let mut cardbus = Fake::bridge(0xc, 0, 1, 4);
    cardbus.bytes[usize::from(HEADER_TYPE)] = 2;
    cardbus.set16(COMMAND, 3);
    tree.put(None, 4, 0, cardbus);
    let (done, faults) = run(&tree, &ranges(), Decoding::On);
    assert_eq!(faults, [AssignFault::CardBus(at(0, 4, 0))]);
    assert_eq!((done.last_bus, tree.disputed.get()), (5, 0));
    let ecam = tree.ecam();
    assert_eq!(ecam.at(at(0, 4, 0)).read16(COMMAND), Ok(0));
    assert_eq!(ecam.at(at(0, 4, 0)).read32(PRIMARY_BUS), Ok(0x4000_0000));
}

#[test]
fn impossible_ranges_are_refused_before_any_access() {
    let refused = |ranges| {
        let tree = nested();
        let ecam = tree.ecam();
        let error = assign(&ecam, 0, &ranges, Decoding::On, &mut slots(), |_| {}).unwrap_err();
        assert_eq!(ecam.window().counts().bus_accesses(), 0);
        error
    };
    let memory = 0x4000_0000..0x1_0000_0001;
    assert_eq!(refused(Ranges { memory, ..ranges() }), BadRanges::Above4Gib);
    let io = 0x1_0000_0000..0x1_0001_0000;
    assert_eq!(refused(Ranges { io, ..ranges() }), BadRanges::Above4Gib);
    let prefetchable = 0x7fff_0000..0x8000_0000;
    let overlapping = Ranges {
        prefetchable,
        ..ranges()
    };
    assert_eq!(refused(overlapping), BadRanges::Overlapping);
    #[expect(clippy::reversed_empty_ranges)]
    let none = Ranges {
        buses: 1..=0,
        ..ranges()
    };
    assert_eq!(refused(none), BadRanges::NoBus);
}

/// Returns a bridge's windows for I/O, memory and prefetchable memory, from its registers.
fn windows(access: &impl ConfigAccess, bridge: Address) -> [Range<u64>; 3] {
    let word = |register| u64::from(access.at(bridge).read32(register).unwrap());
    let range = |base, limit, granule| match base > limit {
        true => 0..0,
        false => base..limit + granule,
    };
    let io = word(IO_BASE);
    let upper = word(IO_BASE_UPPER);
    let memory = word(MEMORY_BASE);
    let prefetchable = word(PREFETCHABLE_BASE);
    [
        range(
            (io & 0xf0) << 8 | (upper & 0xffff) << 16,
            (io >> 8 & 0xf0) << 8 | upper >> 16 << 16,
            0x1000,
        ),
        range((memory & 0xfff0) << 16, memory & 0xfff0_0000, 0x10_0000),
        range(
            (prefetchable & 0xfff0) << 16 | word(PREFETCHABLE_BASE_UPPER) << 32,
            prefetchable & 0xfff0_0000 | word(PREFETCHABLE_LIMIT_UPPER) << 32,
            0x10_0000,
        ),
    ]
}

/// Asserts that address ranges do not overlap, are aligned, and are in the windows of the bridges
/// above.
fn check(tree: &Tree, ranges: &Ranges) {
    let ecam = tree.ecam();
    let functions: Vec<Function> = Scan::new(&ecam, 0, 0..=255).flatten().collect();
    for function in &functions {
        let bus = function.address.bus();
        let outer = functions
            .iter()
            .filter(|_| bus != 0)
            .find(|bridge| bridge.buses().is_some_and(|buses| buses.secondary == bus));
        let outer = match outer {
            Some(bridge) => windows(&ecam, bridge.address),
            None => [
                ranges.io.clone(),
                ranges.memory.clone(),
                ranges.prefetchable.clone(),
            ],
        };
        let bars: Vec<Bar> = bars(&ecam, function).unwrap().good().collect();
        for bar in bars.iter().filter(|bar| bar.address != 0) {
            let size = bar.size.unwrap();
            let (start, end) = (bar.address, bar.address + size);
            assert!(start.is_multiple_of(size), "{function} {bar:x?}");
            let spaces = match bar.kind {
                BarKind::Io => &outer[..1],
                _ => &outer[1..],
            };
            let within = spaces
                .iter()
                .any(|one| one.start <= start && end <= one.end);
            assert!(within, "{function} {bar:x?} {outer:x?}");
        }
        if let Header::Bridge(_) = function.header {
            for (inner, outer) in windows(&ecam, function.address).iter().zip(&outer) {
                let within = outer.start <= inner.start && inner.end <= outer.end;
                assert!(
                    inner.is_empty() || within,
                    "{function} {inner:x?} {outer:x?}"
                );
            }
        }
    }
    for bus in 0..=255 {
        let on: Vec<_> = functions
            .iter()
            .filter(|function| function.address.bus() == bus)
            .collect();
        let (mut io, mut memory) = (Vec::new(), Vec::new());
        for function in on {
            for bar in bars(&ecam, function).unwrap().good() {
                let range = bar.address..bar.address + bar.size.unwrap();
                match bar.kind {
                    _ if bar.address == 0 => {}
                    BarKind::Io => io.push(range),
                    _ => memory.push(range),
                }
            }
            if let Header::Bridge(_) = function.header {
                let [first, second, third] = windows(&ecam, function.address);
                io.push(first);
                memory.extend([second, third]);
            }
        }
        for mut space in [io, memory] {
            space.retain(|range| !range.is_empty());
            space.sort_by_key(|range| range.start);
            let apart = space.windows(2).all(|pair| pair[0].end <= pair[1].start);
            assert!(apart, "bus {bus}: {space:x?}");
        }
    }
}

/// A function of an arbitrary tree: the earlier bridge above it, its position there, and its BARs.
#[derive(Clone, Debug)]
struct Plan {
    parent: prop::sample::Index,
    device: u8,
    bridge: bool,
    port: Option<u32>,
    bars: Vec<(u32, u32)>,
    rom: Option<u32>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let bars = prop::collection::vec((0u32..4, 4u32..31), 0..3);
    let port = prop::option::of(prop::sample::select(vec![4u32, 5, 6, 7]));
    (
        any::<prop::sample::Index>(),
        0u8..32,
        any::<bool>(),
        port,
        bars,
        prop::option::of(11u32..20),
    )
        .prop_map(|(parent, device, bridge, port, bars, rom)| Plan {
            parent,
            device,
            bridge,
            port,
            bars,
            rom,
        })
}

fn build(plans: &[Plan]) -> Tree {
    let tree = Tree::default();
    let mut parents = vec![None];
    let mut taken = vec![];
    for plan in plans {
        let parent = parents[plan.parent.index(parents.len())];
        if taken.contains(&(parent, plan.device)) {
            continue;
        }
        taken.push((parent, plan.device));
        let mut fake = if plan.bridge {
            fresh()
        } else {
            Fake::new(1, 0x02_0000)
        };
        for (slot, (kind, shift)) in plan.bars.iter().enumerate() {
            let slot = 2 * slot as u16;
            if plan.bridge && slot > 0 {
                break;
            }
            fake = match kind {
                0 => fake.bar(slot, IO, 1 << (*shift % 9 + 2)),
                1 => fake.bar(slot, MEMORY, 1 << shift),
                2 => fake.bar(slot, WIDE, 1 << shift),
                &NO_BAR => fake,
                _ => fake.bar(slot, WIDE | PREFETCHABLE, 1 << (shift + 3)),
            };
        }
        if let Some(shift) = plan.rom {
            fake = fake.rom(1 << shift);
        }
        if let Some(port) = plan.port.filter(|_| plan.bridge) {
            fake = fake.express(port);
        }
        let index = tree.put(parent, plan.device, 0, fake);
        if plan.bridge {
            parents.push(Some(index));
        }
    }
    tree
}

proptest! {
    #[test]
    fn for_any_tree_ranges_are_separate_aligned_and_within_their_windows(
        plans in prop::collection::vec(plan(), 1..40), megabytes in 1u64..1024,
        wide in prop_oneof![Just(0), 1u64..2048, Just(1 << 14)], last in 3u8..=255,
    ) {
        let tree = build(&plans);
        let ranges = Ranges {
            buses: 0..=last,
            memory: 0x4000_0000..0x4000_0000 + (megabytes << 20),
            prefetchable: 0x4_0000_0000..0x4_0000_0000 + (wide << 20),
            ..ranges()
        };
        let (done, faults) = run(&tree, &ranges, Decoding::On);
        check(&tree, &ranges);
        prop_assert_eq!(done.left as usize, faults
            .iter()
            .filter(|fault| matches!(fault, AssignFault::NoRoom { .. }))
            .count());
        let contents = tree.contents();
        prop_assert_eq!(run(&tree, &ranges, Decoding::On), (done, faults));
        prop_assert_eq!(tree.contents(), contents);
        prop_assert_eq!(tree.disputed.get(), 0);
    }

    #[test]
    fn prefetchable_bars_without_space_cost_the_others_none(
        plans in prop::collection::vec(plan(), 1..40), megabytes in 1u64..1024,
        wide in 1u64..2048,
    ) {
        const MOVABLE: u32 = 3;
        let ranges = Ranges {
            memory: 0x4000_0000..0x4000_0000 + (megabytes << 20),
            prefetchable: 0x4_0000_0000..0x4_0000_0000 + (wide << 20),
            ..ranges()
        };
        let (_, with) = run(&build(&plans), &ranges, Decoding::On);
        let mut others = plans;
        for plan in &mut others {
            for (kind, shift) in &mut plan.bars {
                if *kind == MOVABLE {
                    (*kind, *shift) = (NO_BAR, 0);
                }
            }
        }
        let (_, without) = run(&build(&others), &ranges, Decoding::On);
        for fault in with {
            let movable = matches!(fault, AssignFault::NoRoom { bar, .. }
                if bar.kind == BarKind::Prefetchable);
            prop_assert!(movable || without.contains(&fault), "{}", fault);
        }
    }
}

/// Kind of a BAR that does not exist in a plan.
const NO_BAR: u32 = 4;
