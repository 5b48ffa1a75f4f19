//! Rows of the tour.

use nostall_devices::uart::Profile;

use super::metrics;
use crate::experiments::tour::row::{Limit, Pick, Row, TourRows, Unit, Value};

pub const TOUR: TourRows = TourRows {
    heading: "the line status was polled before every byte; Linux: FIFO by FIFO",
    rows: &[
        held("held: 1 B, slow port", SLOW_1, 1),
        held("held: 2,500 B, slow", SLOW_2500, 2_500),
        held("held: 11,500 B, slow", SLOW_11500, 11_500),
        held("held: 1 B, fast port", FAST_1, 1),
        held("held: 2,500 B, fast", FAST_2500, 2_500),
        Row::new(
            ("held at full rate", Unit::Share, |of| {
                Some(of(metrics::STALLED_NS_PER_BYTE)? / of(metrics::NS_PER_BYTE)?)
            }),
            Pick::of(FAST_11500),
            PACED,
        )
        .limit(Limit::Derived(ACCESS * BYTES_PER_NS)),
        Row::new(
            ("instructions/byte", Unit::Count, INSTRUCTIONS),
            Pick::of(IN_QEMU),
            BURST,
        )
        .limit(Limit::Derived(1.0 / 16.0)),
        // Linux has no fix for a PL011: it polls the flags before every byte.
        Row {
            fix: None,
            ..Row::new(
                ("the same, Arm PL011", Unit::Count, INSTRUCTIONS),
                Pick::of(ON_ARM),
                BURST,
            )
        }
        .limit(Limit::Derived(1.0)),
        Row {
            nostall: Pick::of(MAPPED).by("fifo-burst"),
            ..Row::new(
                ("VM exits per byte", Unit::Count, |of| {
                    of(metrics::EXITS_PER_BYTE)
                }),
                Pick::of(ON_KVM),
                BURST,
            )
        }
        .limit(Limit::Derived(0.0)),
    ],
};

const PACED: [&str; 3] = ["byte-polled", "fifo-polled", "fifo-paced"];
const BURST: [&str; 3] = ["byte-polled", "fifo-polled", "fifo-burst"];

// The article's test program, on its two machines.
const SLOW_1: &str = "uart --on model --profile hp-dl380-gen9 --bytes 1";
const SLOW_2500: &str = "uart --on model --profile hp-dl380-gen9 --bytes 2500";
const SLOW_11500: &str = "uart --on model --profile hp-dl380-gen9 --bytes 11500";
const FAST_1: &str = "uart --on model --profile fast-16550a --bytes 1";
const FAST_2500: &str = "uart --on model --profile fast-16550a --bytes 2500";
const FAST_11500: &str = "uart --on model --profile fast-16550a --bytes 11500";

// KVM may interpret the guest: no more bytes than the counts need.
const IN_QEMU: &str = "uart --bytes 1000 --on qemu";
const ON_ARM: &str = "uart --machine arm-virt-pl011 --bytes 1000 --on qemu";
const ON_KVM: &str = "uart --bytes 1000 --on kvm";
const MAPPED: &str = "uart --bytes 1000 --uart-mode mmio-readonly --on kvm";

/// Nanoseconds of an access to a register, the same on both ports.
const ACCESS: f64 = Profile::FAST_16550A.access.0 as f64;

/// Rate of the line: 115,200 baud, 10 bits a byte.
const BYTES_PER_NS: f64 = 115_200.0 / 10.0 / 1e9;

const INSTRUCTIONS: Value = |of| of(metrics::REGISTER_INSTRUCTIONS_PER_BYTE);
const HELD: Value = |of| Some(of(metrics::STALLED_NS_PER_BYTE)? * of(metrics::BYTES)?);

/// Time for which one write holds the CPU. Every byte has to be written once.
const fn held(name: &'static str, run: &'static str, bytes: u32) -> Row {
    Row::new((name, Unit::Nanoseconds, HELD), Pick::of(run), PACED)
        .limit(Limit::Derived(ACCESS * bytes as f64))
}
