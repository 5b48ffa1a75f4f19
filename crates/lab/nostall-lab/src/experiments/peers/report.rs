//! The report of a Linux that measures itself.
//!
//! The measuring module and the init program write lines to QEMU's debug console:
//!
//! ```text
//! nostall-peer 1 6.1.192
//! begin - bus_accesses_per_byte_of_a_2500_byte_write 1/B 2500
//! end
//! figure - ns_per_byte_of_a_2500_byte_write ns/B 2262500 2500
//! done
//! ```
//!
//! `figure` has a way (`-` if there is only one), a metric with its case, its unit, and the value as a
//! fraction. `begin` and `end` enclose work whose device accesses QEMU records in its trace; the
//! number of accesses is the numerator.

use nostall_figures::figure::write_of;

/// Longest report that is read. The longest seen has 10 kB.
pub const LONGEST: u64 = 1 << 20;

/// First words of a report, before Linux's release.
const HEADER: [&str; 2] = ["nostall-peer", "1"];

/// Longest release of a Linux.
const LONGEST_RELEASE: usize = 64;

/// Units of figures.
const UNITS: [&str; 5] = ["ns", "ns/B", "1", "1/B", "B"];

/// Ways to do the same thing in one Linux. They are the figures' profiles.
const WAYS: [&str; 12] = [
    "ports",
    "ecam",
    "untraced",
    "untraced-3cpu",
    "ecc-0",
    "ecc-0-3cpu",
    "ecc-16",
    "ecc-16-3cpu",
    "printed",
    "hidden",
    "sertest",
    "tty",
];

/// A whole report.
#[derive(Debug)]
pub struct Report {
    /// Release of Linux.
    pub release: String,
    pub measured: Vec<Measured>,
}

/// One value that Linux measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub key: Key,
    pub value: f64,
}

impl Measured {
    /// Names a time of a machine whose instructions take a nanosecond each as their number.
    pub fn count_instructions(&mut self) {
        let Key { metric, unit, .. } = &mut self.key;
        *metric = metric.replace("ns", "instructions");
        *unit = "1".to_owned();
    }
}

/// Name of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    pub way: Option<String>,
    pub metric: String,
    pub case: Option<String>,
    pub unit: String,
}

/// A line of a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// The first line, with Linux's release.
    Header(String),
    Figure(Measured),
    Begin {
        key: Key,
        per: f64,
    },
    End,
    Done,
}

impl Line {
    /// Reads a line, or returns `None` if it is malformed.
    pub fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        Some(match words[..] {
            [first, version, release] if [first, version] == HEADER => {
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-~".contains(c);
                let is_release =
                    (1..=LONGEST_RELEASE).contains(&release.len()) && release.chars().all(is_plain);
                Self::Header(is_release.then(|| release.to_owned())?)
            }
            ["figure", way, metric, unit, value, per] => Self::Figure(Measured {
                key: Key::parse(way, metric, unit)?,
                value: value.parse::<u64>().ok()? as f64 / divisor(per)?,
            }),
            ["begin", way, metric, unit, per] => Self::Begin {
                key: Key::parse(way, metric, unit)?,
                per: divisor(per)?,
            },
            ["end"] => Self::End,
            ["done"] => Self::Done,
            _ => return None,
        })
    }
}

fn divisor(word: &str) -> Option<f64> {
    word.parse::<u64>()
        .ok()
        .filter(|&per| per > 0)
        .map(|per| per as f64)
}

