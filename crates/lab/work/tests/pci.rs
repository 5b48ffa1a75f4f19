//! The PCI jobs on a model: their counts, and their reports of machines with faults.

use nostall_devices::VirtualClock;
use nostall_devices::pci::{EcamWindow, PortWindow, Topology, VirtualBus};
use nostall_io::{Counting, Counts, Processor, Registers};
use nostall_pci::{ConfigPorts, Ecam, Policy, Selector};
use nostall_work::pci::{
    Counted, FoundFunction, JobResult, Method, Operation, PciMeasured, Room, Space, Tree,
};
use spin::mutex::SpinMutex;

/// Memory below 4 GiB, and enough above it.
const ROOM: Room = Room {
    memory: (0xc000_0000, 0xe000_0000),
    prefetchable: (0x4_0000_0000, 0x10_0000_0000),
};

struct Windows {
    ports: Counting<PortWindow>,
    ecam: Counting<EcamWindow>,
}

impl Counted for Windows {
    fn counts(&self) -> Counts {
        let (ports, ecam) = (self.ports.counts(), self.ecam.counts());
        Counts {
            reads: ports.reads + ecam.reads,
            writes: ports.writes + ecam.writes,
            ..Counts::default()
        }
    }
}

struct Cpu;

impl Processor for Cpu {
    fn id(&self) -> usize {
        0
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
}

/// Memory whose contents these tests do not read.
struct Nothing;

impl Registers for Nothing {
    fn read8(&self, _: usize) -> u8 {
        !0
    }

