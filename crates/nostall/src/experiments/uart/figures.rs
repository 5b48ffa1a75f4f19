//! The figures, for programs.

use super::measured::{Measured, Way};
use crate::experiments::figure::Figure;

/// The figures of the serial path.
pub fn figures(on: &'static str, measured: &Measured) -> Vec<Figure> {
    let ways = measured.ways.iter().flat_map(|way| {
        metrics(measured, way)
            .into_iter()
            .map(|(metric, value, unit)| Figure {
                path: "uart",
                strategy: way.job.driver.name(),
                on,
                profile: None,
                metric: format!("{metric}{}", way.suffix()),
                value,
                unit,
                n: way.rounds(),
            })
    });
    let beside = measured.beside.iter().flat_map(|write| {
        [
            (
                "bus_accesses_per_byte",
                write.per_byte(|s| s.bus_accesses),
                "1/B",
            ),
            ("ns_per_byte", write.per_byte(|s| s.ns), "ns/B"),
        ]
        .map(|(metric, value, unit)| Figure {
            path: "uart",
            strategy: write.driver.name(),
            on,
            profile: None,
            metric: format!("{metric}_of_a_{}_byte_write", write.bytes),
            value,
            unit,
            n: write.rounds(),
        })
    });
    ways.chain(beside).collect()
}

/// What the machine cannot count (exits) is left out.
fn metrics(measured: &Measured, way: &Way) -> Vec<(&'static str, f64, &'static str)> {
    let per_byte = |value: fn(&nostall_work::uart::Sent) -> u64| measured.per_byte(way, value);
    let exits = [
        ("exits_per_byte", measured.exits_per_byte(way)),
        ("light_exits_per_byte", measured.light_exits_per_byte(way)),
        (
            "collected_writes_per_byte",
            measured.collected_per_byte(way),
        ),
    ];
    let exits = exits.map(|(metric, value)| Some((metric, value?, "1/B")));
    let always = [
        ("bytes", way.bytes() as f64, "B"),
        (
            "register_instructions_per_byte",
            per_byte(|s| s.register_instructions),
            "1/B",
        ),
        ("bus_accesses_per_byte", per_byte(|s| s.bus_accesses), "1/B"),
        ("ns_per_byte", per_byte(|s| s.ns), "ns/B"),
        ("stalled_ns_per_byte", per_byte(|s| s.stalled_ns), "ns/B"),
        ("time_ratio_to_slowest", measured.ratio(way), "1"),
    ];
    let maps = measured.maps(way).map(|maps| {
        let took = maps.took.0 as f64;
        [
            ("map_changes", maps.count as f64, "1"),
            ("map_change_ns", took, "ns"),
        ]
    });
    always
        .into_iter()
        .chain(exits.into_iter().flatten())
        .chain(maps.into_iter().flatten())
        .collect()
}
