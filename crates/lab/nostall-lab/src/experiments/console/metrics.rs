//! The experiment's metrics, and its part of the page.

use nostall_figures::metric::{LimitScope, Metric, Shown};

use crate::experiments::uart::metrics::profile;
use crate::report::part::{EVERYWHERE, PagePart};

nostall_figures::metrics! {
    LONGEST_HOLD_NS = Metric::new("longest_hold_ns", "ns")
        .shown(&[Shown::new("Longest time for which a CPU is held", EVERYWHERE)])
        .limit("one FIFO is filled", one_fifo);
    DELAY_MEDIAN_NS = Metric::new("delay_median_ns", "ns");
    DELAY_P999_NS = Metric::new("delay_p999_ns", "ns");
    DELAY_MAX_NS = Metric::new("delay_max_ns", "ns");
    TICKS_MISSED = Metric::new("ticks_missed", "1");
    LOCKUP_REPORTS = Metric::new("lockup_reports", "1");
    STALL_REPORTS = Metric::new("stall_reports", "1");
    CASCADES = Metric::new("cascades", "1");
    BYTES = Metric::new("bytes", "B");
    BYTES_PER_SECOND = Metric::new("bytes_per_second", "B/s");
    SECOND_TASK_SHARE = Metric::new("second_task_share", "1");
    SECOND_TASK_LEAST_SHARE = Metric::new("second_task_least_share", "1");
    LOCKUP_THRESHOLD_NS = Metric::new("lockup_threshold_ns", "ns");
    STALL_THRESHOLD_NS = Metric::new("stall_threshold_ns", "ns");
    LINE_USE = Metric::new("line_use", "1");
    PANIC_RECORDS_UNSENT = Metric::new("panic_records_unsent", "1");
    PANIC_FIRST_BYTE_NS = Metric::new("panic_first_byte_ns", "ns")
        .shown(&[Shown::new("From a panic to its first byte on the line", &[])]);
    PANIC_LAST_BYTE_NS = Metric::new("panic_last_byte_ns", "ns");
    PANIC_RECORD_BYTES = Metric::new("panic_record_bytes", "B");
    PANIC_LONGEST_HOLD_NS = Metric::new("panic_longest_hold_ns", "ns");
    DURATION_NS = Metric::new("duration_ns", "ns");
    RECORDS_LOST = Metric::new("records_lost", "1").shown(&[Shown::new("Records lost", &[])]);
    // Beside Linux.
    NS_PER_PRINTK = Metric::new("ns_per_printk", "ns")
        .shown(&[Shown::new("Time that a log call takes from its caller", &["qemu"])]);
    LONGEST_PRINTK_NS = Metric::new("longest_printk_ns", "ns")
        .shown(&[Shown::new("Longest time that a log call holds a CPU", &[])]);
    INSTRUCTIONS_PER_PRINTK = Metric::new("instructions_per_printk", "1")
        .shown(&[Shown::new("Instructions of a log call", &[])]);
    LONGEST_PRINTK_INSTRUCTIONS = Metric::new("longest_printk_instructions", "1");
}

pub const PAGE: PagePart = PagePart {
    stall: "A flood of messages takes a minute on the line. Where the CPU that logs also prints, \
            one CPU prints for all, and watchdogs fire. nostall logs to a ring, and each caller \
            sends for a bounded time.",
    lanes: "CPUs held by the console",
    ours: &["bounded"],
    metrics: METRICS,
};

fn one_fifo(scope: &LimitScope<'_>) -> Option<f64> {
    let profile = profile(scope).filter(|_| scope.on == "model")?;
    let (access, slow) = (profile.access.0 as f64, profile.slow_access);
    let slowest = match slow.every {
        0 => access,
        _ => slow.takes.0 as f64,
    };
    Some(16.0 * access + slowest)
}
