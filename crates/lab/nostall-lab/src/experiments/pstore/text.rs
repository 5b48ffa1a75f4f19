//! The text about records that survive a crash.

use comfy_table::Table;
use nostall_work::pstore::{BLOCK, BLOCKS, ENTRIES_PER_BLOCK, Recovered, TextKind, ZoneStrategy};

use super::fold::fold;
use super::metrics;
use super::run::Survived;
use crate::experiments::experiment::Answer;
use nostall_figures::table::{Column, aligned, hundredths, table, tenths, whole};

/// The strategy that the others are compared with.
const BEFORE: &str = "one-zone-locked";

const COLUMNS: [Column; 6] = [
    Column::of("records", metrics::RECORDS, whole),
    Column::of("ns/rec", metrics::NS_PER_RECORD, whole),
    Column::of("MB/s", metrics::MB_PER_S, tenths),
    Column::new("times", |row| row.to(BEFORE, metrics::MB_PER_S), hundredths),
    Column::new("| Linux MB/s", |row| published(row.strategy), tenths),
    Column::new(
        "times",
        |row| Some(published(row.strategy)? / published(BEFORE)?),
        hundredths,
    ),
];

/// Returns Linux's published figures in MB/s. Before its patches, Linux had one lock for all
/// zones. Only traces were written, so it cost as much as a lock of the trace's zone.
fn published(strategy: &str) -> Option<f64> {
    match strategy {
        BEFORE => Some(24.0),
        "per-cpu-clock" => Some(51.9),
        "per-cpu-counter" => Some(91.5),
        _ => None,
    }
}

const LEGEND: &str = "\
    ns/rec: the run's time divided by the records of all CPUs; times: MB/s relative\n\
    to one-zone-locked; ecc: error correction with 16 bytes for each block of 128.\n\
    Linux: published with its patches \"pstore: Improve performance of ftrace backend\n\
    with ramoops\" (2016), before and with them, for dd | pv | dd with all functions\n\
    traced, on another machine's 4 CPUs (-: not published). Compare times, not MB/s.";

/// Folds the reports into the text and the figures.
pub fn answer(headline: &str, on: &'static str, survived: &Survived) -> Answer {
    let (figures, faults) = fold(on, survived);
    let row = |strategy: ZoneStrategy| ([strategy.name()], figures.row(strategy.name()));
    let rounds = row(ZoneStrategy::Untraced)
        .1
        .figure(metrics::BYTES)
        .map_or(0, |figure| figure.n);
    let success = match survived.panic {
        Some(_) => {
            "The kernel panicked. Its own report of the traces, the host's copy from the\n\
             crashed machine's RAM, and the copy that a second boot recovered are the same."
        }
        None => "Every byte arrived, and every record was written.",
    };
    let mut parts = vec![
        format!(
            "{headline}\n{BLOCKS} blocks of {BLOCK} bytes through two pipes, {ENTRIES_PER_BLOCK} \
             function entries a block;\nmedians of {rounds} rounds",
        ),
        table(["strategy"], &COLUMNS, ZoneStrategy::ALL.map(row)),
        LEGEND.to_owned(),
    ];
    parts.extend(recovered(&survived.host));
    Answer::of(parts, figures, (), faults, |_| success.to_owned())
}

/// Returns the table of the host's findings, and excerpts of it.
fn recovered(found: &[Recovered]) -> Vec<String> {
    let mut table = Table::new();
    table.set_header([
        "read back",
        "records",
        "bytes",
        "first stamp",
        "last stamp",
        "checksum",
    ]);
    let dash = || "-".to_owned();
    let mut excerpts = Vec::new();
    for found in found {
        match found {
            Recovered::Trace { cpu, trace } => {
                table.add_row([
                    cpu.map_or("merged".to_owned(), |cpu| format!("CPU {cpu}")),
                    trace.records.to_string(),
                    dash(),
                    trace.first.to_string(),
                    trace.last.to_string(),
                    format!("{:016x}", trace.checksum),
                ]);
            }
            Recovered::Text {
                kind,
                bytes,
                checksum,
                text,
            } => {
                let checksum = format!("{checksum:016x}");
                let name = name(*kind).to_owned();
                table.add_row([name, dash(), bytes.to_string(), dash(), dash(), checksum]);
                excerpts.push(excerpt(*kind, text));
            }
            _ => {}
        }
    }
    let mut parts = vec![aligned(table, 1)];
    if !excerpts.is_empty() {
        parts.push(excerpts.join("\n"));
    }
    parts
}

/// Returns the last line of a console, or the first two lines of another text.
fn excerpt(kind: TextKind, text: &str) -> String {
    let lines: Vec<_> = match kind {
        TextKind::Console => text.lines().rev().take(1).collect(),
        _ => text.lines().take(2).collect(),
    };
    let lines = lines.into_iter().map(|line| {
        let line: String = line.chars().take(70).collect();
        format!("{:<9}{line}", name(kind))
    });
    lines.collect::<Vec<_>>().join("\n")
}

const fn name(kind: TextKind) -> &'static str {
    match kind {
        TextKind::Dmesg => "dmesg",
        TextKind::Console => "console",
        _ => "other",
    }
}
