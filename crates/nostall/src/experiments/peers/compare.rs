//! Boots of the peers, alternating with those of nostall's kernel.

use anyhow::Result;
use nostall_vm::qemu::{Qemu, QemuBoard};

use super::boot::{Watch, boot};
use super::linux::{Build, Linux};
use super::report::{Key, Measured};
use crate::experiments::figure::{Figure, Figures};
use crate::experiments::on::On;
use crate::experiments::progress::Busy;
use crate::experiments::table::{Column, table};
use crate::kernel;

/// Boots of each system. The second half has the reverse order of the first.
const ROUNDS: usize = 4;

/// The comparison with Linux in one experiment.
pub struct Part {
    /// The experiment's name, which Linux finds on its command line.
    pub path: &'static str,
    /// CPUs of Linux.
    pub cpus: u16,
    /// Whether accesses of Linux to the device are counted, in a boot of their own.
    pub is_counted: bool,
    /// Nostall's strategy beside the peers and its machine. It is left out where nostall's
    /// kernel does not measure the same thing.
    pub ours: Option<(&'static str, QemuBoard)>,
    /// Columns of the table.
    pub columns: &'static [Column],
    /// Lines below the table.
    pub legend: &'static str,
}

/// One system of the comparison, with its values.
struct System {
    name: &'static str,
    /// The build of Linux, or `None` for nostall.
    build: Option<Build>,
    values: Vec<(Key, Vec<f64>)>,
    failure: Option<String>,
}

/// Result of a comparison.
pub struct Compared {
    /// Table and notes.
    pub text: String,
    pub figures: Vec<Figure>,
}

/// Measures the peers beside nostall. `ours` runs the experiment once in QEMU.
///
/// A peer that is missing or fails has a line in the text, and no rows.
pub fn compare(
    part: &Part,
    peers: &[Linux],
    kernel: Option<&std::path::Path>,
    ours: impl FnMut(&On) -> Result<Vec<Figure>>,
) -> Compared {
    let mut systems = Vec::new();
    let mut notes = Vec::new();
    for peer in peers {
        match peer.find() {
            Ok(build) => systems.push(System::new(peer.name(), Some(build))),
            Err(missing) => notes.push(missing),
        }
    }
    // Without a peer, nothing stands beside nostall.
    if !systems.is_empty() {
        let busy = Busy::new("booting Linux and nostall in turn");
        notes.extend(measure_beside(part, &mut systems, kernel, ours));
        drop(busy);
    }
    for system in &mut systems {
        if let Some(why) = system.failure.take() {
            notes.push(format!("{}: not measured: {why}", system.name));
            system.values.clear();
        }
    }
    keep_common(&mut systems);
    let figures = figures(part, &systems);
    Compared {
        text: text(part, &figures, &notes),
        figures: figures.to_vec(),
    }
}

/// Measures the peers, and nostall with them. Returns the reason if nostall's machine is missing.
fn measure_beside(
    part: &Part,
    systems: &mut Vec<System>,
    kernel: Option<&std::path::Path>,
    ours: impl FnMut(&On) -> Result<Vec<Figure>>,
) -> Option<String> {
    let found = part
        .ours
        .map(|(strategy, board)| (strategy, machine(board, kernel)));
    if let Some((strategy, Ok(on))) = found {
        systems.push(System::new(NOSTALL, None));
        measure(part, systems, with_strategy(strategy, on, ours));
        return None;
    }
    measure(part, systems, || Ok(Vec::new()));
    let (_, missing) = found?;
    Some(format!("{NOSTALL}: not measured: {:#}", missing.err()?))
}

/// Leaves nostall the values that a peer has too.
fn keep_common(systems: &mut [System]) {
    let peers = systems.iter().filter(|system| system.build.is_some());
    let known: Vec<_> = peers
        .flat_map(|system| system.values.iter().map(|(key, _)| key.metric.clone()))
        .collect();
    for system in systems.iter_mut().filter(|system| system.build.is_none()) {
        system.values.retain(|(key, _)| known.contains(&key.metric));
    }
}

/// Name of nostall's rows among the peers'.
const NOSTALL: &str = "nostall";

impl System {
    const fn new(name: &'static str, build: Option<Build>) -> Self {
        Self {
            name,
            build,
            values: Vec::new(),
            failure: None,
        }
    }

