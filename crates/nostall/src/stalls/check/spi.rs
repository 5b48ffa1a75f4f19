//! SPI buses: which part of the messages needed Linux's worker thread.
//!
//! Source: Linux 6.1, 6.12: `__spi_sync` (`drivers/spi/spi.c`).

use nostall_figures::numbers::grouped;
use nostall_figures::table::percent;

use super::machine::Machine;
use super::report::{Finding, Verdict};
use super::system::System;

/// Returns the findings of all controllers.
pub fn examine(system: &System, machine: &Machine) -> Vec<Finding> {
    let names = system.names("sys/class/spi_master", "the SPI controllers");
    let names = names.unwrap_or_default();
    if names.is_empty() {
        let reason = "There is no SPI controller.";
        return vec![Finding::new("SPI", Verdict::Absent, reason)];
    }
    let each = names.iter().map(|name| controller(system, machine, name));
    each.collect()
}

fn controller(system: &System, machine: &Machine, name: &str) -> Finding {
    let mut finding = Finding::new(
        format!("SPI {name}"),
        Verdict::Unknown,
        "Its counters cannot be read.",
    );
    let folder = format!("sys/class/spi_master/{name}/statistics");
    let answer = "the counters of the SPI controller";
    let names = ["messages", "spi_sync", "spi_sync_immediate"];
    let counts = finding.read(system, &folder, names, answer);
    let [Some(messages), Some(sync), Some(immediate)] = counts else {
        finding.figures.clear();
        return finding;
    };
    let failed = finding.read(system, &folder, ["errors", "timedout"], answer);
    let failed = failed.into_iter().flatten().fold(0, u64::saturating_add);
    finding.read(system, &folder, ["spi_async"], answer);
    if messages == 0 {
        finding.verdict = Verdict::Fine;
        finding.reason = "No message was sent since boot.".to_owned();
        return finding;
    }
    let worker = match machine.since(6, 0) {
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
    finding.reason = format!(
        "{} messages: {driven}; {} failed. {worker}",
        grouped(messages),
        grouped(failed)
    );
    if machine.since(6, 0) == Some(false) {
        finding
            .mend(
                8,
                "Linux 6.0 or newer. To measure this bus before and after:",
            )
            .command("nostall spi bench /dev/spidevB.C")
            .source(
                "commit ae7d2346dc89 \"spi: Don't use the message queue if possible in spi_sync\"; \
                 measured: 1.80 us a message, not 25.2 us (book, \"Linux beside nostall\", SPI).",
            );
    }
    finding
}
