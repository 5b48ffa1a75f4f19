//! The serial path: a text, sent in every way.

use std::collections::BTreeMap;
use std::ffi::OsString;

use anyhow::Result;
use comfy_table::Table;
use nostall_devices::uart::{Profile, Published};
use nostall_io::Nanos;
use nostall_uart::Strategy;
use nostall_vm::{Exits, Guest, MapChanges};
use nostall_work::uart::{Driver, Job, Sent, Writes};

use super::beside;
use super::input::Text;
use super::model::{self, Planned};
use super::run::{Experiment, Outcome, run};
use crate::experiments::on::{On, on_qemu};
use crate::experiments::progress::Bar;
use crate::experiments::table::{self, aligned, percent, time};
use crate::experiments::verdict::{Difference, compare, median};

/// How often every way is measured, unless the text is long.
const ROUNDS: u16 = 5;

/// Texts from this length on are sent once.
const LONG: usize = 1 << 20;

/// What was measured.
pub struct Measured {
    /// Where.
    pub headline: String,
    /// What was to arrive of each sending.
    pub line: Vec<u8>,
    pub rounds: u16,
    pub ways: Vec<Way>,
    /// What others have published, and what the model takes for it.
    pub published: Vec<(Published, Nanos)>,
    /// Single writes, by ours and by others' drivers.
    pub beside: Vec<beside::Write>,
}

/// One way to send, over all rounds.
pub struct Way {
    pub job: Job,
    pub sent: Vec<Sent>,
    /// Where they are counted.
    pub exits: Vec<Exits>,
    /// What arrived: of the first sending that was not whole, else of the first.
    pub arrived: Vec<u8>,
    pub difference: Option<Difference>,
    pub whole: usize,
}

/// Measures every way to send `text` on `on`.
pub fn measure(
    on: &On,
    cpus: u16,
    qemu_args: &[OsString],
    (profile, fault): (Profile, Option<Planned>),
    text: &Text,
) -> Result<Measured> {
    let jobs: Vec<Job> = Job::ours().collect();
    let experiment = Experiment {
        jobs: &jobs,
        repeat: match on {
            On::Qemu { .. } if text.bytes.len() < LONG => ROUNDS,
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            On::Kvm(on) if text.bytes.len() < LONG => on.rounds(ROUNDS),
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            On::Kvm(_) => 1,
            On::Qemu { .. } => 1,
            // Virtual time is the same every time.
            On::Model => 1,
        },
        text: &text.bytes,
    };
    let line = experiment.on_the_line();
    let bar = Bar::new(line.len() as u64 * experiment.sendings().count() as u64);
    let progress = &mut |bytes| bar.at(bytes);
    let (outcome, headline) = match on {
        On::Qemu { qemu, kernel } => {
            let guest = Guest {
                qemu_args,
                ..Guest::new(kernel, cpus)
            };
            let (outcome, ran) = run(qemu, &guest, &experiment, progress)?;
            (outcome, on_qemu("uart", qemu, &table::cpus(cpus), &ran))
        }
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        On::Kvm(on) => {
            let guest = Guest::new(&on.kernel, cpus);
            let (outcome, ran) = run(&on.kvm, &guest, &experiment, progress)?;
            (outcome, on.headline(&ran))
        }
        On::Model => {
            let outcome = model::run(profile, fault, &experiment, progress)?;
            (outcome, on_model(&profile, fault))
        }
    };
    drop(bar);
    let rounds = experiment.repeat;
    let mut measured = Measured::new(headline, line, rounds, outcome);
    match on {
        On::Qemu { qemu, kernel } => {
            let guest = Guest {
                qemu_args,
                ..Guest::new(kernel, cpus)
            };
            measured.beside = beside::measure(ROUNDS, |experiment| {
                Ok(run(qemu, &guest, experiment, &mut |_| {})?.0)
            })?;
        }
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        On::Kvm(on) => {
            let guest = Guest::new(&on.kernel, cpus);
            measured.beside = beside::measure(on.rounds(ROUNDS), |experiment| {
                Ok(run(&on.kvm, &guest, experiment, &mut |_| {})?.0)
            })?;
        }
        On::Model if fault.is_none() => {
            measured.beside = beside::measure(1, |experiment| {
                Ok(model::run(profile, None, experiment, &mut |_| {})?)
            })?;
            measured.published = model::published(profile)?;
        }
        // The port as published, and as others use it, does not fail.
        On::Model => {}
    }
    Ok(measured)
}

