//! The experiment's part of the page.

use crate::experiments::uart::page::profile;
use crate::report::group::{Group, Metric};
use crate::report::part::{Bound, EVERYWHERE, MetricPart, PagePart};

pub const PAGE: PagePart = PagePart {
    stall: "A flood of messages takes a minute on the line. Where the CPU that logs also prints, \
            one CPU prints for all, and watchdogs fire. nostall logs to a ring, and each caller \
            sends for a bounded time.",
    lanes: "CPUs held by the console",
    ours: &["bounded"],
    metrics: &[
        MetricPart::new(
            "longest_hold_ns",
            "Longest time for which a CPU is held",
            EVERYWHERE,
        ),
        MetricPart::new(
            "panic_first_byte_ns",
            "From a panic to its first byte on the line",
            &[],
        ),
        MetricPart::new("records_lost", "Records lost", &[]),
        MetricPart::new(
            "ns_per_printk",
            "Time that a log call takes from its caller",
            &["qemu"],
        ),
        MetricPart::new(
            "longest_printk_ns",
            "Longest time that a log call holds a CPU",
            &[],
        ),
    ],
    bound,
};

fn bound(group: &Group<'_>, _: usize, (metric, _): Metric<'_>) -> Option<Bound> {
    if metric != "longest_hold_ns" || group.on != "model" {
        return None;
    }
    let profile = profile(group)?;
    let (access, slow) = (profile.access.0 as f64, profile.slow_access);
    let slowest = match slow.every {
        0 => access,
        _ => slow.takes.0 as f64,
    };
    Some((16.0 * access + slowest, "one FIFO is filled", "ns"))
}
