//! Calls, bytes and throughput per interval.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::number::count;
use super::{Look, Selection};
use crate::graph::{Slice, Step};
use crate::model::{Catalog, EventKind, Name};

/// Maximum number of CPUs with separate figures. CPUs with this and higher numbers share one more.
const MOST_CPUS: u32 = 1024;

/// Maximum number of counters with separate figures.
const MOST_COUNTERS: usize = 256;

/// Rates in intervals of equal length.
///
/// A function's argument counts as its number of bytes, as in `uart_console_write(port, text,
/// count)`.
#[derive(Debug)]
pub struct Rate {
    selection: Selection,
    length: u64,
    /// Start of the current interval.
    start: Option<u64>,
    now: u64,
    current: Sums,
    counters: BTreeMap<Name, i64>,
}

#[derive(Debug, Default)]
struct Sums {
    calls: u64,
    bytes: u64,
    cpus: BTreeMap<u32, Cpu>,
    counters: BTreeMap<Name, i64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    calls: u64,
    bytes: u64,
    time: u64,
}

/// Rates of one interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Start time in the source's unit. The first interval starts with the first event.
    pub start: u64,
    /// Length of the interval in the source's unit. The last one may be shorter.
    pub length: u64,
    /// Number of calls.
    pub calls: u64,
    /// Sum of their arguments.
    pub bytes: u64,
    /// Throughput inside the calls, by CPU.
    pub cpus: Vec<CpuRate>,
    /// Counters that were sampled.
    pub counters: Vec<CounterRate>,
}

/// Calls on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CpuRate {
    /// Number of the CPU.
    pub cpu: u32,
    /// Number of calls that ended.
    pub calls: u64,
    /// Sum of the arguments of the calls that have an argument and a duration.
    pub bytes: u64,
    /// Sum of the durations of the same calls.
    pub time: u64,
}

/// Increments of a counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CounterRate {
    /// Counter's name.
    pub counter: String,
    /// Sum of the increments. A counter's first sample counts as 0.
    pub increase: i64,
}

impl Rate {
    /// Creates rates for the functions and CPUs in `selection`, in intervals of `length`.
    pub fn new(selection: Selection, length: u64) -> Self {
        Self {
            selection,
            length: length.max(1),
            start: None,
            now: 0,
            current: Sums::default(),
            counters: BTreeMap::new(),
        }
    }

    /// Processes a step. Returns the previous interval if it has ended.
    ///
    /// A call counts when it ends. Intervals without events are omitted.
    pub fn push(&mut self, step: &Step, catalog: &Catalog) -> Option<Interval> {
        let time = match step {
            Step::Enter(entry) => entry.time,
            Step::Leave(slice) => slice.end.or(slice.start)?,
            Step::Event(event) => event.time,
        };
        let ended = self.advance(time, catalog);
        match step {
            Step::Enter(_) => {}
            Step::Leave(slice) => self.slice(slice, catalog),
            Step::Event(event) => match event.kind {
                EventKind::Call { function, .. } => self.call(event.cpu, function, catalog),
                EventKind::Counter { counter, value } => self.sample(counter, value),
                _ => {}
            },
        }
        ended
    }

    /// Returns the last interval.
    pub fn finish(&mut self, catalog: &Catalog) -> Option<Interval> {
        let start = self.start.take()?;
        let length = (self.now - start) % self.length;
        Some(self.interval(start, length.max(1), catalog))
    }

    /// Returns the rates since the last call, as for an interval of `length`. It is for a trace
    /// that is being recorded.
    pub fn take(&mut self, length: u64, catalog: &Catalog) -> Interval {
        let start = self.start.replace(self.now).unwrap_or(self.now);
        self.interval(start, length.max(1), catalog)
    }

    /// Starts a new interval if `time` is after the current one.
    fn advance(&mut self, time: u64, catalog: &Catalog) -> Option<Interval> {
        let origin = *self.start.get_or_insert(time);
        // A clock that steps back does not reopen an interval.
        self.now = self.now.max(time);
        let start = origin;
        if self.now - start < self.length {
            return None;
        }
        let passed = (self.now - start) / self.length;
        self.start = Some(start + passed * self.length);
        Some(self.interval(start, self.length, catalog))
    }

