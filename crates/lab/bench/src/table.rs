//! A table whose rows are measured in turn, round by round. Other load on the machine thus affects
//! all rows equally.
//!
//! criterion and divan measure one row after the other, minutes apart, and print no ratios between
//! rows. This module therefore replaces them.

use std::fmt;
use std::time::{Duration, Instant};

/// Duration of a measurement.
#[derive(Clone, Copy)]
pub struct Effort {
    rounds: usize,
    /// Approximate time per row and round. It is less than a busy system's time slice.
    round: Duration,
}

impl Effort {
    /// Effort for figures.
    pub const FULL: Self = Self {
        rounds: 201,
        round: Duration::from_millis(1),
    };

    /// Effort that only shows that the rows run.
    pub const TEST: Self = Self {
        rounds: 1,
        round: Duration::ZERO,
    };

    /// Returns the effort for the program's arguments: full with `--bench`, which cargo passes,
    /// unless `--test` is also given.
    pub fn of(arguments: &[String]) -> Self {
        let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
        match has("--bench") && !has("--test") {
            true => Self::FULL,
            false => Self::TEST,
        }
    }

    /// Returns whether this effort is too short for figures.
    pub fn is_test(self) -> bool {
        self.rounds == 1
    }

    /// Returns the same effort with `rounds` rounds, for rows that cannot be short.
    pub fn rounds(self, rounds: usize) -> Self {
        Self {
            rounds: rounds.min(self.rounds),
            ..self
        }
    }
}

/// The unit of a row's figures.
#[derive(Clone, Copy)]
pub enum Unit {
    /// Time for one act, such as a record.
    Nanoseconds,
    /// Throughput of acts of this many bytes each.
    MegabytesPerSecond(usize),
    /// Time for one long act, such as a search.
    Seconds,
}

impl Unit {
    /// Converts the duration of one act to this unit.
    pub fn of(self, nanoseconds: f64) -> f64 {
        match self {
            Self::Nanoseconds => nanoseconds,
            Self::MegabytesPerSecond(bytes) => bytes as f64 * 1e3 / nanoseconds,
            Self::Seconds => nanoseconds / 1e9,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nanoseconds => "ns",
            Self::MegabytesPerSecond(_) => "MB/s",
            Self::Seconds => "s",
        })
    }
}

/// A limit for a row.
#[derive(Clone, Copy)]
pub enum Limit {
    /// Highest value.
    AtMost(f64),
    /// Lowest value.
    AtLeast(f64),
    /// Highest ratio to the first row.
    RatioAtMost(f64),
    /// Lowest ratio to the first row.
    RatioAtLeast(f64),
}

impl Limit {
    /// Returns the limit as text, and whether it is met.
    pub fn verdict(self, value: f64, ratio: f64) -> String {
        let (met, sign, limit, of) = match self {
            Self::AtMost(limit) => (value <= limit, "<=", limit, ""),
            Self::AtLeast(limit) => (value >= limit, ">=", limit, ""),
            Self::RatioAtMost(limit) => (ratio <= limit, "<=", limit, "ratio "),
            Self::RatioAtLeast(limit) => (ratio >= limit, ">=", limit, "ratio "),
        };
        let met = if met { "met" } else { "NOT met" };
        format!("limit: {of}{sign} {limit}, {met}")
    }
}

/// Function that repeats an act a given number of times, and returns the duration.
type Run<'a> = Box<dyn FnMut(u64) -> Duration + 'a>;

/// Rows to be compared with the first one.
pub struct Table<'a> {
    title: String,
    unit: Unit,
    rows: Vec<(String, Run<'a>, Option<Limit>)>,
}

impl<'a> Table<'a> {
    /// Returns a table without rows.
    pub fn new(title: impl Into<String>, unit: Unit) -> Self {
        Self {
            title: title.into(),
            unit,
            rows: Vec::new(),
        }
    }

    /// Adds a row that measures its own time.
    pub fn timed(
        &mut self,
        name: impl Into<String>,
        limit: impl Into<Option<Limit>>,
        run: impl FnMut(u64) -> Duration + 'a,
    ) {
        self.rows.push((name.into(), Box::new(run), limit.into()));
    }

    /// Adds a row. `run` receives the number of repetitions, and its duration is measured.
    pub fn row(
        &mut self,
        name: impl Into<String>,
        limit: impl Into<Option<Limit>>,
        mut run: impl FnMut(u64) + 'a,
    ) {
        self.timed(name, limit, move |times| {
            let start = Instant::now();
            run(times);
            start.elapsed()
        });
    }

    /// Returns the quartiles of each row.
    pub fn measure(&mut self, effort: Effort) -> Vec<[f64; 3]> {
        let times: Vec<u64> = self
            .rows
            .iter_mut()
            .map(|(_, run, _)| fitting(run, effort.round))
            .collect();
        let mut values = vec![Vec::new(); self.rows.len()];
        for _ in 0..effort.rounds {
            for (((_, run, _), times), values) in self.rows.iter_mut().zip(&times).zip(&mut values)
            {
                let nanoseconds = run(*times).as_nanos() as f64 / *times as f64;
                values.push(self.unit.of(nanoseconds));
            }
        }
        values.into_iter().map(quartiles).collect()
    }

    /// Measures the rows, and prints the table.
    pub fn print(mut self, effort: Effort) {
        let measured = self.measure(effort);
        let first = measured[0][1];
        println!("\n{}", self.title);
        println!(
            "  {:56} {:>9} {:>19} {:>7}",
            "", self.unit, "quartiles", "ratio"
        );
        for ((name, _, limit), [low, median, high]) in self.rows.iter().zip(measured) {
            let ratio = median / first;
            let verdict = limit.map_or(String::new(), |limit| limit.verdict(median, ratio));
            let spread = format!("{low:.2}..{high:.2}");
            let line = format!("  {name:56} {median:9.2} {spread:>19} {ratio:7.2}  {verdict}");
            println!("{}", line.trim_end());
        }
    }
}

/// Returns the number of repetitions of `run` that fit into `round`. Finding it also warms up.
fn fitting(run: &mut Run<'_>, round: Duration) -> u64 {
    let mut times = 1;
    loop {
        // The shortest of a few tries excludes other programs' time slices.
        let tries = if round.is_zero() { 1 } else { 5 };
        let taken = (0..tries).map(|_| run(times)).min().unwrap_or_default();
        if taken >= round / 2 {
            let fits = round.as_nanos() as f64 / taken.as_nanos().max(1) as f64;
            return ((times as f64 * fits) as u64).max(1);
        }
        times *= 2;
    }
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_unstable_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[values.len() * quarter / 4])
}
