//! The experiment's part of the page.

use nostall_devices::uart::Profile;

use crate::report::group::{Group, Metric};
use crate::report::part::{Bound, EVERYWHERE, MetricPart, PagePart};

pub const PAGE: PagePart = PagePart {
    stall: "A serial port sends a byte in 87 us. A CPU that polls the line status before every \
            byte does nothing else meanwhile, and in a virtual machine each poll is an exit. \
            nostall fills the FIFO in one burst and yields the CPU until it should be empty.",
    lanes: "A CPU fills a FIFO",
    ours: &["fifo-paced", "fifo-burst"],
    metrics: &[
        MetricPart::new(
            "stalled_ns_per_byte",
            "Time for which a byte holds the CPU",
            &["model"],
        ),
        MetricPart::new("exits_per_byte", "VM exits for each byte", EVERYWHERE),
        MetricPart::new(
            "bus_accesses_per_byte",
            "Accesses to the port for each byte",
            &["qemu"],
        ),
        MetricPart::new(
            "register_instructions_per_byte",
            "Instructions to the port for each byte",
            &[],
        ),
        MetricPart::new("ns_per_byte", "Time for each byte", &[]),
        MetricPart::new(
            "bus_accesses_per_byte 2500-byte-write",
            "Accesses to the port for each byte, one write of 2,500 bytes",
            &["qemu"],
        ),
        MetricPart::new(
            "bus_accesses_per_byte 16-byte-write",
            "Accesses to the port for each byte, one write of 16 bytes",
            &["qemu"],
        ),
        MetricPart::new(
            "ns_per_byte 2500-byte-write",
            "Time for each byte, one write of 2,500 bytes",
            &[],
        ),
    ],
    bound,
};

fn bound(group: &Group<'_>, _: usize, (metric, case): Metric<'_>) -> Option<Bound> {
    Some(match metric {
        metric if case.is_some() && metric != "bus_accesses_per_byte" => return None,
        "exits_per_byte" => (0.0, "no exit", "1/B"),
        "bus_accesses_per_byte" => (1.0, "each byte is written once", "1/B"),
        "register_instructions_per_byte" => {
            (1.0 / 16.0, "one instruction for a FIFO of 16 bytes", "1/B")
        }
        "stalled_ns_per_byte" => {
            let access = profile(group)?.access.0 as f64;
            (access, "each byte is written once", "ns/B")
        }
        _ => return None,
    })
}

/// Returns the port of a group. The figures of `uart` have no name of it, but their command may.
pub fn profile(group: &Group<'_>) -> Option<Profile> {
    let in_command = || {
        let mut words = group.command?.split([' ', '=']);
        words.find(|word| *word == "--profile")?;
        words.next()
    };
    let usual = (group.on == "model").then_some(Profile::VM.name);
    let name = group.profile.or_else(in_command).or(usual)?;
    Profile::ALL
        .into_iter()
        .find(|profile| profile.name == name)
}
