//! Records that survive a crash: what writing them costs, and whether they do.

use std::ffi::OsString;

use anyhow::Result;
use comfy_table::Table;
use nostall_vm::Guest;
use nostall_work::pstore::{BLOCK, BLOCKS, ENTRIES_PER_BLOCK, Kind, Moved, Recovered, Strategy};

use super::run::{Finder, Outcome, run};
use super::threads;
use crate::experiments::experiment::Answer;
use crate::experiments::figure::Figure;
use crate::experiments::on::{On, on_qemu};
use crate::experiments::progress::Busy;
use crate::experiments::table::{aligned, cpus_on_host, host_cpus};
use crate::experiments::verdict::median;

/// How often every way is measured.
const ROUNDS: u16 = 5;

/// What was measured.
pub struct Measured {
    /// Where.
    headline: String,
    /// The stable word for that.
    on: &'static str,
    outcome: Outcome,
}

/// Runs the experiment on `on`.
pub fn measure(on: &On, cpus: u16, qemu_args: &[OsString]) -> Result<Measured> {
    let _busy = Busy::new("moving bytes, crashing, reading, booting again");
    Ok(match on {
        On::Qemu { qemu, kernel } => {
            let guest = Guest {
                qemu_args,
                ..Guest::new(kernel, cpus)
            };
            let (outcome, ran) = run(qemu, &guest, ROUNDS)?;
            Measured {
                headline: on_qemu("pstore", qemu, &cpus_on_host(cpus), &ran),
                on: on.name(),
                outcome,
            }
        }
        // KVM is not chosen for this path.
        _ => Measured {
            headline: format!(
                "pstore on threads of this host, 3 on {} CPUs; nothing modelled, no crash",
                host_cpus()
            ),
            on: "host-threads",
            outcome: threads::run(ROUNDS),
        },
    })
}

/// What the seed measured, in MB/s. Before its patches Linux had one lock for all
/// zones; only traces were written, so that it was as good as the zone's own.
const fn published(strategy: Strategy) -> Option<f64> {
    match strategy {
        Strategy::OneZoneLocked => Some(24.0),
        Strategy::PerCpuClock => Some(51.9),
        Strategy::PerCpuCounter => Some(91.5),
        Strategy::Untraced | Strategy::OneLockForAll => None,
    }
}

impl Measured {
    /// For people and for programs.
    pub fn answer(&self) -> Answer {
        let faults = self.faults();
        let rounds = self.of(Strategy::Untraced).count();
        let parts = [
            format!(
                "{}\n{BLOCKS} blocks of {BLOCK} bytes through two pipes, {ENTRIES_PER_BLOCK} \
                 function entries a block;\nmedians of {rounds} rounds",
                self.headline
            ),
            self.table(),
            self.recovered(),
            if faults.is_empty() {
                self.success().to_owned()
            } else {
                format!("Not as it should be:\n  {}", faults.join("\n  "))
            },
        ];
        Answer {
            text: parts.join("\n\n"),
            figures: self.figures().into(),
            found: (),
            failure: faults.into_iter().next(),
        }
    }

    /// All of persistent RAM, as it was left.
    pub fn image(&self) -> &[u8] {
        &self.outcome.image
    }

    fn of(&self, strategy: Strategy) -> impl Iterator<Item = &Moved> {
        let moved = self.outcome.moved.iter();
        moved.filter_map(move |(s, moved)| (*s == strategy).then_some(moved))
    }

    fn median_of(&self, strategy: Strategy, value: impl Fn(&Moved) -> u64) -> f64 {
        median(self.of(strategy).map(value).collect()) as f64
    }

    /// 10^6 bytes a second.
    fn mb_per_s(&self, strategy: Strategy) -> f64 {
        let bytes = self.median_of(strategy, |moved| moved.bytes);
        bytes * 1e3 / self.median_of(strategy, |moved| moved.ns).max(1.0)
    }

    /// Of the whole run's time.
    fn ns_per_record(&self, strategy: Strategy) -> Option<f64> {
        let records = self.median_of(strategy, |moved| moved.records);
        let ns = self.median_of(strategy, |moved| moved.ns);
        (records > 0.0).then(|| ns / records)
    }

    fn table(&self) -> String {
        let mut table = Table::new();
        table.set_header([
            "strategy",
            "records",
            "ns/rec",
            "MB/s",
            "times",
            "| seed MB/s",
            "times",
        ]);
        let before = Strategy::OneZoneLocked;
        let dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        for strategy in Strategy::ALL {
            let times = self.mb_per_s(strategy) / self.mb_per_s(before).max(f64::MIN_POSITIVE);
            let seed = published(strategy);
            let seed_times = seed.zip(published(before)).map(|(now, then)| now / then);
            table.add_row([
                strategy.name().to_owned(),
                self.median_of(strategy, |moved| moved.records).to_string(),
                dash(self.ns_per_record(strategy).map(|ns| format!("{ns:.0}"))),
                format!("{:.1}", self.mb_per_s(strategy)),
                format!("{times:.2}"),
                dash(seed.map(|mb| format!("{mb:.1}"))),
                dash(seed_times.map(|times| format!("{times:.2}"))),
            ]);
        }
        let legend = "\
            ns/rec: the run's time for each record of all CPUs; times: MB/s to those of\n\
            one-zone-locked. seed: as published in 2016, without the seed's patches and with\n\
            them, of dd | pv | dd on Linux with all of its functions traced, on 4 CPUs of\n\
            another machine (- where it tells nothing): compare times, and not MB/s.";
        format!("{}\n\n{legend}", aligned(table, 1))
    }

