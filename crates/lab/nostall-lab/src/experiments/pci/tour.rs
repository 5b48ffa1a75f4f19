//! Rows of the tour.

use crate::experiments::tour::row::{Limit, Pick, Row, TourRows, Unit, Value};

pub const TOUR: TourRows = TourRows {
    heading: "configuration space through ports; Linux's patch: through memory (ECAM)",
    rows: &[
        Row {
            limit: Limit::Measured(Pick::new(ON_KVM, "ram"), EXITS),
            ..exits("VM exits per read", EXITS)
        },
        exits("VM exits to set up", |of| of("exits_per_init")),
        Row {
            name: "a read, emulated",
            unit: Unit::Nanoseconds,
            value: TIME,
            before: Pick::new(IN_QEMU, "ports"),
            fix: Some(Pick::new(IN_QEMU, "ecam")),
            nostall: Pick::new(IN_QEMU, "auto"),
            limit: Limit::Measured(Pick::new(IN_QEMU, "ram"), TIME),
        },
    ],
};

const ON_KVM: &str = "pci --on kvm";
const IN_QEMU: &str = "pci --on qemu";

const EXITS: Value = |of| of("exits_per_read");
const TIME: Value = |of| of("ns_per_read");

const fn exits(name: &'static str, value: Value) -> Row {
    Row {
        name,
        unit: Unit::Count,
        value,
        before: Pick::new(ON_KVM, "ports"),
        fix: Some(Pick::new(ON_KVM, "ecam")),
        nostall: Pick::new(ON_KVM, "ecam-shadow"),
        limit: Limit::Unknown,
    }
}
