//! Rows of the tour.

use super::metrics;
use crate::experiments::tour::row::{Limit, Pick, Row, TourRows, Unit, Value};

pub const TOUR: TourRows = TourRows {
    heading: "configuration space through ports; Linux's patch: through memory (ECAM)",
    rows: &[
        Row {
            limit: Limit::Measured(Pick::new(ON_KVM, "ram").of_case("read"), OF_EXITS),
            ..exits("VM exits per read", "read")
        },
        exits("VM exits to set up", "init"),
        Row {
            name: "a read, emulated",
            unit: Unit::Nanoseconds,
            value: TIME,
            before: Pick::new(IN_QEMU, "ports").of_case("read"),
            fix: Some(Pick::new(IN_QEMU, "ecam").of_case("read")),
            nostall: Pick::new(IN_QEMU, "auto").of_case("read"),
            limit: Limit::Measured(Pick::new(IN_QEMU, "ram").of_case("read"), TIME),
        },
    ],
};

const ON_KVM: &str = "pci --on kvm";
const IN_QEMU: &str = "pci --on qemu";

const OF_EXITS: Value = |of| of(&metrics::EXITS);
const TIME: Value = |of| of(&metrics::NS);

const fn exits(name: &'static str, operation: &'static str) -> Row {
    Row {
        name,
        unit: Unit::Count,
        value: OF_EXITS,
        before: Pick::new(ON_KVM, "ports").of_case(operation),
        fix: Some(Pick::new(ON_KVM, "ecam").of_case(operation)),
        nostall: Pick::new(ON_KVM, "ecam-shadow").of_case(operation),
        limit: Limit::Unknown,
    }
}
