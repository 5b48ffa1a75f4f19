//! The tables, with published figures of Linux beside ours.

use nostall_work::pci::Operation;

use super::fold::word;
use super::metrics;
use super::run::{AccessStrategy, PciPlan};
use nostall_figures::figure::{Figures, Row};
use nostall_figures::table::{Column, table, time, whole};

const COLUMNS: [Column; 7] = [
    Column::of("bus", metrics::BUS_ACCESSES, count),
    Column::of("exits", metrics::EXITS, count),
    Column::of("time", metrics::NS, time),
    Column::of("/ports", metrics::TIME_RATIO_TO_PORTS, ratio),
    Column::of("/ram", metrics::TIME_RATIO_TO_RAM, ratio),
    Column::new("| Linux", |row| published(row, row.strategy), time),
    Column::new(
        "/ports",
        |row| {
            // The ratio is shown only on a machine that has ports.
            row.of("ports").figure(metrics::BUS_ACCESSES)?;
            Some(published(row, row.strategy)? / published(row, "ports")?)
        },
        ratio,
    ),
];

/// Costs of mapping, which no row of the other table includes.
const MAPPING: [Column; 4] = [
    Column::of("maps", metrics::MAPS_AT_START, whole),
    Column::new(
        "time",
        |row| row.get(metrics::MAPS_AT_START_NS).filter(is_timed),
        time,
    ),
    Column::of("| changes", metrics::MAP_CHANGES, whole),
    Column::new(
        "time",
        |row| row.get(metrics::MAP_CHANGE_NS).filter(is_timed),
        time,
    ),
];

const MAPPING_LEGEND: &str = "\
    A boot pays for this once, and no row above includes it. maps: made before the\n\
    guest starts; changes: maps made and removed while it assigns bus numbers.\n\
    time: of this host and KVM, without the page faults that follow in the guest.";

fn is_timed(ns: &f64) -> bool {
    *ns > 0.0
}

/// Returns the tables and their legends.
pub fn tables(figures: &Figures, plan: &PciPlan<'_>) -> Vec<String> {
    let mut before = None;
    let rows = plan.measure.iter().filter_map(|(operation, strategy)| {
        let word = word(*operation);
        let row = figures.row(strategy.name()).of_case(Some(word));
        // The machine may lack a way to configuration space.
        row.figure(metrics::BUS_ACCESSES)?;
        let label = if before == Some(word) { "" } else { word };
        before = Some(word);
        Some(([label, strategy.name()], row))
    });
    let mut parts = vec![table(["what", "by"], &COLUMNS, rows)];
    let strategies = figures
        .iter()
        .filter(|one| one.metric == metrics::MAPS_AT_START.name);
    let rows = strategies.map(|one| (["a boot", &*one.strategy], figures.row(&one.strategy)));
    let mapped: Vec<_> = rows
        .filter(|(_, row)| {
            row.get(metrics::MAPS_AT_START) > Some(0.0) || row.get(metrics::MAP_CHANGES) > Some(0.0)
        })
        .collect();
    if !mapped.is_empty() {
        parts.push(table(["mapping", "by"], &MAPPING, mapped));
        parts.push(MAPPING_LEGEND.to_owned());
    }
    let mut operations = plan.measure.iter();
    let reads = operations.find_map(|(operation, _)| match operation {
        Operation::Read(n) => Some(*n),
        _ => None,
    });
    let writes = operations.find_map(|(operation, _)| match operation {
        Operation::Write(n) => Some(*n),
        _ => None,
    });
    parts.push(format!(
        "\
        {} reads of 32 bits, {} writes of 8 bits; scan: finds every function;\n\
        init: also sizes BARs and follows capabilities. bus, exits, time: of one,\n\
        {}; exits to user space, - where this machine cannot count\n\
        them. /ports, /ram: time relative to ports, and to the same code on plain\n\
        memory, the limit. auto: the chosen method. Linux: published with its patch\n\
        \"x86/PCI: Prefer MMIO over PIO on VMware hypervisor\" (2022): 100,000 reads\n\
        took 12.809 s using ports, 8.517 s using ECAM, 0.010 s using mapped ECAM; scan\n\
        and initialisation took 55 ms using ports, 18 ms using mapped ECAM. Compare\n\
        ratios, not times.",
        reads.unwrap_or(0),
        writes.unwrap_or(0),
        match plan.repeat {
            1 => "measured once".to_owned(),
            n => format!("medians of {n} rounds"),
        },
    ));
    parts
}

/// Returns Linux's published time of one operation, in nanoseconds.
fn published(row: &Row<'_>, strategy: &str) -> Option<f64> {
    match (row.case?, strategy) {
        ("read", "ports") => Some(12.809e9 / 1e5),
        ("read", "ecam") => Some(8.517e9 / 1e5),
        ("read", "ecam-shadow") => Some(0.010e9 / 1e5),
        ("init", "ports") => Some(55e6),
        ("init", "ecam-shadow") => Some(18e6),
        _ => None,
    }
}

fn ratio(ratio: f64) -> String {
    if ratio < 0.0995 {
        format!("{ratio:.4}")
    } else {
        format!("{ratio:.2}")
    }
}

/// Formats a count, without decimals if it is whole.
fn count(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.4}")
    }
}

/// Returns the end of a text without faults.
pub fn success(figures: &Figures) -> String {
    let functions = |strategy: AccessStrategy| figures.row(strategy.name()).get(metrics::FUNCTIONS);
    let shown = match functions(AccessStrategy::Auto).unwrap_or(0.0) {
        1.0 => "1 function".to_owned(),
        n => format!("{n} functions"),
    };
    let (ports, ecam) = (
        functions(AccessStrategy::Ports),
        functions(AccessStrategy::Ecam),
    );
    let shown = match (ports.is_some(), ecam.is_some()) {
        (true, true) => {
            format!("Ports, ECAM and the chosen method show the same {shown}; the")
        }
        (true, false) => format!("There is no ECAM to compare: ports show {shown}; the"),
        (false, _) => format!("There are no ports to compare: ECAM shows {shown}; the"),
    };
    format!("{shown}\nvirtio-drivers crate finds the same with our access.")
}
