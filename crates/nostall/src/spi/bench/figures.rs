//! The figures of a bench: a table for readers, and a document for programs.

use anyhow::Result;
use comfy_table::Table;
use nostall_figures::figure::{Figure, Figures};
use nostall_figures::metric::Metric;
use nostall_figures::numbers::grouped;
use nostall_figures::table::{Column, aligned, host_cpus, hundredths, percent, time, whole};
use serde::Serialize;

use super::board::{Board, Node};
use super::counters::{COUNTERS, immediate};
use super::methods::{Measured, ROUNDS, Row};
use crate::escape::json_document;

nostall_figures::metrics! {
    MESSAGES = Metric::new("messages", "1");
    MESSAGES_PER_SECOND = Metric::new("messages_per_second", "1/s");
    SHARE_OF_CLOCK = Metric::new("share_of_clock", "1");
    MEDIAN_LATENCY_NS = Metric::new("median_latency_ns", "ns");
    P999_LATENCY_NS = Metric::new("p999_latency_ns", "ns");
    LONGEST_LATENCY_NS = Metric::new("longest_latency_ns", "ns");
    CONTEXT_SWITCHES_PER_MESSAGE = Metric::new("context_switches_per_message", "1");
    LINUX_SYNC_IMMEDIATE_SHARE = Metric::new("linux_sync_immediate_share", "1");
    LINUX_WORKER_WAKEUPS_PER_MESSAGE = Metric::new("linux_worker_wakeups_per_message", "1");
    LINUX_WORKER_CPU_SHARE = Metric::new("linux_worker_cpu_share", "1");
}

const COLUMNS: [Column; 9] = [
    Column::of("messages/s", MESSAGES_PER_SECOND, whole),
    Column::of("of clock", SHARE_OF_CLOCK, percent),
    Column::of("median", MEDIAN_LATENCY_NS, time),
    Column::of("99.9 %", P999_LATENCY_NS, time),
    Column::of("longest", LONGEST_LATENCY_NS, time),
    Column::of("switches", CONTEXT_SWITCHES_PER_MESSAGE, hundredths),
    Column::of("at once", LINUX_SYNC_IMMEDIATE_SHARE, percent),
    Column::of("woken", LINUX_WORKER_WAKEUPS_PER_MESSAGE, hundredths),
    Column::of("its CPU", LINUX_WORKER_CPU_SHARE, percent),
];

fn case(row: &Row) -> String {
    format!("{}-bytes-{}-threads", row.bytes, row.threads)
}

/// Returns the figures of all rows, without those that this kernel does not report.
pub fn figures(measured: &Measured) -> Figures {
    let mut figures = Figures::new("spi", "linux");
    for row in &measured.rows {
        let tally = &row.tally;
        let switches = tally.switches.map(|switches| row.each(switches));
        let (wakeups, cpu) = row.worked().unzip();
        let mut record = figures.record(row.method.name()).of_case(Some(case(row)));
        record.value(MESSAGES, tally.messages() as f64);
        record.value(MESSAGES_PER_SECOND, row.rate());
        record.value(SHARE_OF_CLOCK, row.of_clock(measured.clock));
        record.value(MEDIAN_LATENCY_NS, row.latency(0.5));
        record.value(P999_LATENCY_NS, row.latency(0.999));
        record.value(LONGEST_LATENCY_NS, tally.latency.max() as f64);
        record.value(CONTEXT_SWITCHES_PER_MESSAGE, switches);
        let at_once = row.linux.and_then(immediate);
        record.value(LINUX_SYNC_IMMEDIATE_SHARE, at_once);
        record.value(LINUX_WORKER_WAKEUPS_PER_MESSAGE, wakeups);
        record.value(LINUX_WORKER_CPU_SHARE, cpu);
        for ((_, metric), count) in COUNTERS.iter().zip(row.linux.into_iter().flatten()) {
            record.value(metric, count as f64);
        }
    }
    figures
}

/// Returns the table's lines, one for each of `rows`.
pub fn table(rows: &[Row], figures: &Figures) -> String {
    let mut table = Table::new();
    let headers = COLUMNS.iter().map(|column| column.header);
    table.set_header(["bytes", "threads", "by"].into_iter().chain(headers));
    for row in rows {
        let (name, case) = (row.method.name(), case(row));
        let labels = [grouped(row.bytes), row.threads.to_string(), name.to_owned()];
        let figures = figures.row(name).of_case(Some(&case));
        let cells = COLUMNS.iter().map(|column| column.cell(&figures));
        table.add_row(labels.into_iter().chain(cells));
    }
    aligned(table, 0)
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    host: Host<'a>,
    results: Vec<Figure>,
}

#[derive(Serialize)]
struct Host<'a> {
    nostall: &'a str,
    os: &'a str,
    arch: &'a str,
    cpus: usize,
    kernel: &'a str,
    device: Option<&'a str>,
    controller: Option<&'a str>,
    driver: Option<&'a str>,
    clock: u32,
}

/// Returns the document, with a line's end.
pub fn document<'a>(board: &'a Board, clock: u32, figures: &Figures) -> Result<String> {
    let name = |node: &'a Option<Node>| node.as_ref().map(|node| &*node.name);
    let of_all_rounds = |figure: &Figure| Figure {
        n: ROUNDS as usize,
        ..figure.clone()
    };
    let document = Document {
        schema: 2,
        host: Host {
            nostall: env!("CARGO_PKG_VERSION"),
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            cpus: host_cpus(),
            kernel: &board.release,
            device: name(&board.device),
            controller: name(&board.controller),
            driver: board
                .controller
                .as_ref()
                .and_then(|node| node.driver.as_deref()),
            clock,
        },
        results: figures.iter().map(of_all_rounds).collect(),
    };
    Ok(json_document(&document)?)
}
