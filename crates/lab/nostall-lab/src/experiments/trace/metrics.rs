//! The experiment's metrics, and its part of the page.

use nostall_figures::metric::{Metric, Shown};

use crate::report::part::{EVERYWHERE, PagePart};

nostall_figures::metrics! {
    TRACED_POLLS = Metric::new("traced_polls", "1").shown(&[Shown::of(
        "2500-byte-write",
        "Polls of the line status, 2,500 bytes",
        EVERYWHERE,
    )]);
    STALLED_NS = Metric::new("stalled_ns", "ns").shown(&[Shown::of(
        "2500-byte-write",
        "Time for which the CPU is held, 2,500 bytes",
        &[],
    )]);
    BYTES = Metric::new("bytes", "B");
    NS = Metric::new("ns", "ns");
    REGISTER_INSTRUCTIONS = Metric::new("register_instructions", "1");
    TRACED_CALLS = Metric::new("traced_calls", "1");
    TRACED_NS = Metric::new("traced_ns", "ns");
    TRACED_WRITE_NS = Metric::new("traced_write_ns", "ns");
    RECORDS_OVERWRITTEN = Metric::new("records_overwritten", "1");
    RECORDS_RECOVERED = Metric::new("records_recovered", "1");
}

pub const PAGE: PagePart = PagePart {
    stall: "The kernel records its own calls while it sends. The polls of the line status are \
            visible one by one.",
    lanes: "trace",
    ours: &["fifo-paced", "fifo-burst"],
    metrics: METRICS,
};
