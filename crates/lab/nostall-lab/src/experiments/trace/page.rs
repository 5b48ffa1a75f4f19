//! The experiment's part of the page.

use crate::report::part::{EVERYWHERE, MetricPart, PagePart};

pub const PAGE: PagePart = PagePart {
    stall: "The kernel records its own calls while it sends. The polls of the line status are \
            visible one by one.",
    lanes: "trace",
    ours: &["fifo-paced", "fifo-burst"],
    metrics: &[
        MetricPart::new(
            "traced_polls 2500-byte-write",
            "Polls of the line status, 2,500 bytes",
            EVERYWHERE,
        ),
        MetricPart::new(
            "stalled_ns 2500-byte-write",
            "Time for which the CPU is held, 2,500 bytes",
            &[],
        ),
    ],
    bound: |_, _, _| None,
};
