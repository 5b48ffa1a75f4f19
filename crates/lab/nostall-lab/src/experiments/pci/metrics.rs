//! The experiment's metrics, and its part of the page.

use nostall_figures::metric::{Metric, Shown};

use crate::report::part::PagePart;

// `*` is an operation.
nostall_figures::metrics! {
    EXITS = Metric::new("exits_per_*", "1")
        .shown(&[
            Shown::of("read", "VM exits for each configuration read", &["kvm"]),
            Shown::of("init", "VM exits to initialise all devices", &["kvm"]),
            Shown::of("scan", "VM exits to scan the bus", &[]),
        ])
        .limit("no exit", |_| Some(0.0));
    BUS_ACCESSES = Metric::new("bus_accesses_per_*", "1")
        .shown(&[Shown::of("read", "Accesses for each configuration read", &["qemu"])])
        .limit("one access reads 32 bits", |scope| (scope.case == "read").then_some(1.0));
    NS = Metric::new("ns_per_*", "ns")
        .shown(&[Shown::of("read", "Time for each configuration read", &["qemu"])])
        .limit("a read of RAM", |scope| scope.get("ram", NS).filter(|_| scope.case == "read"));
    TIME_RATIO_TO_PORTS = Metric::new("*_time_ratio_to_ports", "1");
    TIME_RATIO_TO_RAM = Metric::new("*_time_ratio_to_ram", "1");
    MAPS_AT_START = Metric::new("maps_at_start", "1");
    MAPS_AT_START_NS = Metric::new("maps_at_start_ns", "ns");
    MAP_CHANGES = Metric::new("map_changes", "1");
    MAP_CHANGE_NS = Metric::new("map_change_ns", "ns");
    FUNCTIONS = Metric::new("functions", "1");
    BUSES = Metric::new("buses", "1");
    FAULTS = Metric::new("faults", "1");
}

pub const PAGE: PagePart = PagePart {
    stall: "A hypervisor emulates each access to PCI configuration space. Through ports a read is \
            two exits, through memory one, and none from the pages that nostall's VMM maps.",
    lanes: "pci",
    ours: &["ecam-shadow", "auto"],
    metrics: METRICS,
};
