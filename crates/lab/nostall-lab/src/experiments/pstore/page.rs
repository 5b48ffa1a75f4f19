//! The experiment's part of the page.

use crate::report::group::{Group, Metric};
use crate::report::part::{Bound, EVERYWHERE, MetricPart, PagePart};

pub const PAGE: PagePart = PagePart {
    stall: "A trace that survives a crash is written at every function call. With one buffer and \
            one lock, all CPUs wait for each other. nostall gives each CPU a zone of its own.",
    lanes: "pstore",
    ours: &["per-cpu-"],
    metrics: &[
        MetricPart::new("ns_per_record", "Time for each trace record", EVERYWHERE),
        MetricPart::new("ns_per_block", "Time for each block copied", &[]),
    ],
    bound,
};

fn bound(group: &Group<'_>, source: usize, (metric, _): Metric<'_>) -> Option<Bound> {
    if metric != "ns_per_record" {
        return None;
    }
    let of = |strategy, metric| group.value(source, strategy, metric);
    let mut records = group.strategies.iter();
    let records = records.find_map(|one| of(one, "records").filter(|records| *records > 0.0));
    let untraced = of("untraced", "bytes")? * 1e3 / of("untraced", "mb_per_s")?;
    Some((untraced / records?, "the same work without records", "ns"))
}
