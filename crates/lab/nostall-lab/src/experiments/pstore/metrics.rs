//! The experiment's metrics, and its part of the page.

use nostall_figures::metric::{LimitScope, Metric, Shown};

use crate::report::part::{EVERYWHERE, PagePart};

nostall_figures::metrics! {
    BYTES = Metric::new("bytes", "B");
    RECORDS = Metric::new("records", "1");
    MB_PER_S = Metric::new("mb_per_s", "MB/s");
    NS_PER_RECORD = Metric::new("ns_per_record", "ns")
        .shown(&[Shown::new("Time for each trace record", EVERYWHERE)])
        .limit("the same work without records", untraced);
    RECORDS_RECOVERED = Metric::new("records_recovered", "1");
    // Linux's alone.
    NS_PER_BLOCK = Metric::new("ns_per_block", "ns")
        .shown(&[Shown::new("Time for each block copied", &[])]);
}

pub const PAGE: PagePart = PagePart {
    stall: "A trace that survives a crash is written at every function call. With one buffer and \
            one lock, all CPUs wait for each other. nostall gives each CPU a zone of its own.",
    lanes: "pstore",
    ours: &["per-cpu-"],
    metrics: METRICS,
};

fn untraced(scope: &LimitScope<'_>) -> Option<f64> {
    let mut records = scope.strategies.iter();
    let records = records.find_map(|one| scope.get(one, RECORDS).filter(|count| *count > 0.0));
    let of = |metric| scope.get("untraced", metric);
    Some(of(BYTES)? * 1e3 / of(MB_PER_S)? / records?)
}
