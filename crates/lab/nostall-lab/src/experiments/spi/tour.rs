//! Rows of the tour.

use super::metrics;
use crate::experiments::tour::row::{Limit, Pick, Row, TourRows, Unit, Value};

pub const TOUR: TourRows = TourRows {
    heading: "the worker was woken after messages; Linux: only once the bus is idle",
    rows: &[
        row("wake-ups per message", 0.0, |of| {
            Some(of(metrics::WAKEUPS)? / of(metrics::MESSAGES)?)
        }),
        row("teardowns per message", 1.0 / MESSAGES, |of| {
            Some(of(metrics::TEARDOWNS)? / of(metrics::MESSAGES)?)
        }),
    ],
};

/// On threads of the host. Linux's fix is measured on Linux, with `nostall spi bench`.
const RUN: &str = "spi --on model --frames 1000";

/// Messages of 1,000 frames.
const MESSAGES: f64 = 3_204.0;

const fn row(name: &'static str, limit: f64, value: Value) -> Row {
    let strategies = ["pump", "", "caller"];
    let row = Row::new((name, Unit::Count, value), Pick::of(RUN), strategies);
    Row { fix: None, ..row }.limit(Limit::Derived(limit))
}
