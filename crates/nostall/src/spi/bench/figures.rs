//! The figures of a bench: a table for readers, and a document for programs.

use anyhow::Result;
use comfy_table::Table;
use nostall_figures::figure::{Figure, Figures};
use nostall_figures::numbers::grouped;
use nostall_figures::table::{Column, aligned, host_cpus, hundredths, percent, time, whole};
use serde::Serialize;

use super::board::{Board, Node};
use super::counters::{NAMES, immediate};
use super::methods::{Measured, ROUNDS, Row};
use crate::escape::json_document;

const COLUMNS: [Column; 9] = [
    Column::of("messages/s", "messages_per_second", whole),
    Column::of("of clock", "share_of_clock", percent),
    Column::of("median", "median_latency_ns", time),
    Column::of("99.9 %", "p999_latency_ns", time),
    Column::of("longest", "longest_latency_ns", time),
    Column::of("switches", "context_switches_per_message", hundredths),
    Column::of("at once", "linux_sync_immediate_share", percent),
    Column::of("woken", "linux_worker_wakeups_per_message", hundredths),
    Column::of("its CPU", "linux_worker_cpu_share", percent),
];

fn case(row: &Row) -> String {
    format!("{}-bytes-{}-threads", row.bytes, row.threads)
}

/// Returns the figures of all rows, without those that this kernel does not report.
fn figures(measured: &Measured) -> Figures {
    let mut figures = Figures::new("spi", "linux");
    for row in &measured.rows {
        let tally = &row.tally;
        let switches = tally.switches.map(|switches| row.each(switches));
        let (wakeups, cpu) = row.worked().unzip();
        let mut record = figures.record(row.method.name()).of_case(Some(case(row)));
        record.value("messages", "1", tally.messages() as f64);
        record.value("messages_per_second", "1/s", row.rate());
        record.value("share_of_clock", "1", row.of_clock(measured.clock));
        record.value("median_latency_ns", "ns", row.latency(0.5));
        record.value("p999_latency_ns", "ns", row.latency(0.999));
        record.value("longest_latency_ns", "ns", tally.latency.max() as f64);
        record.value("context_switches_per_message", "1", switches);
        let at_once = row.linux.and_then(immediate);
        record.value("linux_sync_immediate_share", "1", at_once);
        record.value("linux_worker_wakeups_per_message", "1", wakeups);
        record.value("linux_worker_cpu_share", "1", cpu);
        for (name, count) in NAMES.iter().zip(row.linux.into_iter().flatten()) {
            record.value(&format!("linux_{name}"), "1", count as f64);
        }
    }
    figures
}

/// Returns the table's lines.
pub fn table(measured: &Measured) -> String {
    let figures = figures(measured);
    let mut table = Table::new();
    let headers = COLUMNS.iter().map(|column| column.header);
    table.set_header(["bytes", "threads", "by"].into_iter().chain(headers));
    for row in &measured.rows {
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
pub fn document<'a>(board: &'a Board, measured: &Measured) -> Result<String> {
    let name = |node: &'a Option<Node>| node.as_ref().map(|node| &*node.name);
    let figures = figures(measured);
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
            clock: measured.clock,
        },
        results: figures.iter().map(of_all_rounds).collect(),
    };
    Ok(json_document(&document)?)
}
