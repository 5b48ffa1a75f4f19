//! Time per record.

use std::hint::black_box;
use std::io;

use nostall_bench::{Effort, Limit, Table, Unit};
use nostall_tracefile::graph::walk;
use nostall_tracefile::model::{ReadError, Source, TimeUnit};
use nostall_tracefile::report::{self, Look, Rate, Selection};

use crate::generated::Generated;

/// Goal: ten million records per second.
const GOAL: Limit = Limit::AtMost(100.0);

pub fn tables(effort: Effort) {
    let title = "Reports on entries and exits of 4 CPUs, 64 tasks and 2,000 functions, a record";
    let mut table = Table::new(title, Unit::Nanoseconds);
    let mut source = Generated::new();
    table.row("making the records up", None, move |records| {
        let source = source.more(records);
        while let Ok(Some(event)) = source.next_event() {
            black_box(event);
        }
    });
    let mut source = Generated::new();
    table.row("and pairing them", None, move |records| {
        let ended = walk(source.more(records), |_, step| {
            black_box(step);
            Ok::<_, ReadError>(())
        });
        ended.unwrap();
    });
    let mut source = Generated::new();
    let mut all = report::Table::default();
    table.row("table", GOAL, move |records| {
        add(&mut all, source.more(records))
    });
    let mut source = Generated::new();
    let mut rate = Rate::new(Selection::default(), 1_000_000);
    table.row("rate", GOAL, move |records| {
        let ended = walk(source.more(records), |catalog, step| {
            black_box(rate.push(&step, catalog));
            Ok::<_, ReadError>(())
        });
        ended.unwrap();
    });
    let mut source = Generated::new();
    table.row("graph", None, move |records| {
        let look = Look {
            width: None,
            has_colour: false,
            escape: |text| text.into(),
            unit: TimeUnit::Nanoseconds,
        };
        let mut out = io::sink();
        let mut graph = report::Graph::new(Selection::default(), None, false, look, &mut out);
        let ended = walk(source.more(records), |catalog, step| {
            graph.push(&step, catalog).map_err(ReadError::new)
        });
        ended.unwrap();
    });
    table.print(effort);
}

/// Adds all records of `source` to the table.
pub fn add(table: &mut report::Table, source: &mut dyn Source) {
    let ended = walk(source, |catalog, step| {
        table.push(&step, catalog);
        Ok::<_, ReadError>(())
    });
    ended.unwrap();
}
