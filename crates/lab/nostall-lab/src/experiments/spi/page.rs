//! The experiment's part of the page.

use crate::report::group::{Group, Metric};
use crate::report::part::{Bound, EVERYWHERE, MetricPart, PagePart};

pub const PAGE: PagePart = PagePart {
    stall: "A worker thread was woken after every message, only to find an empty queue. In \
            nostall the caller drives an idle bus itself.",
    lanes: "spi",
    ours: &["caller"],
    metrics: &[
        MetricPart::new(
            "wakeups_per_message",
            "Wake-ups of the worker for each message",
            EVERYWHERE,
        ),
        MetricPart::new(
            "teardowns_per_message",
            "Teardowns of the hardware for each message",
            &["qemu"],
        ),
        MetricPart::new("wakeups", "Wake-ups of the worker", &[]),
        MetricPart::new("teardowns", "Teardowns of the hardware", &[]),
        MetricPart::new(
            "context_switches_per_second",
            "Context switches a second",
            &[],
        ),
    ],
    bound,
};

fn bound(group: &Group<'_>, source: usize, (metric, _): Metric<'_>) -> Option<Bound> {
    if !["wakeups_per_message", "teardowns_per_message"].contains(&metric) {
        return None;
    }
    let messages = group.value(source, "caller", "messages")?;
    (messages > 0.0).then_some((1.0 / messages, "one in the whole run", "1"))
}
