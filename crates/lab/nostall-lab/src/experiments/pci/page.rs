//! The experiment's part of the page.

use crate::report::group::{Group, Metric};
use crate::report::part::{Bound, MetricPart, PagePart};

pub const PAGE: PagePart = PagePart {
    stall: "A hypervisor emulates each access to PCI configuration space. Through ports a read is \
            two exits, through memory one, and none from the pages that nostall's VMM maps.",
    lanes: "pci",
    ours: &["ecam-shadow", "auto"],
    metrics: &[
        MetricPart::new(
            "exits_per_read",
            "VM exits for each configuration read",
            &["kvm"],
        ),
        MetricPart::new(
            "exits_per_init",
            "VM exits to initialise all devices",
            &["kvm"],
        ),
        MetricPart::new("exits_per_scan", "VM exits to scan the bus", &[]),
        MetricPart::new(
            "bus_accesses_per_read",
            "Accesses for each configuration read",
            &["qemu"],
        ),
        MetricPart::new("ns_per_read", "Time for each configuration read", &["qemu"]),
    ],
    bound,
};

fn bound(group: &Group<'_>, source: usize, (metric, _): Metric<'_>) -> Option<Bound> {
    Some(match metric {
        "ns_per_read" => {
            let ram = group.value(source, "ram", "ns_per_read")?;
            (ram, "a read of RAM", "ns")
        }
        metric if metric.starts_with("exits_per_") => (0.0, "no exit", "1"),
        "bus_accesses_per_read" => (1.0, "one access reads 32 bits", "1"),
        _ => return None,
    })
}
