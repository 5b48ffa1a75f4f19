//! Rows of the tour.

use super::metrics;
use crate::experiments::tour::row::{Limit, Pick, Row, TourRows, Unit};

pub const TOUR: TourRows = TourRows {
    heading: "one write, recorded as a function graph",
    rows: &[Row {
        name: "status polls, 2,500 B",
        unit: Unit::Count,
        value: |of| of(&metrics::TRACED_POLLS),
        before: pick("byte-polled"),
        fix: Some(pick("fifo-polled")),
        nostall: pick("fifo-paced"),
        limit: Limit::Unknown,
    }],
};

const fn pick(strategy: &'static str) -> Pick {
    Pick::new("trace --on model", strategy).of_case("2500-byte-write")
}
