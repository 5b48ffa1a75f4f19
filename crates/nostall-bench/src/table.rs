//! A table whose rows are measured in turn, round by round, so that whatever else
//! the machine does meanwhile is done to all of them.
//!
//! Our own, because criterion and divan measure one row after the other, minutes
//! apart, and know no ratios between them.

use std::fmt;
use std::time::{Duration, Instant};

/// How long to measure.
#[derive(Clone, Copy)]
pub struct Effort {
    rounds: usize,
    /// How long a row is run in a round, about: less than what a busy system lets a
    /// thread run at once.
    round: Duration,
}

impl Effort {
    /// For figures.
    pub const FULL: Self = Self {
        rounds: 201,
        round: Duration::from_millis(1),
    };

    /// To see that it runs at all.
    pub const TEST: Self = Self {
        rounds: 1,
        round: Duration::ZERO,
    };

    /// As the program's arguments say: in full with `--bench`, which cargo gives, unless
    /// `--test` is there, too.
    pub fn of(arguments: &[String]) -> Self {
        let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
        match has("--bench") && !has("--test") {
            true => Self::FULL,
            false => Self::TEST,
        }
    }

    /// Whether there is no time for figures.
    pub fn is_test(self) -> bool {
        self.rounds == 1
    }

    /// The same with so many rounds: for rows that cannot be short.
    pub fn rounds(self, rounds: usize) -> Self {
        Self {
            rounds: rounds.min(self.rounds),
            ..self
        }
    }
}

/// What a row is measured in.
#[derive(Clone, Copy)]
pub enum Unit {
    /// Of what is done once: a record.
    Nanoseconds,
    /// Of so many bytes that are gone through at once.
    MegabytesPerSecond(usize),
    /// Of what is done once: a search.
    Seconds,
}

impl Unit {
    /// Of what took so long each.
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

/// What is demanded of a row.
#[derive(Clone, Copy)]
pub enum Limit {
    /// Of its value.
    AtMost(f64),
    /// Of its value.
    AtLeast(f64),
    /// Of its ratio to the first row.
    RatioAtMost(f64),
    /// Of its ratio to the first row.
    RatioAtLeast(f64),
}

impl Limit {
    /// The limit in words, and whether it is met.
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

/// Does something so many times, and says how long that took.
type Run<'a> = Box<dyn FnMut(u64) -> Duration + 'a>;

/// Rows to be compared; the first is what the others are compared to.
pub struct Table<'a> {
    title: String,
    unit: Unit,
    rows: Vec<(String, Run<'a>, Option<Limit>)>,
}

impl<'a> Table<'a> {
    /// Without rows yet.
    pub fn new(title: impl Into<String>, unit: Unit) -> Self {
        Self {
            title: title.into(),
            unit,
            rows: Vec::new(),
        }
    }

    /// A row that times itself.
    pub fn timed(
        &mut self,
        name: impl Into<String>,
        limit: impl Into<Option<Limit>>,
        run: impl FnMut(u64) -> Duration + 'a,
    ) {
        self.rows.push((name.into(), Box::new(run), limit.into()));
    }

    /// A row whose `run`, told how often, is timed.
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

    /// The rows' quartiles.
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

    /// Measures, and prints.
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

/// How often `run` is done in `round`. What it takes to find out warms up, too.
fn fitting(run: &mut Run<'_>, round: Duration) -> u64 {
    let mut times = 1;
    loop {
        // The shortest of a few: others' time slices are not the row's.
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
