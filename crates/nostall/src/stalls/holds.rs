//! Holds: the calls of the paths' functions, summed for each path.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use hdrhistogram::Histogram;
use nostall_tracefile::graph::{Slice, Step};
use nostall_tracefile::model::{Catalog, Event, EventKind, Task};

use super::paths::{self, CONSOLE, PATHS};

/// Maximum number of tasks of a path, and of initcalls. Further ones are counted as one.
const MOST: usize = 4096;

/// Sums of all paths, and what is not known of them.
#[derive(Default)]
pub struct Holds {
    /// In the order of [`PATHS`].
    pub rows: Vec<Row>,
    /// Times of the first and the last event in nanoseconds; `None` without events.
    pub span: Option<(u64, u64)>,
    /// Calls of which the entry or the return is missing. They are in no sum.
    pub unpaired: u64,
    /// Number of records that the ring or the file has lost, and of losses of an unknown number.
    pub lost: (u64, u64),
    /// Console time of each initcall.
    pub initcalls: HashMap<String, u64>,
    /// The initcall that runs, and its task.
    initcall: Option<(Task, String)>,
    /// End of the kernel's boot, and the console time until then.
    init: Option<u64>,
    pub before_init: u64,
}

/// Sums of a path.
#[derive(Clone)]
pub struct Row {
    pub count: u64,
    pub total: u64,
    pub durations: Histogram<u64>,
    /// The longest call with its duration and start.
    pub longest: Option<(u64, u64, Slice)>,
    /// Bytes of all calls; `None` if no call has a number of bytes.
    pub bytes: Option<u64>,
    pub cpus: BTreeMap<u32, u64>,
    pub tasks: HashMap<Task, u64>,
}

impl Holds {
    /// Makes empty sums. `init` is the end of the kernel's boot, if the trace is of one.
    pub fn new(init: Option<u64>) -> Self {
        let row = Row {
            count: 0,
            total: 0,
            // Two digits: the error of a percentile is at most 1 %.
            durations: Histogram::new(2).expect("two digits are valid"),
            longest: None,
            bytes: None,
            cpus: BTreeMap::new(),
            tasks: HashMap::new(),
        };
        Self {
            rows: vec![row; PATHS.len()],
            init,
            ..Self::default()
        }
    }

    /// Adds a step of a trace's function graph.
    pub fn step(&mut self, catalog: &Catalog, step: &Step) {
        match step {
            Step::Enter(entry) => {
                if paths::number(catalog.text(entry.function)).is_some() {
                    self.at(entry.time);
                }
            }
            Step::Leave(slice) => self.call(catalog, slice),
            Step::Event(event) => self.event(catalog, event),
        }
    }

    fn at(&mut self, time: u64) {
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
    }

    fn call(&mut self, catalog: &Catalog, slice: &Slice) {
        let name = slice.function.map_or("", |name| catalog.text(name));
        let Some(row) = paths::number(name) else {
            return;
        };
        let times = slice.begin().into_iter().chain(slice.end);
        times.for_each(|time| self.at(time));
        let (Some(duration), Some(start)) = (slice.duration, slice.begin()) else {
            self.unpaired += 1;
            return;
        };
        if row == CONSOLE {
            let initcall = self.initcall.as_ref();
            if let Some((_, name)) = initcall.filter(|(task, _)| *task == slice.task) {
                add(self.initcalls.entry(name.clone()), duration);
            }
            if slice.end <= self.init {
                self.before_init = self.before_init.saturating_add(duration);
            }
        }
        self.rows[row].add(duration, start, slice);
    }

    /// Counts tracepoints and losses, and follows the initcalls of a boot.
    fn event(&mut self, catalog: &Catalog, event: &Event) {
        let text = match event.kind {
            EventKind::Mark { text } => catalog.text(text),
            EventKind::Lost { records: 0 } => return self.lost.1 += 1,
            EventKind::Lost { records } => {
                return self.lost.0 = self.lost.0.saturating_add(records);
            }
            _ => return,
        };
        let (name, fields) = text.split_once(':').unwrap_or((text, ""));
        match name {
            "initcall_start" if self.initcalls.len() < MOST => {
                let function = fields.rsplit_once("func=").map_or(fields, |(_, name)| name);
                let function = function.split(['+', ' ']).next().unwrap_or(function);
                self.initcall = Some((event.task, function.to_owned()));
            }
            "initcall_finish" => self.initcall = None,
            _ => {
                if let Some(row) = paths::number(name) {
                    self.rows[row].count += 1;
                    self.at(event.time);
                }
            }
        }
    }
}

impl Row {
    fn add(&mut self, duration: u64, start: u64, call: &Slice) {
        self.count += 1;
        self.total = self.total.saturating_add(duration);
        // The histogram grows as needed.
        _ = self.durations.record(duration);
        if let Some(bytes) = call.argument {
            self.bytes = Some(self.bytes.unwrap_or(0).saturating_add(bytes));
        }
        if self.longest.is_none_or(|(longest, ..)| longest < duration) {
            self.longest = Some((duration, start, *call));
        }
        let cpu = self.cpus.entry(call.cpu).or_default();
        *cpu = cpu.saturating_add(duration);
        let is_full = self.tasks.len() >= MOST && !self.tasks.contains_key(&call.task);
        let task = if is_full { Task::NONE } else { call.task };
        add(self.tasks.entry(task), duration);
    }

    /// Returns a quantile of the durations. The histogram rounds up, but never above the longest.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let (longest, ..) = self.longest.filter(|_| self.total > 0)?;
        Some(self.durations.value_at_quantile(share).min(longest))
    }

    /// Returns the tasks, the one held longest first.
    pub fn busiest_tasks(&self) -> Vec<(Task, u64)> {
        let mut tasks: Vec<_> = self.tasks.clone().into_iter().collect();
        tasks.sort_by_key(|(task, time)| (Reverse(*time), task.0));
        tasks
    }
}

fn add<Key>(sum: Entry<'_, Key, u64>, time: u64) {
    let sum = sum.or_default();
    *sum = sum.saturating_add(time);
}
