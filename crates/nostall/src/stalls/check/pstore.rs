//! Crash records: whether a panic's text survives, and what the records cost.
//!
//! Source: Linux 6.1, 6.12: `fs/pstore/platform.c`, `fs/pstore/ram.c` (parameters).

use nostall_figures::numbers::grouped;
use nostall_postmortem::cli::counted;

use super::report::{Finding, Verdict};
use super::system::System;

/// Returns the finding of pstore.
pub fn examine(system: &System) -> Finding {
    let backend = system.read("sys/module/pstore/parameters/backend", "pstore's backend");
    let backend = backend.filter(|name| !name.is_empty() && name != "(null)");
    let waiting = system.names("sys/fs/pstore", "records of earlier crashes");
    let waiting = match waiting.as_ref().map_or(0, Vec::len) {
        0 => String::new(),
        files => format!(
            " {} of earlier crashes in /sys/fs/pstore.",
            counted(grouped(files), "file")
        ),
    };
    let (verdict, reason) = match backend.as_deref() {
        Some("ramoops") => return ramoops(system, &waiting),
        Some(name) => (
            Verdict::Unknown,
            format!("Backend {name}: the time of a record in a panic is not known."),
        ),
        None => (
            Verdict::Absent,
            "pstore has no backend: a panic's text is only on the consoles.".to_owned(),
        ),
    };
    let mut finding = Finding::new("crash records", verdict, reason + &waiting);
    plan(&mut finding, system);
    finding
}

fn ramoops(system: &System, waiting: &str) -> Finding {
    let mut finding = Finding::new("crash records", Verdict::Fine, "");
    let names = [
        "mem_size",
        "record_size",
        "console_size",
        "ftrace_size",
        "pmsg_size",
        "ecc",
    ];
    let folder = "sys/module/ramoops/parameters";
    let sizes = finding.read(system, folder, names, "the sizes of ramoops' zones");
    let [size, .., ftrace, _, ecc] = sizes;
    let sizes = match size {
        None => "its sizes are not known".to_owned(),
        Some(_) => {
            let sizes = names.into_iter().zip(sizes);
            let sizes = sizes.filter_map(|(name, size)| Some(format!("{name} {}", grouped(size?))));
            sizes.collect::<Vec<_>>().join(", ")
        }
    };
    let mut reason = format!("Backend ramoops, in RAM: no device is waited for; {sizes}.");
    if ecc > Some(0) && ftrace > Some(0) {
        finding.verdict = Verdict::Costs;
        reason += " While functions are traced, each record's parity is computed anew.";
        finding
            .mend(2, "No parity bytes. On the kernel's command line:")
            .command("ramoops.ecc=0")
            .but("bits that RAM lost across the reset cannot be corrected.")
            .source(
                "measured: 415 ns a trace record without parity, 22.0 us with 16 bytes, on 6.1 \
                 (book, \"Linux beside nostall\", Persistent records).",
            );
    }
    finding.reason = reason + waiting;
    finding
}

/// Adds the remedy that keeps a panic's text in RAM.
fn plan(finding: &mut Finding, system: &System) {
    let cpus = system.read("sys/devices/system/cpu/possible", "the number of CPUs");
    let cpus = cpus.as_deref().and_then(last_cpu);
    let cpus = cpus.map_or("N".to_owned(), |last| (last + 1).to_string());
    let text = "Keep the last messages in RAM (ramoops), also those of a quiet console. For \
                parameters:";
    finding
        .mend(98, text)
        .command(format!("nostall pstore plan --size 1M --cpus {cpus}"))
        .but("1 MiB of RAM. The RAM has to survive a reset.")
        .source(
            "Linux, Documentation/admin-guide/ramoops.rst; Debian's kernel in QEMU (book, \
             \"Records of a crashed kernel\").",
        );
}

/// Returns the last number of a list such as `0-3`.
fn last_cpu(list: &str) -> Option<u32> {
    let last = list.rsplit(['-', ',']).next()?;
    last.parse().ok().filter(|&last| last < 1 << 20)
}
