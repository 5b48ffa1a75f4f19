//! How sendings become figures, findings and captures.

use std::collections::BTreeMap;

use nostall_devices::uart::Profile;
use nostall_io::Nanos;
use nostall_vm::{Exits, MapChanges};
use nostall_work::uart::{Driver, Job, Sent, Writes};

use super::metrics;
use super::run::Sending;
use crate::experiments::verdict::{Difference, compare, group};
use nostall_figures::figure::{BY_LINE, Figures, Goal, write_of};
use nostall_figures::numbers::median;

/// Everything that the sendings came to.
#[derive(Debug)]
pub struct Summary {
    pub figures: Figures,
    /// Sendings that did not arrive as they were sent, each in a line.
    pub faults: Vec<String>,
    /// Bytes that arrived, by strategy: those of the first faulty sending, if there is one.
    pub captures: BTreeMap<&'static str, Vec<u8>>,
    /// Changes of mapped memory during all sendings.
    pub maps: MapChanges,
}

/// Returns the case of figures of such writes.
pub const fn case(writes: Writes) -> Option<&'static str> {
    match writes {
        Writes::Whole => None,
        Writes::Lines => Some(BY_LINE),
    }
}

impl Summary {
    pub const fn new(on: &'static str) -> Self {
        Self {
            figures: Figures::new("uart", on),
            faults: Vec::new(),
            captures: BTreeMap::new(),
            maps: MapChanges {
                count: 0,
                took: Nanos::ZERO,
            },
        }
    }

    /// Adds sendings of a text, of which `line` should arrive.
    pub fn add(&mut self, line: &[u8], sendings: Vec<Sending>) {
        let len = line.len() as f64;
        let ways = group(sendings.into_iter().map(|sending| (sending.job, sending)));
        let time = |sendings: &[Sending]| {
            median(sendings.iter().map(|sending| sending.sent.ns).collect()) as f64 / len
        };
        let times: Vec<_> = ways.iter().map(|(job, all)| (*job, time(all))).collect();
        for (job, sendings) in &ways {
            let alike = times.iter().filter(|(other, _)| other.writes == job.writes);
            let slowest = alike.fold(f64::MIN_POSITIVE, |slowest, (_, ns)| slowest.max(*ns));
            let differs = |sending: &&Sending| compare(line, &sending.arrived).is_some();
            let faulty = sendings.iter().find(differs);
            let shown = faulty.unwrap_or(&sendings[0]);
            let lengths = sendings.iter().map(|one| one.arrived.len() as f64);
            let strategy = job.driver.name();

            let mut record = self.figures.record(strategy);
            record = record.of_case(case(job.writes).map(str::to_owned));
            let bytes = record.value_of(metrics::BYTES, shown.arrived.len() as f64, lengths);
            bytes.map(|bytes| bytes.missed(Goal::Exactly(len)));
            let sent = |value: fn(&Sent) -> u64| sendings.iter().map(move |one| value(&one.sent));
            let instructions = sent(|sent| sent.register_instructions);
            record.median(metrics::REGISTER_INSTRUCTIONS_PER_BYTE, instructions, len);
            let accesses = sent(|sent| sent.bus_accesses);
            record.median(metrics::BUS_ACCESSES_PER_BYTE, accesses, len);
            record.median(metrics::NS_PER_BYTE, sent(|sent| sent.ns), len);
            let stalled = sent(|sent| sent.stalled_ns);
            record.median(metrics::STALLED_NS_PER_BYTE, stalled, len);
            let ratios = sent(|sent| sent.ns).map(|ns| ns as f64 / len / slowest);
            let ratio = time(sendings) / slowest;
            record.value_of(metrics::TIME_RATIO_TO_SLOWEST, ratio, ratios);
            // A machine that cannot count exits has none of these.
            let exits = |value: fn(&Exits) -> Option<u64>| {
                let exits = sendings.iter().filter_map(|sending| sending.exits.as_ref());
                exits.filter_map(value)
            };
            record.median(metrics::EXITS_PER_BYTE, exits(|e| Some(e.uart)), len);
            record.median(metrics::LIGHT_EXITS_PER_BYTE, exits(Exits::light), len);
            let collected = exits(|exits| Some(exits.collected));
            record.median(metrics::COLLECTED_WRITES_PER_BYTE, collected, len);
            record.median(metrics::MAP_CHANGES, exits(|e| Some(e.maps.count)), 1.0);
            record.median(metrics::MAP_CHANGE_NS, exits(|e| Some(e.maps.took.0)), 1.0);

            let exits = sendings.iter().filter_map(|sending| sending.exits);
            self.maps = exits.fold(self.maps, |sum, exits| sum + exits.maps);
            let captured = self.captures.entry(strategy);
            let captured = captured.or_insert_with(|| shown.arrived.clone());
            if let Some(difference) = compare(line, &shown.arrived) {
                if compare(line, captured).is_none() {
                    captured.clone_from(&shown.arrived);
                }
                self.faults.push(fault(*job, sendings, difference));
            }
        }
    }

