//! The experiment's metrics, and its part of the page.

use nostall_devices::uart::Profile;
use nostall_figures::metric::{LimitScope, Metric, Shown};

use crate::report::part::{EVERYWHERE, PagePart};

nostall_figures::metrics! {
    BYTES = Metric::new("bytes", "B");
    STALLED_NS_PER_BYTE = Metric::new("stalled_ns_per_byte", "ns/B")
        .shown(&[Shown::new("Time for which a byte holds the CPU", &["model"])])
        .limit("each byte is written once", |scope| {
            scope.without_case(profile(scope)?.access.0 as f64)
        });
    EXITS_PER_BYTE = Metric::new("exits_per_byte", "1/B")
        .shown(&[Shown::new("VM exits for each byte", EVERYWHERE)])
        .limit("no exit", |scope| scope.without_case(0.0));
    BUS_ACCESSES_PER_BYTE = Metric::new("bus_accesses_per_byte", "1/B")
        .shown(&[
            Shown::new("Accesses to the port for each byte", &["qemu"]),
            Shown::of(
                "2500-byte-write",
                "Accesses to the port for each byte, one write of 2,500 bytes",
                &["qemu"],
            ),
            Shown::of(
                "16-byte-write",
                "Accesses to the port for each byte, one write of 16 bytes",
                &["qemu"],
            ),
        ])
        .limit("each byte is written once", |_| Some(1.0));
    REGISTER_INSTRUCTIONS_PER_BYTE = Metric::new("register_instructions_per_byte", "1/B")
        .shown(&[Shown::new("Instructions to the port for each byte", &[])])
        .limit("one instruction for a FIFO of 16 bytes", |scope| {
            scope.without_case(1.0 / 16.0)
        });
    NS_PER_BYTE = Metric::new("ns_per_byte", "ns/B").shown(&[
        Shown::new("Time for each byte", &[]),
        Shown::of(
            "2500-byte-write",
            "Time for each byte, one write of 2,500 bytes",
            &[],
        ),
    ]);
    TIME_RATIO_TO_SLOWEST = Metric::new("time_ratio_to_slowest", "1");
    LIGHT_EXITS_PER_BYTE = Metric::new("light_exits_per_byte", "1/B");
    COLLECTED_WRITES_PER_BYTE = Metric::new("collected_writes_per_byte", "1/B");
    MAP_CHANGES = Metric::new("map_changes", "1");
    MAP_CHANGE_NS = Metric::new("map_change_ns", "ns");
    NS = Metric::new("ns", "ns");
    USER_NS = Metric::new("user_ns", "ns");
    SYSTEM_NS = Metric::new("system_ns", "ns");
}

pub const PAGE: PagePart = PagePart {
    stall: "A serial port sends a byte in 87 us. A CPU that polls the line status before every \
            byte does nothing else meanwhile, and in a virtual machine each poll is an exit. \
            nostall fills the FIFO in one burst and yields the CPU until it should be empty.",
    lanes: "A CPU fills a FIFO",
    ours: &["fifo-paced", "fifo-burst"],
    metrics: METRICS,
};

/// Returns the port of some figures. Figures of the model without a name have the usual port.
pub fn profile(scope: &LimitScope<'_>) -> Option<Profile> {
    let usual = (scope.on == "model").then_some(Profile::VM.name);
    let name = scope.port.or(usual)?;
    Profile::ALL
        .into_iter()
        .find(|profile| profile.name == name)
}