    /// Whether this is nostall, or a peer that failed.
    const fn has_no_peer(&self) -> bool {
        self.build.is_none() || self.failure.is_some()
    }

    fn add(&mut self, measured: Vec<Measured>) {
        for Measured { key, value } in measured {
            match self.values.iter_mut().find(|(known, _)| *known == key) {
                Some((_, values)) => values.push(value),
                None => self.values.push((key, vec![value])),
            }
        }
    }
}

/// Finds the machine that boots nostall's kernel.
fn machine(board: QemuBoard, kernel: Option<&std::path::Path>) -> Result<On> {
    Ok(On::Qemu {
        kernel: kernel::find(kernel, board.architecture())?,
        qemu: Qemu::find(board)?,
    })
}

/// Returns a closure that runs `ours` once, and keeps the figures of `strategy`.
fn with_strategy(
    strategy: &'static str,
    on: On,
    mut ours: impl FnMut(&On) -> Result<Vec<Figure>>,
) -> impl FnMut() -> Result<Vec<Measured>> {
    move || {
        let figures = ours(&on)?.into_iter();
        let kept = figures.filter(|figure| figure.strategy == strategy && figure.profile.is_none());
        let measured = kept.map(|figure| Measured {
            key: Key {
                way: None,
                metric: figure.metric,
                unit: figure.unit,
            },
            value: figure.value,
        });
        Ok(measured.collect())
    }
}

/// Boots every system in turn, and once more each Linux whose device accesses are counted.
fn measure(part: &Part, systems: &mut [System], mut ours: impl FnMut() -> Result<Vec<Measured>>) {
    let words = format!("nostall={}", part.path);
    for round in 0..ROUNDS {
        // Nostall is not measured beside nothing.
        if systems.iter().all(System::has_no_peer) {
            return;
        }
        let mut order: Vec<_> = systems.iter_mut().collect();
        if round >= ROUNDS / 2 {
            order.reverse();
        }
        for system in order {
            if system.failure.is_some() {
                continue;
            }
            let measured = match &system.build {
                Some(build) => boot(build, &words, part.cpus, Watch::Times),
                None => ours().map_err(|error| format!("{error:#}")),
            };
            match measured {
                Ok(measured) => system.add(measured),
                Err(why) => system.failure = Some(why),
            }
        }
    }
    if !part.is_counted {
        return;
    }
    for system in systems {
        let (Some(build), None) = (&system.build, &system.failure) else {
            continue;
        };
        let words = format!("{words} nostall.once");
        match boot(build, &words, part.cpus, Watch::Accesses) {
            Ok(counted) => system.add(counted),
            Err(why) => system.failure = Some(why),
        }
    }
}

/// Returns the figures: medians, with the quartiles as `low` and `high`.
fn figures(part: &Part, systems: &[System]) -> Figures {
    let mut figures = Figures::new(part.path, "qemu");
    for system in systems {
        for (key, values) in &system.values {
            let mut values = values.clone();
            values.sort_unstable_by(f64::total_cmp);
            let at = |quarter: usize| values[(values.len() - 1) * quarter / 4];
            let mut record = figures.record(system.name);
            if let Some(way) = key.way {
                record = record.on_port(way);
            }
            if let Some(figure) = record.value(&key.metric, key.unit, at(2)) {
                figure.n = values.len();
                if values.len() > 1 {
                    (figure.low, figure.high) = (Some(at(1)), Some(at(3)));
                }
            }
        }
    }
    figures
}

fn text(part: &Part, figures: &Figures, notes: &[String]) -> String {
    let mut rows: Vec<(&'static str, Option<&'static str>)> = Vec::new();
    for figure in figures.iter() {
        let row = (figure.strategy, figure.profile);
        let is_shown = |column: &Column| {
            let found = figures.row(row.0);
            let found = row.1.map_or(found, |way| found.on_port(way));
            column.value(&found).is_some()
        };
        if !rows.contains(&row) && part.columns.iter().any(is_shown) {
            rows.push(row);
        }
    }
    let mut parts = Vec::new();
    if !rows.is_empty() {
        let lines = rows.iter().map(|&(name, way)| {
            let row = figures.row(name);
            let row = way.map_or(row, |way| row.on_port(way));
            ([name, way.unwrap_or("")], row)
        });
        parts.push(table(["beside Linux", ""], part.columns, lines));
        parts.push(part.legend.to_owned());
        parts.push(format!(
            "Medians of {ROUNDS} boots each, in turn, in QEMU; --json also has the quartiles."
        ));
        if let Some((strategy, _)) = part.ours {
            parts.push(format!(
                "nostall: {strategy} of its kernel. bus: accesses to the device."
            ));
        }
    }
    parts.extend((!notes.is_empty()).then(|| notes.join("\n")));
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::table::whole;

    const PART: Part = Part {
        path: "uart",
        cpus: 1,
        is_counted: true,
        ours: None,
        columns: &[Column::of("time", "ns_per_byte", whole)],
        legend: "time: of a byte.",
    };

    fn system(name: &'static str, values: &[f64]) -> System {
        let mut system = System::new(name, None);
        for &value in values {
            let key = Key {
                way: None,
                metric: "ns_per_byte".to_owned(),
                unit: "ns/B",
            };
            system.add(vec![Measured { key, value }]);
        }
        system
    }

    #[test]
    fn a_peers_figure_is_a_median_between_its_quartiles() {
        let figures = figures(
            &PART,
            &[system("linux-6.1", &[50.0, 10.0, 30.0, 20.0, 40.0])],
        );
        let figure = &figures[0];
        assert_eq!(
            (figure.strategy, figure.n, figure.value),
            ("linux-6.1", 5, 30.0)
        );
        assert_eq!((figure.low, figure.high), (Some(20.0), Some(40.0)));
    }

    #[test]
    fn nostall_is_not_booted_without_a_peer() {
        let mut systems = [system("nostall", &[])];
        measure(&PART, &mut systems, || panic!("booted"));
        let failed = System {
            failure: Some("it hung".to_owned()),
            ..system("linux-6.1", &[])
        };
        let mut systems = [failed, system("nostall", &[])];
        measure(&PART, &mut systems, || panic!("booted"));
    }

    #[test]
    fn a_missing_machine_of_nostall_costs_no_row_of_a_peer() {
        let build = Build {
            kernel: "no vmlinuz".into(),
            initramfs: "no initramfs".into(),
        };
        let mut systems = vec![System::new("linux-6.1", Some(build))];
        let part = Part {
            ours: Some(("fifo-burst", QemuBoard::Q35)),
            ..PART
        };
        let kernel = Some(std::path::Path::new("no kernel"));
        let note = measure_beside(&part, &mut systems, kernel, |_| panic!("booted")).unwrap();
        assert!(note.starts_with("nostall: not measured: "), "{note}");
        assert!(systems[0].failure.is_some(), "the peer was not booted");
    }

    #[test]
    fn nostall_has_no_value_that_no_peer_has() {
        let mut alone = [system("nostall", &[1.0])];
        keep_common(&mut alone);
        assert!(alone[0].values.is_empty());
        let build = Build {
            kernel: "vmlinuz".into(),
            initramfs: "initramfs".into(),
        };
        let peer = System {
            build: Some(build),
            ..system("linux-6.1", &[2.0])
        };
        let mut both = [peer, system("nostall", &[1.0])];
        keep_common(&mut both);
        assert_eq!(both[1].values[0].1, [1.0]);
    }

    #[test]
    fn a_table_without_rows_is_its_notes() {
        let none = figures(&PART, &[]);
        assert_eq!(
            text(&PART, &none, &["linux-6.1: not built".to_owned()]),
            "linux-6.1: not built"
        );
    }
}