    /// What the host found.
    fn recovered(&self) -> String {
        let mut table = Table::new();
        table.set_header([
            "read back",
            "records",
            "bytes",
            "first stamp",
            "last stamp",
            "checksum",
        ]);
        let dash = || "-".to_owned();
        let mut excerpts = Vec::new();
        for found in self.found_by(Finder::Host) {
            match found {
                Recovered::Trace { cpu, trace } => {
                    table.add_row([
                        cpu.map_or("merged".to_owned(), |cpu| format!("CPU {cpu}")),
                        trace.records.to_string(),
                        dash(),
                        trace.first.to_string(),
                        trace.last.to_string(),
                        format!("{:016x}", trace.checksum),
                    ]);
                }
                Recovered::Text {
                    kind,
                    bytes,
                    checksum,
                    text,
                } => {
                    let checksum = format!("{checksum:016x}");
                    let name = name(*kind).to_owned();
                    table.add_row([name, dash(), bytes.to_string(), dash(), dash(), checksum]);
                    excerpts.push(excerpt(*kind, text));
                }
                _ => {}
            }
        }
        let mut parts = vec![aligned(table, 1)];
        if !excerpts.is_empty() {
            parts.push(excerpts.join("\n"));
        }
        parts.join("\n\n")
    }

    fn found_by(&self, finder: Finder) -> &[Recovered] {
        let mut found = self.outcome.found.iter();
        found
            .find_map(|(by, found)| (*by == finder).then_some(found.as_slice()))
            .unwrap_or_default()
    }

    const fn success(&self) -> &'static str {
        if self.outcome.panic.is_some() {
            "The kernel panicked. What it had told of its traces, what the host read from the\n\
             dead machine's RAM, and what a second boot on that RAM recovered, is the same."
        } else {
            "Every byte arrived, and every record was written."
        }
    }

    /// What is not as it should be; empty if all is.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let bytes = u64::from(BLOCKS) * BLOCK as u64;
        for (strategy, moved) in &self.outcome.moved {
            let records = match strategy {
                Strategy::Untraced => 0,
                _ => u64::from(BLOCKS) * ENTRIES_PER_BLOCK,
            };
            if moved.bytes != bytes {
                let arrived = moved.bytes;
                faults.push(format!(
                    "{strategy}: only {arrived} of {bytes} bytes arrived"
                ));
            } else if moved.records != records {
                let written = moved.records;
                faults.push(format!("{strategy}: {written} records, not {records}"));
            }
        }
        let host = self.found_by(Finder::Host);
        if records(host) == 0 {
            faults.push("the host read no records".to_owned());
        }
        if let Some(panic) = &self.outcome.panic {
            faults.extend(self.disagreements(host, panic));
        }
        faults
    }

    fn disagreements(&self, host: &[Recovered], panic: &str) -> Vec<String> {
        let traces = host.iter().filter(|f| matches!(f, Recovered::Trace { .. }));
        let console_ends = |with: &str| {
            host.iter().any(|found| match found {
                Recovered::Text {
                    kind: Kind::Console,
                    text,
                    ..
                } => text.trim_end().ends_with(with),
                _ => false,
            })
        };
        let checks = [
            (
                traces.eq(self.found_by(Finder::Writer)),
                "the host read other traces than the dying kernel had told of",
            ),
            (
                console_ends(panic),
                "the console that the host read does not end with the panic",
            ),
            (
                host == self.found_by(Finder::NextBoot),
                "the second boot recovered something else than the host read",
            ),
        ];
        let wrong = checks.into_iter().filter(|(right, _)| !right);
        wrong.map(|(_, what)| what.to_owned()).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let figure = |strategy: Strategy, n, (metric, value, unit): (&str, _, _)| Figure {
            path: "pstore",
            strategy: strategy.name(),
            on: self.on,
            profile: None,
            metric: metric.to_owned(),
            value,
            unit,
            n,
            ..Figure::default()
        };
        let mut figures = Vec::new();
        for strategy in Strategy::ALL {
            let ns = self.ns_per_record(strategy);
            let metrics = [
                ("bytes", self.median_of(strategy, |m| m.bytes), "B"),
                ("records", self.median_of(strategy, |m| m.records), "1"),
                ("mb_per_s", self.mb_per_s(strategy), "MB/s"),
            ];
            let metrics = metrics
                .into_iter()
                .chain(ns.map(|ns| ("ns_per_record", ns, "ns")));
            let n = self.of(strategy).count();
            figures.extend(metrics.map(|metric| figure(strategy, n, metric)));
        }
        let recovered = records(self.found_by(Finder::Host)) as f64;
        let recovered = ("records_recovered", recovered, "1");
        figures.push(figure(Strategy::PerCpuClock, 1, recovered));
        figures
    }
}