fn on_model(profile: &Profile, fault: Option<Planned>) -> String {
    let fault = fault.map_or(String::new(), |planned| {
        format!(", {} after {} accesses", planned.fault, planned.after)
    });
    format!(
        "uart on model, profile {}{fault}, virtual time",
        profile.name
    )
}

impl Measured {
    fn new(headline: String, line: Vec<u8>, rounds: u16, outcome: Outcome) -> Self {
        let mut ways: Vec<Way> = Vec::new();
        let mut exits = outcome.exits.into_iter();
        for ((job, sent), arrived) in outcome.sent.into_iter().zip(outcome.arrived) {
            let difference = compare(&line, &arrived);
            let known = ways.iter().position(|way| way.job == job);
            let way = known.unwrap_or_else(|| {
                ways.push(Way {
                    job,
                    sent: Vec::new(),
                    exits: Vec::new(),
                    arrived: arrived.clone(),
                    difference: None,
                    whole: 0,
                });
                ways.len() - 1
            });
            let way = &mut ways[way];
            way.sent.push(sent);
            way.exits.extend(exits.next());
            if difference.is_none() {
                way.whole += 1;
            } else if way.difference.is_none() {
                way.difference = difference;
                way.arrived = arrived;
            }
        }
        Self {
            headline,
            line,
            rounds,
            ways,
            published: Vec::new(),
            beside: Vec::new(),
        }
    }

