//! The experiment's metrics, and its part of the page.

use nostall_figures::metric::{LimitScope, Metric, Shown};

use crate::report::part::{EVERYWHERE, PagePart};

nostall_figures::metrics! {
    FLASH_SECTOR_ERASE_NS = Metric::new("flash_sector_erase_ns", "ns");
    FLASH_SECTOR_WRITE_NS = Metric::new("flash_sector_write_ns", "ns");
    FRAMES = Metric::new("frames", "1").of("frames received");
    MESSAGES = Metric::new("messages", "1").of("messages");
    MESSAGES_PER_SECOND = Metric::new("messages_per_second", "1/s");
    MESSAGES_BY_WORKER = Metric::new("messages_by_worker", "1").of("messages run by the worker");
    WAKEUPS_PER_MESSAGE = Metric::new("wakeups_per_message", "1")
        .shown(&[Shown::new("Wake-ups of the worker for each message", EVERYWHERE)]);
    TEARDOWNS_PER_MESSAGE = Metric::new("teardowns_per_message", "1")
        .shown(&[Shown::new("Teardowns of the hardware for each message", &["qemu"])])
        .limit(ONCE, once);
    WAKEUPS = Metric::new("wakeups", "1")
        .of("times the worker was woken")
        .shown(&[Shown::new("Wake-ups of the worker", &[])]);
    TEARDOWNS = Metric::new("teardowns", "1")
        .of("times the hardware was put to sleep")
        .shown(&[Shown::new("Teardowns of the hardware", &[])]);
    WORKER_CPU_SHARE = Metric::new("worker_cpu_share", "1");
    CONTEXT_SWITCHES_PER_SECOND = Metric::new("context_switches_per_second", "1/s")
        .shown(&[Shown::new("Context switches a second", &[])]);
    CROSS_CPU_INTERRUPTS = Metric::new("cross_cpu_interrupts", "1");
    CROSS_CPU_INTERRUPTS_PER_SECOND = Metric::new("cross_cpu_interrupts_per_second", "1/s");
    INTERRUPTS_PER_SECOND = Metric::new("interrupts_per_second", "1/s");
    FRAMES_WRONG = Metric::new("frames_wrong", "1").of("frames that were wrong");
    FRAMES_LOST = Metric::new("frames_lost", "1").of("frames lost");
    FRAMES_SUBMITTED = Metric::new("frames_submitted", "1").of("frames submitted");
    FRAMES_SENT = Metric::new("frames_sent", "1").of("frames sent");
    MESSAGES_SYNC = Metric::new("messages_sync", "1").of("synchronous messages");
    MESSAGES_SUBMITTED = Metric::new("messages_submitted", "1").of("messages submitted");
    MESSAGES_FAILED = Metric::new("messages_failed", "1").of("messages that failed");
    WAKEUPS_BEFORE_IDLE = Metric::new("wakeups_before_idle", "1")
        .of("times it was woken before the bus was idle");
    PREPARATIONS = Metric::new("preparations", "1").of("times the hardware was woken");
    // Linux's alone.
    NS_PER_MESSAGE = Metric::new("ns_per_message", "ns");
}

pub const PAGE: PagePart = PagePart {
    stall: "A worker thread was woken after every message, only to find an empty queue. In \
            nostall the caller drives an idle bus itself.",
    lanes: "spi",
    ours: &["caller"],
    metrics: METRICS,
};

const ONCE: &str = "one in the whole run";

fn once(scope: &LimitScope<'_>) -> Option<f64> {
    let messages = scope.get("caller", MESSAGES)?;
    (messages > 0.0).then(|| 1.0 / messages)
}
