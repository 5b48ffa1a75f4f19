//! Rows of the tour.

use nostall_devices::uart::Profile;

use super::metrics;
use crate::experiments::tour::row::{Limit, Pick, Row, TourRows, Unit, Value};

pub const TOUR: TourRows = TourRows {
    heading: "a flood of messages, printed by the CPU that logs; Linux: by FIFO",
    rows: &[
        Row {
            limit: Limit::Derived(16.0 * ACCESS + ACCESS),
            ..row("held: flood, fast", FAST, HELD)
        },
        Row {
            // One of the accesses is a slow one.
            limit: Limit::Derived(16.0 * ACCESS + SLOW.slow_access.takes.0 as f64),
            ..row("held: flood, slow", SLOW, HELD)
        },
        // The bytes that are in the FIFO at the panic are sent first, so the limit varies.
        row("panic's first byte", FAST, |of| {
            of(&metrics::PANIC_FIRST_BYTE_NS)
        }),
        // The price: the backlog waits behind the panic's text, and the flush has a limit.
        Row {
            unit: Unit::Count,
            ..row("unsent at a panic", FAST, |of| {
                of(&metrics::PANIC_RECORDS_UNSENT)
            })
        },
    ],
};

const RUN: &str = "console --on model";
const FAST: Profile = Profile::PC_16550A;
const SLOW: Profile = Profile::HP_DL380_GEN9;

/// Nanoseconds of an access to a register, the same on both ports.
const ACCESS: f64 = FAST.access.0 as f64;

const HELD: Value = |of| of(&metrics::LONGEST_HOLD_NS);

const fn row(name: &'static str, port: Profile, value: Value) -> Row {
    Row {
        name,
        unit: Unit::Nanoseconds,
        value,
        before: Pick::new(RUN, "print-inline").on_port(port.name),
        fix: Some(Pick::new(RUN, "fifo-inline").on_port(port.name)),
        nostall: Pick::new(RUN, "bounded").on_port(port.name),
        limit: Limit::Unknown,
    }
}