    /// The table for people.
    pub fn table(&self) -> String {
        let light = self
            .ways
            .iter()
            .any(|way| self.light_exits_per_byte(way).is_some());
        let counted = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.4}"));
        let mut table = Table::new();
        let mut header = vec!["strategy", "writes", "bytes", "instr/B", "bus/B", "exits/B"];
        header.extend(light.then_some("light/B"));
        header.extend(["time/B", "ratio", "stalled"]);
        table.set_header(header);
        for way in &self.ways {
            let mut row = vec![
                way.job.driver.name().to_owned(),
                way.job.writes.name().to_owned(),
                way.arrived.len().to_string(),
                format!("{:.4}", self.per_byte(way, |s| s.register_instructions)),
                format!("{:.4}", self.per_byte(way, |s| s.bus_accesses)),
                counted(self.exits_per_byte(way)),
            ];
            row.extend(light.then(|| counted(self.light_exits_per_byte(way))));
            row.extend([
                time(self.per_byte(way, |s| s.ns)),
                format!("{:.2}", self.ratio(way)),
                percent(self.stalled(way)),
            ]);
            table.add_row(row);
        }
        let mut legend = "\
            instr, bus, exits: register instructions, bus accesses, VM exits for each byte\n\
            sent (- where this machine cannot count them); ratio: time to the slowest's;\n\
            stalled: of the time, what a second task on the same CPU did not get."
            .to_owned();
        let exits = self
            .ways
            .iter()
            .any(|way| self.exits_per_byte(way).is_some());
        legend += match (exits, light) {
            (false, _) => "",
            (true, true) => {
                "\nexits are those to user space, by accesses to the port; light: those that\n\
                 the host's kernel dealt with by itself."
            }
            (true, false) => {
                "\nexits are those to user space, by accesses to the port; those that the\n\
                 host's kernel dealt with by itself are not known here."
            }
        };
        if exits {
            let of_all = self.ways.iter().flat_map(|way| &way.exits);
            let maps = of_all.fold(MapChanges::default(), |sum, exits| sum + exits.maps);
            legend += &match maps.count {
                0 => "\nmap changes while sending: none.".to_owned(),
                n => {
                    let took = time(maps.took.0 as f64);
                    format!("\nmap changes while sending: {n}, which took the host {took}.")
                }
            };
        }
        format!("{}\n\n{legend}", aligned(table, 2))
    }

    /// Published figures beside the model's, for people; empty without any.
    pub fn published(&self) -> Option<String> {
        if self.published.is_empty() {
            return None;
        }
        let mut table = Table::new();
        table.set_header(["strategy", "bytes", "published", "model", "ratio"]);
        for (published, ours) in &self.published {
            table.add_row([
                published.strategy.name().to_owned(),
                published.bytes.to_string(),
                time(published.time.0 as f64),
                time(ours.0 as f64),
                format!("{:.3}", ours.0 as f64 / published.time.0 as f64),
            ]);
        }
        let mut sources: Vec<_> = self.published.iter().map(|(p, _)| p.source).collect();
        sources.dedup();
        sources.sort_unstable();
        sources.dedup();
        Some(format!(
            "One write, as published for such a port and as the model has it, which was\n\
             fitted to these figures and proves nothing about that machine:\n\n{}\n\n\
             Published: {}",
            aligned(table, 1),
            sources.join(";\n           "),
        ))
    }

    /// Of the time of all its rounds, what a second task did not get.
    pub fn stalled(&self, way: &Way) -> f64 {
        self.per_byte(way, |s| s.stalled_ns) / self.per_byte(way, |s| s.ns).max(f64::MIN_POSITIVE)
    }

    /// The median over all rounds, for each byte that was to go over the line.
    pub fn per_byte(&self, way: &Way, value: impl Fn(&Sent) -> u64) -> f64 {
        median(way.sent.iter().map(value).collect()) as f64 / self.line.len() as f64
    }

    /// Exits to user space that were accesses to the port; `None` if not counted.
    pub fn exits_per_byte(&self, way: &Way) -> Option<f64> {
        self.counted_per_byte(way, |exits| Some(exits.uart))
    }

    /// Exits that the host's kernel dealt with by itself, likewise.
    pub fn light_exits_per_byte(&self, way: &Way) -> Option<f64> {
        self.counted_per_byte(way, Exits::light)
    }

    /// Writes to the port that the host's kernel collected, likewise.
    pub fn collected_per_byte(&self, way: &Way) -> Option<f64> {
        self.counted_per_byte(way, |exits| Some(exits.collected))
    }

    /// Changes of mapped memory during one sending, likewise.
    pub fn maps(&self, way: &Way) -> Option<MapChanges> {
        (!way.exits.is_empty()).then(|| MapChanges {
            count: median(way.exits.iter().map(|exits| exits.maps.count).collect()),
            took: Nanos(median(
                way.exits.iter().map(|exits| exits.maps.took.0).collect(),
            )),
        })
    }

    fn counted_per_byte(&self, way: &Way, value: impl Fn(&Exits) -> Option<u64>) -> Option<f64> {
        let values: Vec<u64> = way.exits.iter().filter_map(value).collect();
        (!values.is_empty()).then(|| median(values) as f64 / self.line.len() as f64)
    }

    /// A way's time to that of the slowest with the same writes.
    pub fn ratio(&self, way: &Way) -> f64 {
        let alike = self.ways.iter().filter(|w| w.job.writes == way.job.writes);
        let slowest = alike
            .map(|w| self.per_byte(w, |s| s.ns))
            .fold(f64::MIN_POSITIVE, f64::max);
        self.per_byte(way, |s| s.ns) / slowest
    }

    /// What to say if there are faults, in one line.
    pub fn failure(&self) -> Option<String> {
        let faults = self.faults();
        let first = faults.first()?;
        let (n, of) = (faults.len(), self.ways.len() + self.beside.len());
        Some(format!("{n} of {of} ways lost bytes: {first}"))
    }

    /// What did not arrive as it was to; empty if everything did.
    pub fn faults(&self) -> Vec<String> {
        let ways = self.ways.iter().filter_map(|w| self.fault(w));
        ways.chain(self.beside.iter().filter_map(beside::Write::fault))
            .collect()
    }

    fn fault(&self, way: &Way) -> Option<String> {
        let difference = way.difference?;
        let Job { driver, writes } = way.job;
        let mut fault = format!("{}, {}: {difference}", driver.name(), writes.name());
        let dropped: u64 = way.sent.iter().map(|sent| sent.dropped).sum();
        let stuck = way.sent.iter().any(|sent| sent.timed_out);
        fault += &match (dropped, stuck) {
            (0, false) => ", unnoticed by the driver (lost on the way; or the FIFO is shallower \
                 than it says: try a smaller transmit load)"
                .to_owned(),
            (0, true) => ": the port never said that it was done (reset it)".to_owned(),
            (n, true) => format!(
                ": {n} bytes given up on a port that was stuck or held off (check the other \
                 end's flow control, or reset the port)"
            ),
            (n, false) => format!(
                ": {n} bytes given up on a port that was gone (check its power and address)"
            ),
        };
        Some(fault)
    }

    /// What to say if there is no fault.
    pub fn success(&self) -> String {
        let sendings: usize = self.ways.iter().map(|way| way.whole).sum();
        format!(
            "Every byte arrived: {sendings} sendings of {} bytes.",
            self.line.len()
        )
    }

    /// For each strategy what arrived: a sending that was not whole, if there is
    /// one.
    pub fn captures(&self) -> BTreeMap<&'static str, &[u8]> {
        let mut captures = BTreeMap::new();
        for strategy in Strategy::ALL {
            let mut ways = self
                .ways
                .iter()
                .filter(|w| w.job.driver == Driver::Ours(strategy));
            let first = ways.clone().next();
            if let Some(way) = ways.find(|w| w.difference.is_some()).or(first) {
                captures.insert(strategy.name(), way.arrived.as_slice());
            }
        }
        captures
    }
}

