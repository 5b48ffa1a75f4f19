//! Boots of the peers, alternating with those of nostall's kernel.

use anyhow::Result;
use nostall_vm::qemu::{Qemu, QemuBoard};

use super::boot::{Watch, boot};
use super::linux::{Build, Linux};
use super::report::{Key, Measured, Report};
use super::state::PeerStates;
use crate::experiments::on::On;
use crate::experiments::progress::Busy;
use crate::host::{Peer, State};
use crate::kernel;
use nostall_figures::figure::{Figure, Figures, Row};
use nostall_figures::table::{Column, table};

/// Boots of each system. The second half has the reverse order of the first.
const ROUNDS: usize = 4;

/// The comparison with Linux in one experiment.
pub struct PeerComparison {
    /// CPUs of Linux.
    pub cpus: u16,
    /// Values that are counted on Linux, in a boot of their own.
    pub counted: Option<Watch>,
    /// Nostall's strategy beside the peers and its machine. It is left out where nostall's
    /// kernel does not measure the same thing.
    pub ours: Option<(&'static str, QemuBoard)>,
    /// Columns of the table.
    pub columns: &'static [Column],
    /// Lines below the table.
    pub legend: &'static str,
    /// Another table, for figures of programs.
    pub second: Option<ProgramTable>,
    /// Returns a line that says whether a goal is met.
    pub goal: Option<fn(&Figures) -> Option<String>>,
}

/// Table with rows for each of several cases.
pub struct ProgramTable {
    /// Headers of the case's number, the system and the way.
    pub labels: [&'static str; 3],
    /// Cases, with rows for each.
    pub cases: &'static [&'static str],
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
    /// Release of Linux, once it has reported.
    release: Option<String>,
    failure: Option<String>,
}

/// Result of a comparison.
pub struct Compared {
    /// Table and notes.
    pub text: String,
    pub figures: Vec<Figure>,
    pub beside: PeerStates,
}

/// Measures the peers beside nostall. `ours` runs the experiment once in QEMU.
///
/// Linux finds the experiment's name on its command line. A peer that is missing or fails has a line
/// in the text, and no rows.
pub fn compare(
    (path, part): (&'static str, &PeerComparison),
    peers: &[Linux],
    kernel: Option<&std::path::Path>,
    ours: impl FnMut(&On) -> Result<Vec<Figure>>,
) -> Compared {
    let mut systems = Vec::new();
    let mut beside = PeerStates::default();
    for peer in peers {
        match peer.find() {
            Ok(build) => systems.push(System::new(peer.name(), Some(build))),
            Err(missing) => beside.peers.push(Peer {
                name: peer.name().to_owned(),
                path: None,
                state: State::Missing(missing),
            }),
        }
    }
    // Without a peer, nothing stands beside nostall.
    if !systems.is_empty() {
        let busy = Busy::new("booting Linux and nostall in turn");
        measure_beside(path, part, &mut systems, kernel, ours);
        drop(busy);
        let qemu = Qemu::find(QemuBoard::Q35).ok();
        beside.qemu = qemu.map(|qemu| qemu.version().to_owned());
    }
    for system in &mut systems {
        if system.failure.is_some() {
            system.values.clear();
        }
        beside.peers.extend(system.state(path));
    }
    keep_common(&mut systems);
    let figures = figures(path, &systems);
    let notes: Vec<_> = beside.peers.iter().filter_map(Peer::note).collect();
    Compared {
        text: text(part, &figures, &notes),
        figures: figures.to_vec(),
        beside,
    }
}

/// Measures the peers, and nostall with them. Nostall has failed if its machine is missing.
fn measure_beside(
    path: &str,
    part: &PeerComparison,
    systems: &mut Vec<System>,
    kernel: Option<&std::path::Path>,
    ours: impl FnMut(&On) -> Result<Vec<Figure>>,
) {
    let Some((strategy, board)) = part.ours else {
        return measure(path, part, systems, || Ok(Vec::new()));
    };
    let mut nostall = System::new(NOSTALL, None);
    match machine(board, kernel) {
        Ok(on) => {
            systems.push(nostall);
            measure(path, part, systems, with_strategy(strategy, on, ours));
        }
        Err(missing) => {
            nostall.failure = Some(format!("{missing:#}"));
            systems.push(nostall);
            measure(path, part, systems, || Ok(Vec::new()));
        }
    }
}

/// Leaves nostall the values that a peer has too.
fn keep_common(systems: &mut [System]) {
    let peers = systems.iter().filter(|system| system.build.is_some());
    let known: Vec<_> = peers
        .flat_map(|system| system.values.iter().map(|(key, _)| key.name()))
        .collect();
    for system in systems.iter_mut().filter(|system| system.build.is_none()) {
        system.values.retain(|(key, _)| known.contains(&key.name()));
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
            release: None,
            failure: None,
        }
    }

    /// Returns the system's entry in the document. Nostall has one only where it failed.
    fn state(&self, path: &str) -> Option<Peer> {
        let state = match (&self.failure, &self.release) {
            (Some(why), _) => State::Failed(why.clone()),
            (None, Some(release)) => State::Release(release.clone()),
            (None, None) => return None,
        };
        Some(Peer {
            name: self.name.to_owned(),
            path: self.failure.is_some().then(|| path.to_owned()),
            state,
        })
    }

    /// Whether this is nostall, or a peer that failed.
    const fn has_no_peer(&self) -> bool {
        self.build.is_none() || self.failure.is_some()
    }

    /// Adds the report of a Linux.
    fn add_report(&mut self, report: Report) {
        self.release = Some(report.release);
        self.add(report.measured);
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
        let kept = figures.filter(|figure| figure.strategy == strategy);
        let measured = kept.map(|figure| Measured {
            key: Key {
                way: figure.profile,
                metric: figure.metric,
                case: figure.case,
                unit: figure.unit,
            },
            value: figure.value,
        });
        Ok(measured.collect())
    }
}

/// Boots every system in turn, and once more each Linux on which something is counted.
fn measure(
    path: &str,
    part: &PeerComparison,
    systems: &mut [System],
    mut ours: impl FnMut() -> Result<Vec<Measured>>,
) {
    let words = format!("nostall={path}");
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
            let added = match &system.build {
                Some(build) => boot(build, &words, part.cpus, Watch::Times)
                    .map(|report| system.add_report(report)),
                None => ours()
                    .map(|measured| system.add(measured))
                    .map_err(|error| format!("{error:#}")),
            };
            system.failure = added.err();
        }
    }
    let Some(watch) = part.counted else { return };
    for system in systems {
        let (Some(build), None) = (&system.build, &system.failure) else {
            continue;
        };
        let (words, cpus) = match watch {
            Watch::Accesses => (format!("{words} nostall.once"), part.cpus),
            // With the counter, Linux 6.1 does not start a second CPU.
            _ => (words.clone(), 1),
        };
        match boot(build, &words, cpus, watch) {
            Ok(counted) => system.add_report(counted),
            Err(why) => system.failure = Some(why),
        }
    }
}

