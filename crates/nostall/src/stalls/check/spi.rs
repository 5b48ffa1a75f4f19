//! SPI buses: which part of the messages needed Linux's worker thread.
//!
//! Source: Linux 6.1, 6.12: `__spi_sync` (`drivers/spi/spi.c`).

use nostall_figures::numbers::grouped;
use nostall_figures::table::percent;

use super::machine::Machine;
use super::report::{Finding, Remedy, Verdict};
use super::system::System;

/// Controllers that are examined, at most.
const MOST: usize = 64;

/// Returns the findings of all controllers.
pub fn examine(system: &System, machine: &Machine) -> Vec<Finding> {
    let names = system.names("sys/class/spi_master", "the SPI controllers");
    let names = names.unwrap_or_default();
    if names.is_empty() {
        let reason = "There is no SPI controller.";
        return vec![Finding::new("SPI", Verdict::Absent, reason)];
    }
    let names = names.iter().take(MOST);
    names
        .map(|name| controller(system, machine, name))
        .collect()
}

fn controller(system: &System, machine: &Machine, name: &str) -> Finding {
    let count = |counter: &str| {
        let file = format!("sys/class/spi_master/{name}/statistics/{counter}");
        system.number(&file, "the counters of the SPI controller")
    };
    let counts = (
        count("messages"),
        count("spi_sync"),
        count("spi_sync_immediate"),
    );
    let path = format!("SPI {name}");
    let (Some(messages), Some(sync), Some(immediate)) = counts else {
        return Finding::new(path, Verdict::Unknown, "Its counters cannot be read.");
    };
    let mut finding = Finding::new(path, Verdict::Fine, "No message was sent since boot.");
    for (name, count) in [
        ("messages", Some(messages)),
        ("spi_sync", Some(sync)),
        ("spi_sync_immediate", Some(immediate)),
        ("spi_async", count("spi_async")),
        ("errors", count("errors")),
        ("timedout", count("timedout")),
    ] {
        finding.figures.extend(count.map(|count| (name, count)));
    }
    let worker = match machine.since(6, 0) {
        _ if messages == 0 => return finding,
        Some(true) => "Such a message needs no worker thread in this kernel.",
        Some(false) => {
            "By its version, this kernel wakes its worker thread after nearly every message."
        }
        None => "Whether this kernel wakes its worker thread is not known.",
    };
    finding.verdict = match machine.since(6, 0) {
        Some(true) if immediate >= sync / 2 => Verdict::Fine,
        None => Verdict::Unknown,
        _ => Verdict::Costs,
    };
    let driven = match sync {
        0 => "none was synchronous".to_owned(),
        _ => format!(
            "{} of the {} synchronous ones ran in their caller",
            percent(immediate.min(sync) as f64 / sync as f64),
            grouped(sync)
        ),
    };
    let failed = ["errors", "timedout"].map(|name| finding.figures.get(name).copied());
    let failed = failed.into_iter().flatten().fold(0, u64::saturating_add);
    finding.reason = format!(
        "{} messages: {driven}; {} failed. {worker}",
        grouped(messages),
        grouped(failed)
    );
    if machine.since(6, 0) == Some(false) {
        finding.remedies.push(Remedy::new(
            8,
            "Linux 6.0 or newer. To measure this bus before and after:",
            &["nostall spi bench /dev/spidevB.C"],
            "",
            "commit ae7d2346dc89 \"spi: Don't use the message queue if possible in spi_sync\"; \
             measured: 1.80 us a message, not 25.2 us (book, \"Linux beside nostall\", SPI).",
        ));
    }
    finding
}