impl Key {
    fn parse(way: &str, metric: &str, unit: &str) -> Option<Self> {
        let known = |all: &[&'static str], word| all.iter().copied().find(|one| *one == word);
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_metric = (1..=64).contains(&metric.len()) && metric.chars().all(is_name);
        let size = metric.strip_suffix("_byte_write");
        let (metric, case) = match size.and_then(|name| name.split_once("_of_a_")) {
            Some((metric, bytes)) => (metric, Some(write_of(bytes))),
            None => (metric, None),
        };
        Some(Self {
            way: match way {
                "-" => None,
                way => Some(known(&WAYS, way)?.to_owned()),
            },
            metric: is_metric.then(|| metric.to_owned())?,
            case,
            unit: known(&UNITS, unit)?.to_owned(),
        })
    }

    /// Returns the metric and the case.
    pub fn name(&self) -> (String, Option<String>) {
        (self.metric.clone(), self.case.clone())
    }
}

/// Reads a whole report, or returns the reason why it is none.
pub fn parse(report: &[u8]) -> Result<Report, String> {
    let text = String::from_utf8_lossy(report);
    let mut lines = text.lines().map(|line| (line, Line::parse(line)));
    let release = match lines.next() {
        None => return Err("it ended without a report".to_owned()),
        Some((_, Some(Line::Header(release)))) => release,
        Some((line, _)) => return Err(format!("its report begins with {}", shown(line))),
    };
    let mut measured = Vec::new();
    for (line, parsed) in lines {
        match parsed {
            Some(Line::Figure(figure)) => measured.push(figure),
            Some(Line::Begin { .. } | Line::End) => {}
            Some(Line::Done) => return Ok(Report { release, measured }),
            Some(Line::Header(_)) | None => {
                return Err(format!("its report has the line {}", shown(line)));
            }
        }
    }
    Err("its report ends before the measurements do".to_owned())
}

/// Quotes the beginning of a line for an error.
fn shown(line: &str) -> String {
    let start: String = line.chars().take(60).collect();
    format!("{start:?}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WHOLE: &str = "nostall-peer 1 6.1.192\n\
        begin - bus_accesses_per_byte_of_a_9_byte_write 1/B 9\n\
        end\n\
        figure - ns_per_byte_of_a_9_byte_write ns/B 90 9\n\
        figure ecam ns_per_read ns 700 2\n\
        done\n";

    #[test]
    fn a_whole_report_gives_its_figures() {
        let all = parse(WHOLE.as_bytes()).unwrap();
        assert_eq!(all.release, "6.1.192");
        let values: Vec<_> = all
            .measured
            .iter()
            .map(|one| (one.key.way.as_deref(), one.value))
            .collect();
        assert_eq!(values, [(None, 10.0), (Some("ecam"), 350.0)]);
    }

    #[test]
    fn a_truncated_report_is_refused_wherever_it_is_cut() {
        // Without the last line's end, the report is whole.
        for len in 0..WHOLE.len() - 1 {
            assert!(parse(&WHOLE.as_bytes()[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn a_hostile_report_is_refused_with_the_line() {
        let refused = |line: &str| parse(format!("nostall-peer 1 x\n{line}\ndone\n").as_bytes());
        for line in [
            "figure - ns_per_read ns 1 0",
            "figure - ns_per_read ns -1 1",
            "figure - ns_per_read furlongs 1 1",
            "figure sideways ns_per_read ns 1 1",
            "figure - Ns<script> ns 1 1",
            "figure - ns_per_read ns 99999999999999999999999 1",
            "figure - ns_per_read ns 1",
            "nostall-peer 1 x",
            "",
            "\u{1b}[2J",
        ] {
            let error = refused(line).unwrap_err();
            assert!(error.starts_with("its report has the line \""), "{error}");
            assert!(!error.contains('\u{1b}'), "{error}");
        }
        let metric = format!("figure - {} ns 1 1", "a".repeat(65));
        assert!(refused(&metric).is_err());
        for header in [
            "nostall-peer 2 x".to_owned(),
            "nostall-peer 1 <b>".to_owned(),
            "nostall-peer 1 ".to_owned(),
            format!("nostall-peer 1 {}", "6".repeat(65)),
        ] {
            let error = parse(format!("{header}\ndone\n").as_bytes()).unwrap_err();
            assert_eq!(error, format!("its report begins with {}", shown(&header)));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_report_or_an_error(bytes: Vec<u8>, at in 0..WHOLE.len()) {
            let _ = parse(&bytes);
            let mut report = WHOLE.as_bytes().to_vec();
            report.splice(at..at, bytes);
            let values = parse(&report).map(|report| report.measured);
            prop_assert!(values.unwrap_or_default().iter().all(|one| one.value.is_finite()));
        }
    }
}
