//! Rows of the tour.

use super::metrics;
use crate::experiments::tour::row::{Limit, Pick, Row, TourRows, Unit, Value};

pub const TOUR: TourRows = TourRows {
    heading: "configuration space through ports; Linux's patch: through memory (ECAM)",
    rows: &[
        exits("VM exits per read", "read").limit(Limit::Measured(
            Pick::of(ON_KVM).of_case("read").by("ram"),
            EXITS,
        )),
        exits("VM exits to set up", "init"),
        Row::new(
            ("a read, emulated", Unit::Nanoseconds, TIME),
            IN_QEMU,
            ["ports", "ecam", "auto"],
        )
        .limit(Limit::Measured(IN_QEMU.by("ram"), TIME)),
    ],
};

const ON_KVM: &str = "pci --on kvm";
const IN_QEMU: Pick = Pick::of("pci --on qemu").of_case("read");

const EXITS: Value = |of| of(metrics::EXITS);
const TIME: Value = |of| of(metrics::NS);

const fn exits(name: &'static str, operation: &'static str) -> Row {
    let run = Pick::of(ON_KVM).of_case(operation);
    let strategies = ["ports", "ecam", "ecam-shadow"];
    Row::new((name, Unit::Count, EXITS), run, strategies)
}
