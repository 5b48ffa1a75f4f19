//! Rows of the tour.

use super::metrics;
use crate::experiments::tour::row::{Pick, Row, TourRows, Unit};

pub const TOUR: TourRows = TourRows {
    heading: "one write, recorded as a function graph",
    rows: &[Row::new(
        ("status polls, 2,500 B", Unit::Count, |of| {
            of(metrics::TRACED_POLLS)
        }),
        Pick::of("trace --on model").of_case("2500-byte-write"),
        ["byte-polled", "fifo-polled", "fifo-paced"],
    )],
};