    /// Adds sendings of `text` as one write.
    pub fn add_single_writes(&mut self, text: &[u8], sendings: Vec<Sending>) {
        let len = text.len() as f64;
        for (job, sendings) in group(sendings.into_iter().map(|one| (one.job, one))) {
            let driver = job.driver.name();
            let mut record = self
                .figures
                .record(driver)
                .of_case(Some(write_of(text.len())));
            let accesses = sendings.iter().map(|one| one.sent.bus_accesses);
            record.median(metrics::BUS_ACCESSES_PER_BYTE, accesses, len);
            let ns = sendings.iter().map(|one| one.sent.ns);
            record.median(metrics::NS_PER_BYTE, ns, len);
            if sendings
                .iter()
                .any(|one| compare(text, &one.arrived).is_some())
            {
                let fault = format!("{driver}, one write of {len} bytes: not all arrived");
                self.faults.push(fault);
            }
        }
    }

    /// Adds the times of sendings of `text` as one write, under the names of those of the test
    /// program of Linux's fix. System time is the time that a second task did not get.
    pub fn add_program(&mut self, driver: &'static str, text: &[u8], sendings: &[Sending]) {
        let mut record = self
            .figures
            .record(driver)
            .of_case(Some(write_of(text.len())));
        let ns = sendings.iter().map(|one| one.sent.ns);
        record.median(metrics::NS, ns, 1.0);
        let stalled = sendings.iter().map(|one| one.sent.stalled_ns);
        record.median(metrics::SYSTEM_NS, stalled, 1.0);
    }

    /// Adds the model's times for the writes that were published for such a port.
    pub fn add_published(&mut self, profile: &Profile, sendings: &[Sending]) {
        for (published, sending) in profile.published.iter().zip(sendings) {
            let record = self.figures.record(published.strategy.name());
            let mut record = record
                .on_port(profile.name)
                .of_case(Some(write_of(published.bytes)));
            record.value(metrics::NS, sending.sent.ns as f64);
        }
    }

    /// The faults in one line, if there are any.
    pub fn failure(&self) -> Option<String> {
        let first = self.faults.first()?;
        let times = self.figures.iter();
        let of = times
            .filter(|figure| figure.metric == metrics::NS_PER_BYTE.name)
            .count();
        Some(format!(
            "{} of {of} ways lost bytes: {first}",
            self.faults.len()
        ))
    }
}

fn fault(job: Job, sendings: &[Sending], difference: Difference) -> String {
    let Job { driver, writes } = job;
    let dropped: u64 = sendings.iter().map(|one| one.sent.dropped).sum();
    let stuck = sendings.iter().any(|one| one.sent.timed_out);
    let why = match (dropped, stuck) {
        (0, false) => ", unnoticed by the driver (lost on the way; or the FIFO is shallower \
             than it says: try a smaller transmit load)"
            .to_owned(),
        (0, true) => ": the port never said that it was done (reset it)".to_owned(),
        (n, true) => format!(
            ": {n} bytes given up on a port that was stuck or held off (check the other \
             end's flow control, or reset the port)"
        ),
        (n, false) => {
            format!(": {n} bytes given up on a port that was gone (check its power and address)")
        }
    };
    format!("{}, {}: {difference}{why}", driver.name(), writes.name())
}

/// The drivers of single writes. The peer's needs a 16550.
pub fn single_writes(has_16550: bool) -> Vec<Job> {
    let writes = Writes::Whole;
    Driver::all()
        .filter(|&driver| has_16550 || driver != Driver::Uart16550)
        .map(|driver| Job { driver, writes })
        .collect()
}

#[cfg(test)]
mod tests {
    use nostall_uart::Strategy;

    use super::super::table;
    use super::*;

