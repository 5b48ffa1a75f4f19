//! Rows of the tour.

use nostall_work::pstore::{BLOCKS, ENTRIES_PER_BLOCK};

use super::metrics;
use crate::experiments::tour::row::{Limit, Pick, Row, TourRows, Unit, Value};

pub const TOUR: TourRows = TourRows {
    heading: "one locked zone for all traces; Linux: a counter; nostall: a clock",
    rows: &[
        record("a trace record", "pstore --on model"),
        record("a record, emulated", "pstore --on qemu"),
    ],
};

/// Time of the whole run for each record. The limit is the same run without records.
const fn record(name: &'static str, run: &'static str) -> Row {
    let run = Pick::of(run);
    let time: Value = |of| of(metrics::NS_PER_RECORD);
    let strategies = ["one-zone-locked", "per-cpu-counter", "per-cpu-clock"];
    let untraced = Limit::Measured(run.by("untraced"), |of| {
        Some(of(metrics::BYTES)? * 1e3 / of(metrics::MB_PER_S)? / RECORDS)
    });
    Row::new((name, Unit::Nanoseconds, time), run, strategies).limit(untraced)
}

/// Records of a run that is traced.
const RECORDS: f64 = BLOCKS as f64 * ENTRIES_PER_BLOCK as f64;