impl Way {
    /// Bytes of a sending that arrived.
    pub fn bytes(&self) -> usize {
        self.arrived.len()
    }

    /// How many rounds its figures are medians of.
    pub fn rounds(&self) -> usize {
        self.sent.len()
    }

    /// What is put behind a metric's name: by-line figures are apart, for they
    /// hold the cost of every write.
    pub const fn suffix(&self) -> &'static str {
        match self.job.writes {
            Writes::Whole => "",
            Writes::Lines => "_by_line",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Job = Job {
        driver: Driver::Ours(Strategy::BytePolled),
        writes: Writes::Whole,
    };
    const LINES: Job = Job {
        driver: Driver::Ours(Strategy::FifoBurst),
        writes: Writes::Lines,
    };

    fn measured(arrived: &[u8]) -> Measured {
        let sent = Sent {
            written: 4,
            ns: 40,
            ..Sent::default()
        };
        let mut arrived = arrived.chunks(4).map(<[u8]>::to_vec);
        let outcome = Outcome {
            sent: [WHOLE, LINES, WHOLE, LINES].map(|job| (job, sent)).into(),
            arrived: (0..4).map(|_| arrived.next().unwrap_or_default()).collect(),
            exits: Vec::new(),
        };
        Measured::new(String::new(), b"abcd".to_vec(), 2, outcome)
    }

    #[test]
    fn the_table_says_which_exits_it_counts() {
        let mut measured = measured(b"abcdabcdabcdabcd");
        assert!(!measured.table().contains("user space"));
        let exits = Exits {
            port_writes: 4,
            uart: 4,
            ..Exits::default()
        };
        measured.ways[0].exits = vec![exits; 2];
        let table = measured.table();
        assert!(table.contains("are not known here"), "{table}");
        measured.ways[0].exits[0].hardware = Some(6);
        let table = measured.table();
        let header = table.lines().next().unwrap_or_default();
        assert!(header.contains("exits/B  light/B"), "{table}");
        assert!(table.contains("light: those that"), "{table}");
        assert!(
            table.ends_with("\nmap changes while sending: none."),
            "{table}"
        );
        measured.ways[0].exits[0].maps = MapChanges {
            count: 2,
            took: Nanos::from_micros(50),
        };
        let table = measured.table();
        let told = "\nmap changes while sending: 2, which took the host 50.0 us.";
        assert!(table.ends_with(told), "{table}");
        assert!(!table.contains("are not known here"), "{table}");
    }

    #[test]
    fn whole_is_whole() {
        let measured = measured(b"abcdabcdabcdabcd");
        assert!(measured.faults().is_empty());
        assert!(measured.success().contains("4 sendings of 4 bytes"));
        assert_eq!(measured.captures()["fifo-burst"], b"abcd");
    }

    #[test]
    fn a_byte_that_changed_is_found_and_captured() {
        let measured = measured(b"abcdabcdabcdabXd");
        let faults = measured.faults();
        assert_eq!(faults.len(), 1);
        let expected = "fifo-burst, lines: byte 2 is 0x58 where 0x63 was sent, unnoticed";
        assert!(faults[0].starts_with(expected), "{faults:?}");
        assert_eq!(measured.captures()["fifo-burst"], b"abXd");
    }

    #[test]
    fn bytes_that_are_missing_are_faults() {
        let failure = measured(b"abcdabcdabcdab").failure().unwrap();
        let expected = "1 of 2 ways lost bytes: fifo-burst, lines: only 2 of 4 bytes arrived";
        assert!(failure.starts_with(expected), "{failure}");
        assert_eq!(measured(b"abcdabcdabcdabcd").failure(), None);
        assert_eq!(measured(b"").faults().len(), 2);
    }
}
