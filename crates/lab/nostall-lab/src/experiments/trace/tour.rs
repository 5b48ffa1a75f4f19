//! Rows of the tour.

use crate::experiments::tour::row::{Limit, Pick, Row, TourRows, Unit};

pub const TOUR: TourRows = TourRows {
    heading: "one write, recorded as a function graph",
    rows: &[Row {
        name: "status polls, 2,500 B",
        unit: Unit::Count,
        value: |of| of("traced_polls 2500-byte-write"),
        before: Pick::new(RUN, "byte-polled"),
        fix: Some(Pick::new(RUN, "fifo-polled")),
        nostall: Pick::new(RUN, "fifo-paced"),
        limit: Limit::Unknown,
    }],
};

const RUN: &str = "trace --on model";
