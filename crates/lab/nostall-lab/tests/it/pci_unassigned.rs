//! PCI on QEMU's RISC-V and Arm machines, where no firmware assigns anything: our kernel's
//! assignment equals the view of QEMU's monitor.

use crate::common::monitor;

use std::ops::Range;

use crate::common::qemu_for;
use monitor::{CONVENTIONAL, ROOT_PORTS, SWITCH, functions};
use nostall_lab::experiments::pci::run::{self, AccessStrategy, PciPlan};
use nostall_vm::qemu::{Guest, QemuBoard};
use nostall_work::pci::{FoundBarKind, FoundFunction, JobResult, Method, Operation};

/// The I/O ports of both machines' device trees for PCI.
const IO: Range<u64> = 0..0x1_0000;

/// Both machines, with their memory for PCI below and above 4 GiB.
const MACHINES: [(QemuBoard, [Range<u64>; 2]); 2] = [
    (
        QemuBoard::Virt,
        [0x4000_0000..0x8000_0000, 0x4_0000_0000..0x8_0000_0000],
    ),
    (
        QemuBoard::ArmVirt,
        [0x1000_0000..0x3eff_0000, 0x80_0000_0000..0x100_0000_0000],
    ),
];

/// Functions of the machine itself: the host bridge.
const OWN_FUNCTIONS: usize = 1;

#[test]
fn the_monitor_shows_the_assigned_addresses_and_nothing_overlaps() {
    for (board, memory) in MACHINES {
        if qemu_for("the_monitor_shows_the_assigned_addresses", board).is_some() {
            shows_the_assigned_addresses(board, &memory);
        }
    }
}

fn shows_the_assigned_addresses(board: QemuBoard, memory: &[Range<u64>; 2]) {
    // The second assignment changes nothing.
    let work = "pci:assign pci:assign pci:virtio-drivers pci:enumerate";
    for devices in [ROOT_PORTS, SWITCH, CONVENTIONAL] {
        let (result, shown) = monitor::both(board, devices, &[], work);
        let all = monitor::all_shown(&shown, devices);
        assert_eq!(all.len(), OWN_FUNCTIONS + devices.len());
        monitor::check(&result, &all, &[Method::Ecam, Method::Auto]);
        monitor::check_virtio_drivers(&result);

        let assigned = result.iter().filter_map(|result| match result {
            JobResult::Assigned { left, .. } => Some((left, result)),
            _ => None,
        });
        let [(0, first), (0, second)] = assigned.collect::<Vec<_>>()[..] else {
            panic!("{result:x?}");
        };
        assert_eq!(first, second);

        // Every BAR is decoded, except expansion ROMs, which are not requested.
        for shown in all.values() {
            let mut bars = shown.bars.iter();
            assert!(
                bars.all(|(register, bar)| [0x30, 0x38].contains(register)
                    || bar.address.is_some()),
                "{shown:x?}"
            );
        }
        let found = functions(&result, Method::Ecam);
        do_not_overlap(&found);
        lie_in_the_windows(&found, memory);
    }
}

/// Returns each BAR's kind and addresses.
fn places(found: &FoundFunction) -> impl Iterator<Item = (FoundBarKind, Range<u64>)> {
    let bars = found.bars.iter();
    bars.map(|bar| (bar.kind, bar.address..bar.address + bar.size))
}

fn do_not_overlap(found: &[&FoundFunction]) {
    let all = found.iter().flat_map(|found| places(found));
    let (mut io, mut memory): (Vec<_>, Vec<_>) =
        all.partition(|(kind, _)| *kind == FoundBarKind::Io);
    assert!(memory.len() > 1);
    for places in [&mut io, &mut memory] {
        places.sort_by_key(|(_, place)| place.start);
        for pair in places.windows(2) {
            assert!(pair[0].1.end <= pair[1].1.start, "{pair:x?}");
        }
    }
}

/// Checks that BARs lie in the windows of the machine and of each bridge above them.
fn lie_in_the_windows(found: &[&FoundFunction], [low, high]: &[Range<u64>; 2]) {
    for one in found {
        for (kind, place) in places(one) {
            let lies_in =
                |window: &Range<u64>| window.start <= place.start && place.end <= window.end;
            let of_machine = match kind {
                FoundBarKind::Io => lies_in(&IO),
                FoundBarKind::Memory => lies_in(low),
                FoundBarKind::Prefetchable | FoundBarKind::Rom => lies_in(low) || lies_in(high),
            };
            assert!(of_machine, "{kind:?} {place:x?}");
            let mut bus = one.bus;
            while bus != 0 {
                let bridge = found
                    .iter()
                    .find(|bridge| bridge.buses.is_some_and(|(_, below, _)| below == bus));
                let bridge = bridge.unwrap();
                let [io, memory, prefetchable] = bridge.windows;
                let ways = match kind {
                    FoundBarKind::Io => [io, None],
                    FoundBarKind::Memory => [memory, None],
                    FoundBarKind::Prefetchable | FoundBarKind::Rom => [memory, prefetchable],
                };
                let mut ways = ways.into_iter().flatten();
                assert!(
                    ways.any(|(base, limit)| lies_in(&(base..limit + 1))),
                    "{kind:?} {place:x?} behind {bridge:x?}"
                );
                bus = bridge.bus;
            }
        }
    }
}

#[test]
fn ecam_is_all_there_is_and_a_read_is_one_bus_access() {
    let Some(qemu) = qemu_for("ecam_is_all_there_is", QemuBoard::Virt) else {
        return;
    };
    let strategies = [
        AccessStrategy::Ports,
        AccessStrategy::Ecam,
        AccessStrategy::Ram,
        AccessStrategy::Auto,
    ];
    let measure = strategies.map(|by| (Operation::Read(1_000), by));
    let plan = PciPlan {
        measure: &measure,
        repeat: 1,
    };
    let guest = Guest {
        kernel: include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_RISCV64")),
        cpus: 1,
        work: &[],
        repeat: 1,
        input: &[],
        ram: None,
        flash: None,
        qemu_args: &[],
    };
    let (survey, ran) = run::run(&qemu, &guest, &plan).unwrap();
    assert!(survey.equal);
    assert_eq!(survey.described[1], "chosen: ECAM: there are no ports");
    assert!(survey.by(Method::Ports).is_none());
    let accesses = survey.measurings.iter();
    let accesses: Vec<_> = accesses
        .map(|one| one.measured.map(|measured| measured.bus_accesses))
        .collect();
    assert_eq!(accesses, [None, Some(1_000), Some(1_000), Some(1_000)]);
    let result: Vec<(usize, JobResult)> = ran.results().unwrap();
    let count = |is: fn(&JobResult) -> bool| result.iter().filter(|(_, result)| is(result)).count();
    assert_eq!(
        count(|result| matches!(result, JobResult::Assigned { left: 0, .. })),
        1
    );
    let by_ecam = |result: &JobResult| {
        matches!(
            result,
            JobResult::Machine {
                chosen: Some(Method::Ecam),
                ..
            }
        )
    };
    assert_eq!(count(by_ecam), 1);
}
