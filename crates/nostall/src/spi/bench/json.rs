//! The figures for programs: one object, stable words.

use anyhow::Result;
use serde::Serialize;

use super::board::{Board, Node};
use super::methods::{Measured, Row};
use crate::escape::json_document;
use nostall_figures::figure::Figure;

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
pub fn document(board: &Board, measured: &Measured) -> Result<String> {
    let controller = board.controller.as_ref();
    let name = |node: Option<&'_ Node>| node.map(|node| node.name.clone());
    let (device_name, controller_name) = (name(board.device.as_ref()), name(controller));
    let document = Document {
        schema: 2,
        host: Host {
            nostall: env!("CARGO_PKG_VERSION"),
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: &board.release,
            device: device_name.as_deref(),
            controller: controller_name.as_deref(),
            driver: controller.and_then(|node| node.driver.as_deref()),
            clock: measured.clock,
        },
        results: measured
            .rows
            .iter()
            .flat_map(|row| figures(row, measured.clock))
            .collect(),
    };
    Ok(json_document(&document)?)
}

/// Returns the figures of a row, without those that this kernel does not report.
fn figures(row: &Row, clock: u32) -> impl Iterator<Item = Figure> {
    let case = format!("{}-bytes-{}-threads", row.bytes, row.threads);
    let (strategy, n) = (row.method.name(), row.rates.len());
    let each = |count: u64| row.each(count);
    let figures = [
        ("messages", Some(row.tally.messages() as f64), "1"),
        ("messages_per_second", Some(row.rate()), "1/s"),
        ("share_of_clock", Some(row.of_clock(clock)), "1"),
        ("median_latency_ns", Some(row.latency(0.5) as f64), "ns"),
        ("p999_latency_ns", Some(row.latency(0.999) as f64), "ns"),
        (
            "longest_latency_ns",
            Some(row.tally.latency.max() as f64),
            "ns",
        ),
        (
            "context_switches_per_message",
            row.tally.switches.map(each),
            "1",
        ),
        (
            "linux_sync_immediate_share",
            row.linux.and_then(|linux| linux.immediate()),
            "1",
        ),
        (
            "linux_worker_wakeups_per_message",
            row.worker.map(|worker| each(worker.wakeups)),
            "1",
        ),
        (
            "linux_worker_cpu_share",
            row.worker
                .map(|worker| worker.time.as_secs_f64() / row.took.as_secs_f64()),
            "1",
        ),
    ];
    let counted = row.linux.into_iter().flat_map(|linux| linux.named());
    let counted: Vec<_> = counted
        .map(|(name, value)| (format!("linux_{name}"), value as f64, "1"))
        .collect();
    let figures = figures
        .into_iter()
        .filter_map(|(metric, value, unit)| Some((metric.to_owned(), value?, unit)));
    figures
        .chain(counted)
        .map(move |(metric, value, unit)| Figure {
            path: "spi".to_owned(),
            strategy: strategy.to_owned(),
            on: "linux".to_owned(),
            metric,
            case: Some(case.clone()),
            value,
            unit: unit.to_owned(),
            n,
            ..Figure::default()
        })
}
