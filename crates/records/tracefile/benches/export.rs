//! Speed of exports, on generated traces.
//!
//! `cargo bench -p nostall-tracefile --features perfetto --bench export`. Without `--bench`, which
//! cargo passes, each row runs once and briefly.

#[path = "report/generated.rs"]
mod generated;

use std::hint::black_box;
use std::io;

use generated::Generated;
use nostall_bench::{Effort, Limit, Table, Unit};
use nostall_tracefile::export::{ExportError, Folded, Perfetto, Weight};
use nostall_tracefile::graph::walk;

/// Goal: three million records per second.
const GOAL: Limit = Limit::AtMost(333.3);

fn main() {
    nostall_bench::main(&[("records", records)]);
}

fn records(effort: Effort) {
    let title = "Exports of entries and exits of 4 CPUs, 64 tasks and 2,000 functions, a record";
    let mut table = Table::new(title, Unit::Nanoseconds);
    let mut source = Generated::new();
    table.row("pairing alone", None, move |records| {
        let ended = walk(source.more(records), |_, step| {
            black_box(step);
            Ok::<_, ExportError>(())
        });
        ended.unwrap();
    });
    let mut source = Generated::new();
    let mut perfetto = Perfetto::new(io::sink());
    table.row("Perfetto", GOAL, move |records| {
        let ended = walk(source.more(records), |catalog, step| {
            perfetto.step(catalog, &step)
        });
        ended.unwrap();
    });
    let mut source = Generated::new();
    let mut folded = Folded::new(Weight::SelfTime);
    table.row("folded stacks", None, move |records| {
        let ended = walk(source.more(records), |catalog, step| {
            folded.step(catalog, &step);
            Ok::<_, ExportError>(())
        });
        ended.unwrap();
    });
    table.print(effort);
}