/// Returns the figures: medians, with the quartiles as `low` and `high`.
fn figures(path: &'static str, systems: &[System]) -> Figures {
    let mut all = Vec::new();
    for system in systems {
        for (key, values) in &system.values {
            let mut values = values.clone();
            values.sort_unstable_by(f64::total_cmp);
            let at = |quarter: usize| values[(values.len() - 1) * quarter / 4];
            let quartile = |quarter| (values.len() > 1).then(|| at(quarter));
            all.push(Figure {
                path: path.to_owned(),
                strategy: system.name.to_owned(),
                on: "qemu".to_owned(),
                profile: key.way.clone(),
                metric: key.metric.clone(),
                case: key.case.clone(),
                value: at(2),
                unit: key.unit.clone(),
                n: values.len(),
                low: quartile(1),
                high: quartile(3),
                ..Figure::default()
            });
        }
    }
    let mut figures = Figures::new(path, "qemu");
    figures.add(all);
    figures
}

/// Returns each system's ways that have a value in one of the columns, with its row.
fn rows<'a>(
    figures: &'a Figures,
    columns: &[Column],
    case: Option<&'a str>,
) -> Vec<([&'a str; 2], Row<'a>)> {
    let mut rows: Vec<([&str; 2], Row<'_>)> = Vec::new();
    for figure in figures.iter() {
        let way = figure.profile.as_deref();
        let labels = [&*figure.strategy, way.unwrap_or("")];
        let row = figures.row(&figure.strategy).of_case(case);
        let row = way.map_or(row, |way| row.on_port(way));
        let is_new = rows.iter().all(|(known, _)| *known != labels);
        if is_new && columns.iter().any(|column| column.value(&row).is_some()) {
            rows.push((labels, row));
        }
    }
    rows
}

fn text(part: &PeerComparison, figures: &Figures, notes: &[String]) -> String {
    let mut parts = Vec::new();
    let lines = rows(figures, part.columns, None);
    if !lines.is_empty() {
        parts.push(table(["beside Linux", ""], part.columns, lines));
        parts.push(part.legend.to_owned());
        if let Some(second) = &part.second {
            let lines = second.cases.iter().flat_map(|&case| {
                let number = case.split('-').next().unwrap_or(case);
                let lines = rows(figures, second.columns, Some(case)).into_iter();
                lines.map(move |([name, way], row)| ([number, name, way], row))
            });
            parts.push(table(second.labels, second.columns, lines));
            parts.push(second.legend.to_owned());
        }
        parts.extend(part.goal.and_then(|goal| goal(figures)));
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
    use crate::experiments::uart::metrics::NS_PER_BYTE;
    use nostall_figures::table::whole;

    const PART: PeerComparison = PeerComparison {
        cpus: 1,
        counted: Some(Watch::Accesses),
        ours: None,
        columns: &[Column::of("time", NS_PER_BYTE, whole)],
        legend: "time: of a byte.",
        second: None,
        goal: None,
    };

    fn system(name: &'static str, values: &[f64]) -> System {
        let mut system = System::new(name, None);
        for &value in values {
            let key = Key {
                way: None,
                metric: "ns_per_byte".to_owned(),
                case: None,
                unit: "ns/B".to_owned(),
            };
            system.add(vec![Measured { key, value }]);
        }
        system
    }

    #[test]
    fn a_peers_figure_is_a_median_between_its_quartiles() {
        let figures = figures(
            "uart",
            &[system("linux-6.1", &[50.0, 10.0, 30.0, 20.0, 40.0])],
        );
        let figure = &figures[0];
        assert_eq!(
            (&*figure.strategy, figure.n, figure.value),
            ("linux-6.1", 5, 30.0)
        );
        assert_eq!((figure.low, figure.high), (Some(20.0), Some(40.0)));
    }

    #[test]
    fn nostall_is_not_booted_without_a_peer() {
        let mut systems = [system("nostall", &[])];
        measure("uart", &PART, &mut systems, || panic!("booted"));
        let failed = System {
            failure: Some("it hung".to_owned()),
            ..system("linux-6.1", &[])
        };
        let mut systems = [failed, system("nostall", &[])];
        measure("uart", &PART, &mut systems, || panic!("booted"));
    }

    #[test]
    fn a_missing_machine_of_nostall_costs_no_row_of_a_peer() {
        let build = Build {
            kernel: "no vmlinuz".into(),
            initramfs: "no initramfs".into(),
        };
        let mut systems = vec![System::new("linux-6.1", Some(build))];
        let part = PeerComparison {
            ours: Some(("fifo-burst", QemuBoard::Q35)),
            ..PART
        };
        let kernel = Some(std::path::Path::new("no kernel"));
        measure_beside("uart", &part, &mut systems, kernel, |_| panic!("booted"));
        let states = systems.iter().filter_map(|system| system.state("uart"));
        let notes: Vec<_> = states.filter_map(|peer| peer.note()).collect();
        assert!(
            notes[0].starts_with("linux-6.1: not measured: "),
            "{notes:?}"
        );
        assert!(notes[1].starts_with("nostall: not measured: "), "{notes:?}");
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
        let none = figures("uart", &[]);
        assert_eq!(
            text(&PART, &none, &["linux-6.1: not built".to_owned()]),
            "linux-6.1: not built"
        );
    }
}