/// Of all CPUs.
fn records(found: &[Recovered]) -> u64 {
    let merged = found.iter().find_map(|found| match found {
        Recovered::Trace { cpu: None, trace } => Some(trace.records),
        _ => None,
    });
    merged.unwrap_or(0)
}

/// Two lines of a text, where it is most interesting.
fn excerpt(kind: Kind, text: &str) -> String {
    let lines: Vec<_> = match kind {
        Kind::Console => text.lines().rev().take(1).collect(),
        _ => text.lines().take(2).collect(),
    };
    let lines = lines.into_iter().map(|line| {
        let line: String = line.chars().take(70).collect();
        format!("{:<9}{line}", name(kind))
    });
    lines.collect::<Vec<_>>().join("\n")
}

const fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Dmesg => "dmesg",
        Kind::Console => "console",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nostall_work::pstore::Trace;

    fn left(records: u64, console: &str) -> Vec<Recovered> {
        let mut trace = Trace::default();
        (0..records).for_each(|n| trace.add(n, n, n, 0));
        let mut text = nostall_work::Text::new();
        text.push_str(console).unwrap();
        vec![
            Recovered::Trace { cpu: None, trace },
            Recovered::Text {
                kind: Kind::Console,
                bytes: console.len() as u64,
                checksum: 0,
                text,
            },
        ]
    }

    /// Two rounds after which all is well.
    fn measured() -> Measured {
        let moved = |strategy| Moved {
            bytes: 8_388_608,
            records: match strategy {
                Strategy::Untraced => 0,
                _ => 737_280,
            },
            ns: match strategy {
                Strategy::OneZoneLocked => 838_860_800,
                _ => 83_886_080,
            },
        };
        let round = Strategy::ALL.map(|strategy| (strategy, moved(strategy)));
        let host = left(7, "[0.1] Kernel panic: why\n");
        Measured {
            headline: "pstore".to_owned(),
            on: "qemu",
            outcome: Outcome {
                moved: [round, round].concat(),
                found: vec![
                    (Finder::Writer, host[..1].to_vec()),
                    (Finder::Host, host.clone()),
                    (Finder::NextBoot, host),
                ],
                image: Vec::new(),
                panic: Some("why".to_owned()),
            },
        }
    }

    fn fault(change: impl FnOnce(&mut Outcome)) -> String {
        let mut measured = measured();
        change(&mut measured.outcome);
        let answer = measured.answer();
        let fault = answer.failure.unwrap();
        let told = format!("Not as it should be:\n  {fault}");
        assert!(answer.text.ends_with(&told), "{}", answer.text);
        fault
    }

    #[test]
    fn what_agrees_is_a_success_and_speeds_are_compared_with_the_locked_zone() {
        let answer = measured().answer();
        assert_eq!(answer.failure, None);
        assert!(answer.text.contains("medians of 2 rounds"));
        let row = |strategy| {
            let rows = answer.text.lines();
            let mut rows = rows.filter(|line| line.starts_with(strategy));
            let words: Vec<_> = rows.next().unwrap().split_whitespace().collect();
            words[1..].join(" ")
        };
        assert_eq!(row("untraced"), "0 - 100.0 10.00 - -");
        assert_eq!(row("one-zone-locked"), "737280 1138 10.0 1.00 24.0 1.00");
        assert_eq!(row("per-cpu-counter"), "737280 114 100.0 10.00 91.5 3.81");
    }

    #[test]
    fn what_was_lost_or_not_written_is_told() {
        let fault_of = |change: fn(&mut Moved)| fault(|outcome| change(&mut outcome.moved[6].1));
        assert_eq!(
            fault_of(|moved| moved.bytes -= 512),
            "one-lock-for-all: only 8388096 of 8388608 bytes arrived"
        );
        assert_eq!(
            fault_of(|moved| moved.records += 1),
            "one-lock-for-all: 737281 records, not 737280"
        );
    }

    #[test]
    fn whoever_finds_something_else_is_named() {
        let other = || left(8, "[0.1] Kernel panic: why\n");
        for (change, says) in [
            (
                (|outcome, other| outcome.found[2].1 = other) as fn(&mut Outcome, _),
                "the second boot recovered something else",
            ),
            (
                |outcome, other| outcome.found[0].1 = other[..1].to_vec(),
                "the host read other traces",
            ),
            (
                |outcome, _| outcome.panic = Some("another".to_owned()),
                "does not end with the panic",
            ),
        ] {
            let fault = fault(|outcome| change(outcome, other()));
            assert!(fault.contains(says), "{fault}");
        }
        let mut nothing = measured();
        nothing.outcome.found.clear();
        let failure = nothing.answer().failure.unwrap();
        assert_eq!(failure, "the host read no records");
    }
}
