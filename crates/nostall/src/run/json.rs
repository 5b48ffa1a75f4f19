//! The figures for programs. DESIGN: one object, stable words.

use anyhow::Result;
use nostall_vm::qemu::Qemu;
use serde::Serialize;

use super::on::On;
use super::spi::CardFile;
use super::uart::{Measured, Way};
use crate::escape::escape_json;
use crate::pci::json::Device;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    host: Host<'a>,
    results: Vec<&'a Figure>,
    /// What the path pci found.
    #[serde(skip_serializing_if = "Option::is_none")]
    devices: Option<&'a [Device]>,
    /// What the path spi found in the root directory of its card.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<&'a [CardFile]>,
}

#[derive(Serialize)]
struct Host<'a> {
    nostall: &'a str,
    os: &'a str,
    arch: &'a str,
    cpus: usize,
    cpu: Option<String>,
    qemu: Option<&'a str>,
    /// The machine that QEMU emulates.
    machine: Option<&'a str>,
    kvm: Option<Kvm>,
}

/// Times on a KVM that interprets guest code tell of it alone.
#[derive(Serialize)]
struct Kvm {
    ns_per_instruction: u64,
    interprets: bool,
    uart: &'static str,
}

/// One figure.
#[derive(Serialize)]
pub struct Figure {
    pub path: &'static str,
    pub strategy: &'static str,
    pub on: &'static str,
    /// The model's port, where several are measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<&'static str>,
    pub metric: String,
    pub value: f64,
    pub unit: &'static str,
    /// What it is the median of.
    pub n: usize,
}

/// The document, with a line's end.
pub fn document(
    on: &On,
    results: Vec<&Figure>,
    devices: Option<&[Device]>,
    files: Option<&[CardFile]>,
) -> Result<String> {
    let qemu = match on {
        On::Qemu { qemu, .. } => Some(qemu),
        _ => None,
    };
    let document = Document {
        schema: 1,
        host: Host {
            nostall: env!("CARGO_PKG_VERSION"),
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            cpu: cpu_name(),
            qemu: qemu.map(Qemu::version),
            machine: qemu.map(|qemu| qemu.machine().name()),
            kvm: kvm(on),
        },
        results,
        devices,
        files,
    };
    let json = serde_json::to_string_pretty(&document)? + "\n";
    Ok(escape_json(&json).into_owned())
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn kvm(on: &On) -> Option<Kvm> {
    let On::Kvm(on) = on else { return None };
    Some(Kvm {
        ns_per_instruction: on.speed.per_instruction().0,
        interprets: on.speed.is_interpreted(),
        uart: on.kvm.options().uart.name(),
    })
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
const fn kvm(_: &On) -> Option<Kvm> {
    None
}

/// The figures of the serial path.
pub fn uart(on: &On, measured: &Measured) -> Vec<Figure> {
    let ways = measured.ways.iter().flat_map(|way| {
        metrics(measured, way)
            .into_iter()
            .map(|(metric, value, unit)| Figure {
                path: "uart",
                strategy: way.job.driver.name(),
                on: on.name(),
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
            on: on.name(),
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

fn cpu_name() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
