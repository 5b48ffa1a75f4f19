//! Pictures of a page: bars of the figures that explain a stall, and recorded time lines.

use std::collections::HashMap;

use nostall_devices::uart::Profile;
use serde::Serialize;

use super::drawing::Drawing;
use super::group::{Group, Metric};
use super::source::Source;
use super::text::value;
use nostall_figures::figure::{Figure, metric_and_case};

/// Figure that explains a stall.
struct Key {
    path: &'static str,
    /// Its name, with its case if it has one.
    metric: &'static str,
    title: &'static str,
    /// Machines whose figures are drawn. All are in the table.
    drawn: &'static [&'static str],
}

const fn key(
    path: &'static str,
    metric: &'static str,
    title: &'static str,
    drawn: &'static [&'static str],
) -> Key {
    Key {
        path,
        metric,
        title,
        drawn,
    }
}

const EVERYWHERE: &[&str] = &["kvm", "qemu", "model", "host-threads"];

const KEYS: &[Key] = &[
    key(
        "uart",
        "stalled_ns_per_byte",
        "Time for which a byte holds the CPU",
        &["model"],
    ),
    key(
        "uart",
        "exits_per_byte",
        "VM exits for each byte",
        EVERYWHERE,
    ),
    key(
        "uart",
        "bus_accesses_per_byte",
        "Accesses to the port for each byte",
        &["qemu"],
    ),
    key(
        "uart",
        "register_instructions_per_byte",
        "Instructions to the port for each byte",
        &[],
    ),
    key("uart", "ns_per_byte", "Time for each byte", &[]),
    key(
        "uart",
        "bus_accesses_per_byte 2500-byte-write",
        "Accesses to the port for each byte, one write of 2,500 bytes",
        &["qemu"],
    ),
    key(
        "uart",
        "bus_accesses_per_byte 16-byte-write",
        "Accesses to the port for each byte, one write of 16 bytes",
        &["qemu"],
    ),
    key(
        "uart",
        "ns_per_byte 2500-byte-write",
        "Time for each byte, one write of 2,500 bytes",
        &[],
    ),
    key(
        "pstore",
        "ns_per_record",
        "Time for each trace record",
        EVERYWHERE,
    ),
    key("pstore", "ns_per_block", "Time for each block copied", &[]),
    key(
        "pci",
        "exits_per_read",
        "VM exits for each configuration read",
        &["kvm"],
    ),
    key(
        "pci",
        "exits_per_init",
        "VM exits to initialise all devices",
        &["kvm"],
    ),
    key("pci", "exits_per_scan", "VM exits to scan the bus", &[]),
    key(
        "pci",
        "bus_accesses_per_read",
        "Accesses for each configuration read",
        &["qemu"],
    ),
    key(
        "pci",
        "ns_per_read",
        "Time for each configuration read",
        &["qemu"],
    ),
    key(
        "spi",
        "wakeups_per_message",
        "Wake-ups of the worker for each message",
        EVERYWHERE,
    ),
    key(
        "spi",
        "teardowns_per_message",
        "Teardowns of the hardware for each message",
        &["qemu"],
    ),
    key("spi", "wakeups", "Wake-ups of the worker", &[]),
    key("spi", "teardowns", "Teardowns of the hardware", &[]),
    key(
        "spi",
        "context_switches_per_second",
        "Context switches a second",
        &[],
    ),
    key(
        "console",
        "longest_hold_ns",
        "Longest time for which a CPU is held",
        EVERYWHERE,
    ),
    key(
        "console",
        "panic_first_byte_ns",
        "From a panic to its first byte on the line",
        &[],
    ),
    key("console", "records_lost", "Records lost", &[]),
    key(
        "console",
        "ns_per_printk",
        "Time that a log call takes from its caller",
        &["qemu"],
    ),
    key(
        "console",
        "longest_printk_ns",
        "Longest time that a log call holds a CPU",
        &[],
    ),
    key(
        "trace",
        "traced_polls 2500-byte-write",
        "Polls of the line status, 2,500 bytes",
        EVERYWHERE,
    ),
    key(
        "trace",
        "stalled_ns 2500-byte-write",
        "Time for which the CPU is held, 2,500 bytes",
        &[],
    ),
];

