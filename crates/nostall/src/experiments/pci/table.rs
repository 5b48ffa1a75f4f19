//! The table, beside the seed's figures.

use comfy_table::Table;
use nostall_io::Nanos;
use nostall_vm::MapChanges;
use nostall_work::pci::Operation;

use super::measured::{Measured, Way, word};
use super::run::Strategy;
use crate::experiments::table::{aligned, time};

impl Measured {
    pub(super) fn table(&self) -> String {
        let mut table = Table::new();
        table.set_header([
            "what", "by", "bus", "exits", "time", "/ports", "/ram", "| seed", "/ports",
        ]);
        let dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let mut before = None;
        for way in &self.ways {
            let name = Some(word(way.operation)).filter(|word| before != Some(*word));
            before = Some(word(way.operation));
            let to = |other| {
                let other = self.way(way.operation, other)?.ns();
                ratio(way.ns(), other)
            };
            let seed = published(way);
            let seed_ports = self.way(way.operation, Strategy::Ports).and_then(published);
            table.add_row([
                name.unwrap_or_default().to_owned(),
                way.strategy.name().to_owned(),
                count(way.each(|once| once.bus_accesses)),
                dash(way.exits().map(count)),
                dash(way.ns().map(time)),
                dash(to(Strategy::Ports)),
                dash(to(Strategy::Ram)),
                dash(seed.map(time)),
                dash(ratio(seed, seed_ports)),
            ]);
        }
        let legend = format!(
            "\
            {} reads of 32 bits, {} writes of 8; scan: every function found;\n\
            init: and its BARs sized, its capabilities followed. bus, exits, time: of one,\n\
            {}; exits to user space, - where this machine cannot count\n\
            them. /ports, /ram: time to that by ports, and to that of the same code on plain\n\
            memory, the limit. auto: by what was chosen. seed: Linux on VMware in 2022:\n\
            100,000 reads took 12.809 s by ports, 8.517 s by ECAM, 0.010 s by ECAM that is\n\
            mapped; scan and initialisation took 55 ms by ports, 18 ms by that: compare\n\
            ratios, and not times.",
            self.operations("read"),
            self.operations("write"),
            match self.rounds {
                1 => "measured once".to_owned(),
                n => format!("medians of {n} rounds"),
            },
        );
        let parts = [aligned(table, 2)].into_iter().chain(self.mapping());
        parts.chain([legend]).collect::<Vec<_>>().join("\n\n")
    }

    /// What mapping costs, which no row shows; `None` where nothing is mapped.
    fn mapping(&self) -> Option<String> {
        let mut table = Table::new();
        table.set_header(["mapping", "by", "maps", "time", "| changes", "time"]);
        let time_of = |changes: MapChanges| match changes.took {
            Nanos::ZERO => "-".to_owned(),
            took => time(took.0 as f64),
        };
        let mut is_empty = true;
        for maps in self.maps() {
            let (at_start, changes) = (maps.at_start, maps.changes);
            if at_start.count + changes.count == 0 {
                continue;
            }
            is_empty = false;
            table.add_row([
                "a boot".to_owned(),
                maps.strategy.name().to_owned(),
                at_start.count.to_string(),
                time_of(at_start),
                changes.count.to_string(),
                time_of(changes),
            ]);
        }
        let legend = "\
            A boot pays for this once, and no row above shows it. maps: made before the\n\
            guest starts; changes: maps made and taken away as it gives out bus numbers.\n\
            time: of this host and KVM, without the page faults that follow in the guest.";
        (!is_empty).then(|| format!("{}\n\n{legend}", aligned(table, 2)))
    }

    /// How many are measured at once.
    fn operations(&self, what: &str) -> u32 {
        let mut ways = self.ways.iter();
        let way = ways.find(|way| word(way.operation) == what);
        way.and_then(|way| way.rounds.first())
            .map_or(0, |once| once.operations)
    }
}

/// What the seed measured for one operation, in nanoseconds.
fn published(way: &Way) -> Option<f64> {
    match (way.operation, way.strategy) {
        (Operation::Read(_), Strategy::Ports) => Some(12.809e9 / 1e5),
        (Operation::Read(_), Strategy::Ecam) => Some(8.517e9 / 1e5),
        (Operation::Read(_), Strategy::EcamShadow) => Some(0.010e9 / 1e5),
        (Operation::Init, Strategy::Ports) => Some(55e6),
        (Operation::Init, Strategy::EcamShadow) => Some(18e6),
        _ => None,
    }
}

/// To the other's, if there is one.
fn ratio(ns: Option<f64>, other: Option<f64>) -> Option<String> {
    let ratio = ns? / other?;
    Some(if ratio < 0.0995 {
        format!("{ratio:.4}")
    } else {
        format!("{ratio:.2}")
    })
}

/// Whole, where it is.
fn count(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.4}")
    }
}
