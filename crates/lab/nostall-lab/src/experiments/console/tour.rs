//! Rows of the tour.

use nostall_devices::uart::Profile;

use super::metrics;
use crate::experiments::tour::row::{Limit, Pick, Row, TourRows, Unit, Value};

pub const TOUR: TourRows = TourRows {
    heading: "a flood of messages, printed by the CPU that logs; Linux: by FIFO",
    rows: &[
        row("held: flood, fast", FAST, HELD).limit(Limit::Derived(16.0 * ACCESS + ACCESS)),
        // One of the accesses is a slow one.
        row("held: flood, slow", SLOW, HELD).limit(Limit::Derived(
            16.0 * ACCESS + SLOW.slow_access.takes.0 as f64,
        )),
        // The bytes that are in the FIFO at the panic are sent first, so the limit varies.
        row("panic's first byte", FAST, FIRST),
        // The price: the backlog waits behind the panic's text, and the flush has a limit.
        Row {
            unit: Unit::Count,
            ..row("unsent at a panic", FAST, UNSENT)
        },
    ],
};

const RUN: &str = "console --on model";
const FAST: Profile = Profile::PC_16550A;
const SLOW: Profile = Profile::HP_DL380_GEN9;

/// Nanoseconds of an access to a register, the same on both ports.
const ACCESS: f64 = FAST.access.0 as f64;

const HELD: Value = |of| of(metrics::LONGEST_HOLD_NS);
const FIRST: Value = |of| of(metrics::PANIC_FIRST_BYTE_NS);
const UNSENT: Value = |of| of(metrics::PANIC_RECORDS_UNSENT);

const fn row(name: &'static str, port: Profile, value: Value) -> Row {
    let run = Pick::of(RUN).on_port(port.name);
    let strategies = ["print-inline", "fifo-inline", "bounded"];
    Row::new((name, Unit::Nanoseconds, value), run, strategies)
}