    const WHOLE: Job = Job {
        driver: Driver::Ours(Strategy::BytePolled),
        writes: Writes::Whole,
    };
    const LINES: Job = Job {
        driver: Driver::Ours(Strategy::FifoBurst),
        writes: Writes::Lines,
    };

    /// Two rounds of two sendings of `abcd`.
    fn sendings(arrived: &[u8]) -> Vec<Sending> {
        let mut arrived = arrived.chunks(4).map(<[u8]>::to_vec);
        let sending = |job| Sending {
            job,
            sent: Sent {
                written: 4,
                ns: 40,
                ..Sent::default()
            },
            exits: None,
            arrived: arrived.next().unwrap_or_default(),
        };
        [WHOLE, LINES, WHOLE, LINES].map(sending).into()
    }

    fn fold(sendings: Vec<Sending>) -> Summary {
        let mut summary = Summary::new("model");
        summary.add(b"abcd", sendings);
        summary
    }

    #[test]
    fn the_table_says_which_exits_it_counts() {
        let mut sendings = sendings(b"abcdabcdabcdabcd");
        let table = |sendings: &[Sending]| table::table(&fold(sendings.to_vec()));
        assert!(!table(&sendings).contains("user space"));
        let exits = Exits {
            port_writes: 4,
            uart: 4,
            ..Exits::default()
        };
        for n in [0, 2] {
            sendings[n].exits = Some(exits);
        }
        let text = table(&sendings);
        assert!(text.contains("are not known here"), "{text}");
        sendings[0].exits.as_mut().unwrap().hardware = Some(6);
        let text = table(&sendings);
        let header = text.lines().next().unwrap_or_default();
        assert!(header.contains("exits/B  light/B"), "{text}");
        assert!(text.contains("light: those that"), "{text}");
        assert!(
            text.ends_with("\nmap changes while sending: none."),
            "{text}"
        );
        sendings[0].exits.as_mut().unwrap().maps = MapChanges {
            count: 2,
            took: Nanos::from_micros(50),
        };
        let text = table(&sendings);
        let result = "\nmap changes while sending: 2, which took the host 50.0 us.";
        assert!(text.ends_with(result), "{text}");
        assert!(!text.contains("are not known here"), "{text}");
    }

    #[test]
    fn a_figure_of_several_rounds_has_their_smallest_and_largest_value() {
        let mut sendings = sendings(b"abcdabcdabcdabcd");
        sendings[2].sent.ns = 80;
        let summary = fold(sendings);
        let ns = summary
            .figures
            .row("byte-polled")
            .figure(metrics::NS_PER_BYTE)
            .unwrap();
        assert_eq!((ns.n, ns.value), (2, 10.0));
        assert_eq!((ns.low, ns.high), (Some(10.0), Some(20.0)));
    }

    #[test]
    fn whole_is_whole() {
        let summary = fold(sendings(b"abcdabcdabcdabcd"));
        assert!(summary.faults.is_empty());
        assert!(table::success(&summary, 4).contains("4 sendings of 4 bytes"));
        assert_eq!(summary.captures["fifo-burst"], b"abcd");
    }

    #[test]
    fn a_byte_that_changed_is_found_and_captured() {
        let summary = fold(sendings(b"abcdabcdabcdabXd"));
        assert_eq!(summary.faults.len(), 1);
        let expected = "fifo-burst, lines: byte 2 is 0x58 where 0x63 was sent, unnoticed";
        assert!(summary.faults[0].starts_with(expected), "{summary:?}");
        assert_eq!(summary.captures["fifo-burst"], b"abXd");
    }

    #[test]
    fn the_first_faulty_sending_of_a_strategy_is_captured() {
        let mut sendings = sendings(b"abXdabYd");
        for sending in &mut sendings {
            sending.job.driver = WHOLE.driver;
        }
        let summary = fold(sendings);
        assert_eq!(summary.faults.len(), 2);
        assert_eq!(summary.captures["byte-polled"], b"abXd");
    }

    #[test]
    fn bytes_that_are_missing_are_faults() {
        let failure = |arrived| fold(sendings(arrived)).failure();
        let expected = "1 of 2 ways lost bytes: fifo-burst, lines: only 2 of 4 bytes arrived";
        let result = failure(b"abcdabcdabcdab").unwrap();
        assert!(result.starts_with(expected), "{result}");
        assert_eq!(failure(b"abcdabcdabcdabcd"), None);
        assert!(failure(b"").unwrap().starts_with("2 of 2 ways"));
    }
}