/// Returns the plain name of a metric, if it explains a stall.
pub fn title(path: &str, metric: Metric<'_>) -> Option<&'static str> {
    let mut keys = KEYS.iter();
    let key = keys.find(|key| (key.path, metric_and_case(key.metric)) == (path, metric))?;
    Some(key.title)
}

/// Value that nothing can go below.
#[derive(Serialize)]
pub struct Limit {
    pub value: f64,
    pub text: String,
    pub why: &'static str,
}

/// Returns the limit of a metric in one document, if it is known.
pub fn limit(group: &Group<'_>, source: usize, (metric, case): Metric<'_>) -> Option<Limit> {
    let of = |strategy, metric| group.value(source, strategy, metric);
    let (limit, why, unit) = match (group.path, metric) {
        ("uart", metric) if case.is_some() && metric != "bus_accesses_per_byte" => return None,
        ("uart", "exits_per_byte") => (0.0, "no exit", "1/B"),
        ("uart", "bus_accesses_per_byte") => (1.0, "each byte is written once", "1/B"),
        ("uart", "register_instructions_per_byte") => {
            (1.0 / 16.0, "one instruction for a FIFO of 16 bytes", "1/B")
        }
        ("uart", "stalled_ns_per_byte") => {
            let access = profile(group)?.access.0 as f64;
            (access, "each byte is written once", "ns/B")
        }
        ("pstore", "ns_per_record") => {
            let mut records = group.strategies.iter();
            let records =
                records.find_map(|one| of(one, "records").filter(|records| *records > 0.0));
            let untraced = of("untraced", "bytes")? * 1e3 / of("untraced", "mb_per_s")?;
            (untraced / records?, "the same work without records", "ns")
        }
        ("pci", "ns_per_read") => (of("ram", "ns_per_read")?, "a read of RAM", "ns"),
        ("pci", metric) if metric.starts_with("exits_per_") => (0.0, "no exit", "1"),
        ("pci", "bus_accesses_per_read") => (1.0, "one access reads 32 bits", "1"),
        ("spi", "wakeups_per_message" | "teardowns_per_message") => {
            let messages = of("caller", "messages").filter(|messages| *messages > 0.0)?;
            (1.0 / messages, "one in the whole run", "1")
        }
        ("console", "longest_hold_ns") if group.on == "model" => {
            let profile = profile(group)?;
            let (access, slow) = (profile.access.0 as f64, profile.slow_access);
            let slowest = if slow.every > 0 {
                slow.takes.0 as f64
            } else {
                access
            };
            (16.0 * access + slowest, "one FIFO is filled", "ns")
        }
        _ => return None,
    };
    let limit = Some(limit).filter(|limit| limit.is_finite())?;
    Some(Limit {
        value: limit,
        text: value(limit, unit),
        why,
    })
}

/// Returns the port of a group. The figures of `uart` have no name of it, but their command may.
fn profile(group: &Group<'_>) -> Option<Profile> {
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

/// Picture of a page.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Picture<'a> {
    Bars(Bars<'a>),
    Lanes(Lanes<'a>),
}

/// Values of one metric as bars.
#[derive(Serialize)]
pub struct Bars<'a> {
    pub title: String,
    pub on: &'a str,
    pub command: Option<&'a str>,
    pub limit: Option<Limit>,
    bars: Vec<Bar<'a>>,
}

#[derive(Serialize)]
struct Bar<'a> {
    strategy: &'a str,
    source: &'a str,
    is_ours: bool,
    value: f64,
    text: String,
    range: Option<String>,
}

/// Time lines of strategies on one port.
#[derive(Serialize)]
pub struct Lanes<'a> {
    pub title: String,
    pub on: &'a str,
    pub lines: Vec<&'a Drawing>,
}

/// Drawings of a path, each with the number of its document.
pub type Drawn<'a> = [(usize, &'a Drawing)];