    fn interval(&mut self, start: u64, length: u64, catalog: &Catalog) -> Interval {
        let sums = std::mem::take(&mut self.current);
        let cpus = sums.cpus.into_iter().map(|(cpu, sums)| CpuRate {
            cpu,
            calls: sums.calls,
            bytes: sums.bytes,
            time: sums.time,
        });
        let counters = sums.counters.into_iter();
        let counters = counters.map(|(counter, increase)| CounterRate {
            counter: catalog.text(counter).to_owned(),
            increase,
        });
        Interval {
            start,
            length,
            calls: sums.calls,
            bytes: sums.bytes,
            cpus: cpus.collect(),
            counters: counters.collect(),
        }
    }

    fn slice(&mut self, slice: &Slice, catalog: &Catalog) {
        let Some(function) = slice.function else {
            return;
        };
        // A call without an exit has not ended.
        if slice.end.is_none() {
            return;
        }
        if let Some(cpu) = self.chosen(slice.last_cpu, function, catalog) {
            let bytes = slice.argument.unwrap_or(0);
            cpu.calls += 1;
            if let (Some(duration), Some(bytes)) = (slice.duration, slice.argument) {
                cpu.bytes = cpu.bytes.saturating_add(bytes);
                cpu.time = cpu.time.saturating_add(duration);
            }
            self.current.calls += 1;
            self.current.bytes = self.current.bytes.saturating_add(bytes);
        }
    }

    fn call(&mut self, cpu: u32, function: Name, catalog: &Catalog) {
        if let Some(cpu) = self.chosen(cpu, function, catalog) {
            cpu.calls += 1;
            self.current.calls += 1;
        }
    }

    fn chosen(&mut self, cpu: u32, function: Name, catalog: &Catalog) -> Option<&mut Cpu> {
        let is_chosen = self.selection.cpu(cpu) && self.selection.function(function, catalog);
        is_chosen.then(|| self.current.cpus.entry(cpu.min(MOST_CPUS)).or_default())
    }

    fn sample(&mut self, counter: Name, value: i64) {
        if self.counters.len() >= MOST_COUNTERS && !self.counters.contains_key(&counter) {
            return;
        }
        let before = self.counters.insert(counter, value);
        let increase = before.map_or(0, |before| value.saturating_sub(before));
        let sum = self.current.counters.entry(counter).or_default();
        *sum = sum.saturating_add(increase);
    }
}

impl Interval {
    /// Writes the heading of the intervals.
    ///
    /// # Errors
    ///
    /// The error of `out`.
    pub fn heading(look: &Look, out: &mut dyn Write) -> io::Result<()> {
        let line = format!(
            "{:>13} {:>9} {:>9}  by CPU, counters",
            "time", "calls/s", "B/s"
        );
        writeln!(out, "{}", look.heading(&line))
    }

    /// Writes the interval as one line of text. `origin` is the time of the first event, and
    /// `second` the number of time units per second.
    ///
    /// # Errors
    ///
    /// The error of `out`.
    pub fn write(
        &self,
        (origin, second): (u64, f64),
        look: &Look,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let seconds = self.length as f64 / second;
        let rate = |sum: f64| count(sum / seconds);
        let at = self.start.saturating_sub(origin) as f64 / second;
        let bytes = match self.bytes {
            0 => "-".to_owned(),
            bytes => rate(bytes as f64),
        };
        let mut details = Vec::new();
        for cpu in &self.cpus {
            if cpu.bytes > 0 && cpu.time > 0 {
                let inside = cpu.bytes as f64 / (cpu.time as f64 / second);
                details.push(format!("CPU {}: {}B/s in calls", cpu.cpu, count(inside)));
            } else {
                let calls = rate(cpu.calls as f64);
                details.push(format!("CPU {}: {calls} calls/s", cpu.cpu));
            }
        }
        for CounterRate { counter, increase } in &self.counters {
            details.push(format!("{counter}: {}/s", rate(*increase as f64)));
        }
        let details = look.name(&details.join(", "), 35);
        let calls = rate(self.calls as f64);
        let line = format!("{at:>13.6} {calls:>9} {bytes:>9}  {details}");
        writeln!(out, "{}", line.trim_end())
    }
}