    fn write8(&self, _: usize, _: u8) {}
}

type ByPorts<'a> = ConfigPorts<SpinMutex<()>, &'a Counting<PortWindow>, Cpu>;
type ByMemory<'a> = Ecam<&'a Counting<EcamWindow>>;
type OnModel<'a> = Space<'a, &'a ByPorts<'a>, ByMemory<'a>, Ecam<Nothing>, VirtualClock>;

/// Runs `work` on `bus` via ports, ECAM or both.
fn on<T>(bus: &VirtualBus, by: &[Method], work: impl FnOnce(&OnModel<'_>) -> T) -> Option<T> {
    let windows = Windows {
        ports: Counting::new(bus.ports()),
        ecam: Counting::new(bus.ecam()),
    };
    let ports = ConfigPorts::new(&windows.ports, Cpu);
    let ecam = Ecam::new(&windows.ecam, 0, 0..=255);
    let has = |method| by.contains(&method);
    let ports = has(Method::Ports).then_some(&ports);
    let (auto, _) = Selector::choose(ports, has(Method::Ecam).then_some(ecam), Policy::EcamFirst);
    let ram = Ecam::new(Nothing, 0, 0..=0);
    let space = Space::new(auto, ram, &[0], VirtualClock::new(), &windows)?;
    Some(work(&space))
}

const BOTH: &[Method] = &[Method::Ports, Method::Ecam];

fn enumerate(space: &OnModel<'_>) -> Vec<JobResult> {
    let mut all = Vec::new();
    space.enumerate(&mut |result| all.push(result));
    all
}

fn trees(result: &[JobResult]) -> Vec<Tree> {
    let trees = result.iter().filter_map(|result| match result {
        JobResult::Tree(tree) => Some(*tree),
        _ => None,
    });
    trees.collect()
}

fn functions(result: &[JobResult], by: Method) -> Vec<&FoundFunction> {
    let functions = result.iter().filter_map(|result| match result {
        JobResult::Function { method, found } if *method == by => Some(found),
        _ => None,
    });
    functions.collect()
}

fn bus() -> VirtualBus {
    VirtualBus::new(Topology::new(0..=255).unwrap().bridge)
}

#[test]
fn a_bridge_without_bus_numbers_is_a_fault_until_they_are_assigned() {
    let bus = bus();
    on(&bus, BOTH, |space| {
        let result = enumerate(space);
        for tree in trees(&result) {
            assert_eq!((tree.functions, tree.buses, tree.faults), (7, 1, 3));
        }
        let faults = result.iter().filter_map(|result| match result {
            JobResult::Fault { what, .. } => Some(what.as_str()),
            _ => None,
        });
        let faults: Vec<_> = faults.take(1).collect();
        let expected = "0000:00:02.0: bridge 00 to 00-00 not entered: it has no bus numbers yet";
        assert_eq!(faults, [expected]);

        let mut assigned = Vec::new();
        space.assign(&space.ranges(ROOM), &mut |result| assigned.push(result));
        let [
            JobResult::Assigned {
                last_bus: 6,
                placed,
                left: 0,
            },
        ] = assigned[..]
        else {
            panic!("{assigned:?}");
        };
        let result = enumerate(space);
        for tree in trees(&result) {
            assert_eq!((tree.functions, tree.buses, tree.faults), (14, 7, 0));
        }
        // The host bridge's own BARs do not count.
        let bars = functions(&result, Method::Auto)
            .into_iter()
            .flat_map(|found| &found.bars);
        assert_eq!(bars.count(), placed as usize);
        assert!(result.contains(&JobResult::Compared { equal: true }));
    })
    .unwrap();
}

#[test]
fn a_bar_without_room_is_reported_and_not_assigned() {
    on(&bus(), BOTH, |space| {
        let mut result = Vec::new();
        // The largest BAR has 8 GiB.
        let room = Room {
            prefetchable: (0x4_0000_0000, 0x5_0000_0000),
            ..ROOM
        };
        space.assign(&space.ranges(room), &mut |one| result.push(one));
        let [
            JobResult::Fault { what, .. },
            JobResult::Assigned { left: 1, .. },
        ] = &result[..]
        else {
            panic!("{result:?}");
        };
        assert!(
            what.contains("no room for the 0x200000000 bytes of BAR 0x10: enlarge the range"),
            "{what}"
        );
        result.clear();
        let upside_down = Room {
            memory: (0xc000_0000, 0x2_0000_0000),
            ..ROOM
        };
        space.assign(&space.ranges(upside_down), &mut |one| result.push(one));
        assert!(
            matches!(&result[..], [JobResult::Fault { .. }]),
            "{result:?}"
        );
    })
    .unwrap();
}

#[test]
fn a_missing_method_is_not_measured() {
    for (there, missing) in [(Method::Ports, Method::Ecam), (Method::Ecam, Method::Ports)] {
        on(&bus(), &[there], |space| {
            let read = Operation::Read(10);
            assert_eq!(space.measure(read, missing), None);
            let measured = space.measure(read, there).unwrap();
            let accesses = if there == Method::Ports { 20 } else { 10 };
            let expected = PciMeasured {
                operations: 10,
                bus_accesses: accesses,
                value: 0x10f0_1af4,
                ..PciMeasured::default()
            };
            assert_eq!(measured, expected);
            assert_eq!(space.measure(read, Method::Auto), Some(expected));
            assert_eq!(trees(&enumerate(space)).len(), 2);
        })
        .unwrap();
    }
}

#[test]
fn a_written_register_is_restored() {
    let bus = bus();
    on(&bus, BOTH, |space| {
        for n in [0, 1, 2, 300] {
            let before = bus.exits();
            let measured = space.measure(Operation::Write(n), Method::Ecam).unwrap();
            assert_eq!((measured.operations, measured.faults), (n, 0));
            assert_eq!(measured.bus_accesses, u64::from(n));
            assert_eq!(bus.exits() - before, u64::from(n), "and nothing besides");
            assert_eq!(
                functions(&enumerate(space), Method::Ports)[0].interrupt.0,
                0
            );
        }
    })
    .unwrap();
}

#[test]
fn virtio_drivers_finds_the_same_functions() {
    on(&bus(), BOTH, |space| {
        space.assign(&space.ranges(ROOM), &mut |_| {});
        let result = enumerate(space);
        let mut ours: Vec<_> = functions(&result, Method::Auto)
            .iter()
            .map(|found| {
                (
                    found.bus,
                    found.devfn,
                    found.vendor,
                    found.device,
                    found.class,
                )
            })
            .collect();
        ours.sort_unstable();
        let (mut theirs, mut done) = (Vec::new(), None);
        space.virtio_drivers(&mut |result| match result {
            JobResult::VirtioDrivers {
                bus,
                devfn,
                vendor,
                device,
                class,
            } => theirs.push((bus, devfn, vendor, device, class)),
            JobResult::VirtioDriversDone { functions } => done = Some(functions),
            other => panic!("{other:?}"),
        });
        assert_eq!((ours, Some(14)), (theirs, done));
    })
    .unwrap();
}

#[test]
fn functions_that_vanish_end_a_walk_in_time_and_make_the_trees_differ() {
    for accesses in 0..300 {
        let topology = Topology::new(0..=255).unwrap();
        let (switch, card) = (topology.upstream, topology.virtio_net);
        let bus = VirtualBus::new(topology.bridge);
        on(&bus, BOTH, |space| {
            space.assign(&space.ranges(ROOM), &mut |_| {});
            bus.vanish_after(accesses, switch);
            bus.vanish_after(accesses, card);
            let result = enumerate(space);
            let trees = trees(&result);
            let equal = result.contains(&JobResult::Compared { equal: true });
            // The function vanished during the first walk. The others agree that it is gone.
            let first = (trees[0].functions, trees[0].digest);
            assert_eq!(equal, first == (trees[1].functions, trees[1].digest));
            assert_eq!(trees[1].functions, trees[2].functions);
        })
        .unwrap();
    }
}

#[test]
fn a_machine_without_functions_offers_no_job() {
    let bridge = nostall_devices::pci::HostBridge::new(0..=255);
    let bus = VirtualBus::new(bridge);
    assert!(on(&bus, BOTH, |_| ()).is_none());
    assert!(on(&bus, &[], |_| ()).is_none());
}