/// Returns the pictures of a path: first time lines, then bars.
pub fn pictures<'a>(
    path: &str,
    sources: &'a [Source],
    groups: &[&Group<'a>],
    drawings: &Drawn<'a>,
) -> Vec<Picture<'a>> {
    let mut all = lanes(path, sources, drawings);
    for key in KEYS.iter().filter(|key| key.path == path) {
        let drawn = |group: &&&Group<'_>| key.drawn.contains(&group.on);
        let mut places = HashMap::new();
        let mut best: Vec<(f64, Bars<'a>)> = Vec::new();
        for group in groups.iter().filter(drawn) {
            let Some(bars) = bars(key, sources, group) else {
                continue;
            };
            // Runs that differ in their length are one comparison; the longest is drawn.
            let alike = format!("{} {:?} {}", group.on, group.profile, kind_of_run(group));
            let lengths = group.strategies.iter();
            let lengths = lengths.filter_map(|one| group.value(group.sources[0], one, "bytes"));
            let length = lengths.fold(0.0, f64::max);
            let place = *places.entry(alike).or_insert(best.len());
            match best.get_mut(place) {
                Some(known) if known.0 < length => *known = (length, bars),
                Some(_) => {}
                None => best.push((length, bars)),
            }
        }
        all.extend(best.into_iter().map(|(_, bars)| Picture::Bars(bars)));
    }
    all
}

/// Returns the command without the options that change the length of a run, name its machine or
/// add systems.
fn kind_of_run(group: &Group<'_>) -> String {
    let mut words = group.command.unwrap_or_default().split([' ', '=']);
    let mut kind = String::new();
    while let Some(word) = words.next() {
        if ["--on", "--bytes", "--frames", "--peers"].contains(&word) {
            words.next();
        } else {
            kind += word;
            kind.push(' ');
        }
    }
    kind
}

fn bars<'a>(key: &Key, sources: &'a [Source], group: &Group<'a>) -> Option<Bars<'a>> {
    let wanted = metric_and_case(key.metric);
    let metric = *group.metrics.iter().find(|metric| **metric == wanted)?;
    let mut bars = Vec::new();
    for &source in &group.sources {
        for &strategy in &group.strategies {
            let Some(figure) = group.get(source, strategy, metric) else {
                continue;
            };
            if !figure.value.is_finite() {
                continue;
            }
            bars.push(Bar {
                strategy,
                source: &sources[source].name,
                is_ours: is_ours(strategy),
                value: figure.value,
                text: value(figure.value, &figure.unit),
                range: range(figure),
            });
        }
    }
    let port = group
        .profile
        .map_or(String::new(), |port| format!(", {port}"));
    (bars.len() > 1).then(|| Bars {
        title: format!("{}{port}", key.title),
        on: group.on,
        command: group.command,
        limit: limit(group, group.sources[0], metric),
        bars,
    })
}

/// Returns whether a strategy is nostall's own. The others are those of Linux and of other crates,
/// and the ways that cause a stall.
fn is_ours(strategy: &str) -> bool {
    const STARTS: [&str; 7] = [
        "fifo-paced",
        "fifo-burst",
        "bounded",
        "per-cpu-",
        "caller",
        "ecam-shadow",
        "auto",
    ];
    // The row beside Linux.
    strategy == "nostall" || STARTS.iter().any(|start| strategy.starts_with(start))
}

/// Returns the spread of a figure's measurements, if there is one.
pub fn range(figure: &Figure) -> Option<String> {
    let (low, high) = figure.low.zip(figure.high)?;
    let text = |number| value(number, &figure.unit);
    (low != high).then(|| format!("{} to {}", text(low), text(high)))
}

/// Returns the recorded time lines of a path, those of one port together.
fn lanes<'a>(path: &str, sources: &[Source], drawings: &Drawn<'a>) -> Vec<Picture<'a>> {
    let mut places = HashMap::new();
    let mut all: Vec<Lanes<'a>> = Vec::new();
    for &(source, line) in drawings {
        let port = &*line.profile;
        let place = *places.entry((source, &*line.on, port)).or_insert(all.len());
        if let Some(lanes) = all.get_mut(place) {
            lanes.lines.push(line);
            continue;
        }
        let thing = match path {
            "console" => "CPUs held by the console",
            "uart" => "A CPU fills a FIFO",
            path => path,
        };
        let name = match sources.len() {
            1 => String::new(),
            _ => format!(" ({})", sources[source].name),
        };
        all.push(Lanes {
            title: format!("{thing}, {port}{name}"),
            on: &line.on,
            lines: vec![line],
        });
    }
    all.into_iter().map(Picture::Lanes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_nostall_beside_linux_is_drawn_as_nostalls() {
        for ours in ["nostall", "fifo-paced", "per-cpu-clock", "caller", "auto"] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in [
            "linux-6.1",
            "linux-6.1-after",
            "byte-polled",
            "mutex",
            "nostalls",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
