//! The report of a measurement or of a trace, as text and as JSON.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use comfy_table::Table;
use nostall_figures::numbers::grouped;
use nostall_figures::table::{aligned, percent, time};
use nostall_tracefile::model::{Catalog, Task};
use serde::Serialize;

use super::holds::{Holds, Row};
use super::live::{Cost, Known, LeftOut};
use super::paths::{PATHS, Path};
use super::tracefs::Refused;
use super::wrap::wrap;
use crate::escape::escape;

/// Maximum number of tasks and initcalls of a list.
const MOST: usize = 5;

/// The report, as it is in JSON.
#[derive(Serialize)]
pub struct Report<'a> {
    schema: u32,
    elapsed_ns: u64,
    paths: Vec<PathFigures>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    initcalls: Vec<InitcallTime<'a>>,
    unpaired_calls: u64,
    lost_records: u64,
    losses_of_unknown_size: u64,
    /// `null` for a trace that was made elsewhere.
    cost: Option<&'a Cost>,
    notes: &'a [String],
}

/// A path's row.
#[derive(Serialize)]
struct PathFigures {
    path: &'static str,
    /// `false`: no function or tracepoint of the path was seen, which is not the same as no call.
    seen: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unseen: Vec<Refused>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<LeftOut>,
    count: u64,
    total_ns: u64,
    share_of_a_cpu: f64,
    median_ns: Option<u64>,
    p99_ns: Option<u64>,
    bytes: Option<u64>,
    longest: Option<Longest>,
    cpus: Vec<CpuTime>,
    tasks: Vec<TaskTime>,
}

#[derive(Serialize)]
struct Longest {
    ns: u64,
    start_ns: u64,
    cpu: u32,
    task: String,
}

#[derive(Serialize)]
struct CpuTime {
    cpu: u32,
    total_ns: u64,
}

#[derive(Serialize)]
struct TaskTime {
    task: String,
    total_ns: u64,
}

#[derive(Serialize)]
struct InitcallTime<'a> {
    initcall: &'a str,
    total_ns: u64,
}

impl<'a> Report<'a> {
    /// Returns the report of these sums. `known` is absent for a trace that was made elsewhere, and
    /// `task` names a task.
    pub fn new(
        holds: &'a Holds,
        elapsed_ns: u64,
        known: Option<&'a Known>,
        notes: &'a [String],
        task: impl Fn(Task) -> String,
    ) -> Self {
        let initcalls = holds.initcalls.iter();
        let mut initcalls: Vec<_> = initcalls
            .map(|(initcall, &total_ns)| InitcallTime { initcall, total_ns })
            .collect();
        initcalls.sort_by_key(|call| (Reverse(call.total_ns), call.initcall));
        initcalls.truncate(MOST);
        let paths = PATHS.iter().zip(&holds.rows);
        Self {
            schema: 1,
            elapsed_ns,
            paths: paths
                .map(|(path, row)| PathFigures::new(path, row, elapsed_ns, known, &task))
                .collect(),
            initcalls,
            unpaired_calls: holds.unpaired,
            lost_records: holds.lost.0,
            losses_of_unknown_size: holds.lost.1,
            cost: known.map(|known| &known.cost),
            notes,
        }
    }

    /// Returns the table and its meaning.
    pub fn text(&self) -> String {
        let rows = || PATHS.iter().zip(&self.paths);
        let mut table = Table::new();
        table.set_header(["", "count", "total", "of CPU", "median", "99 %", "longest"]);
        for (path, row) in rows().filter(|(_, row)| row.count > 0) {
            let title = match row.bytes {
                Some(bytes) => format!("{}, {} B", path.title, grouped(bytes)),
                None => path.title.to_owned(),
            };
            let timed = |value: Option<u64>| value.map_or(String::new(), |ns| time(ns as f64));
            let total = Some(row.total_ns).filter(|total| *total > 0);
            table.add_row([
                title,
                grouped(row.count),
                timed(total),
                total.map_or(String::new(), |_| percent(row.share_of_a_cpu)),
                timed(row.median_ns),
                timed(row.p99_ns),
                timed(row.longest.as_ref().map(|longest| longest.ns)),
            ]);
        }
        let mut text = match table.row_count() {
            0 => "No call of a slow path was recorded.".to_owned(),
            _ => aligned(table, 1),
        };
        text += "\n\n";
        for (path, row) in rows().filter(|(path, row)| row.total_ns > 0 && !path.remedy.is_empty())
        {
            wrap(&mut text, 0, 2, &row.details(path));
        }
        if !self.initcalls.is_empty() {
            text += "Initcalls that printed longest:\n";
            for InitcallTime { initcall, total_ns } in &self.initcalls {
                let name = escape(initcall.as_bytes());
                text += &format!("  {:>8}  {name}\n", time(*total_ns as f64));
            }
            text += "\n";
        }
        self.doubts(&mut text);
        text
    }

    /// Adds the losses and the cost of the measurement.
    fn doubts(&self, text: &mut String) {
        let mut reasons = BTreeMap::<&str, Vec<&str>>::new();
        for (path, row) in PATHS.iter().zip(&self.paths).filter(|(_, row)| !row.seen) {
            if let Some(first) = row.unseen.first() {
                reasons.entry(&first.reason).or_default().push(path.title);
            }
        }
        for (reason, titles) in reasons {
            let line = format!("Not seen: {}, because {reason}.", titles.join("; "));
            wrap(text, 0, 0, &line);
        }
        let missed = self.cost.map_or(0, |cost| cost.missed_probes);
        let mut counted = |count: u64, fate: &str| {
            if count > 0 {
                *text += &format!("{} {fate}\n", grouped(count));
            }
        };
        counted(
            self.unpaired_calls,
            "calls have no entry or no return, and are in no sum",
        );
        counted(
            self.lost_records,
            "records were lost: the ring was too small (--buffer)",
        );
        counted(
            self.losses_of_unknown_size,
            "times, an unknown number of records was lost",
        );
        counted(missed, "calls met a probe that was busy, and are in no sum");
        for note in self.notes {
            wrap(text, 0, 0, &escape(note.as_bytes()));
        }
        if let Some(cost) = self.cost {
            let line = format!(
                "Measured for {:.1} s. The measurement took {} of a CPU: {} probed calls of {} \
                 each, and the reading of their records.",
                self.elapsed_ns as f64 / 1e9,
                percent(cost.share_of_a_cpu),
                grouped(cost.calls),
                time(cost.pair_ns),
            );
            wrap(text, 0, 0, &line);
        }
    }
}

impl PathFigures {
    fn new(
        path: &Path,
        row: &Row,
        elapsed: u64,
        known: Option<&Known>,
        task: impl Fn(Task) -> String,
    ) -> Self {
        let is_of = |name: &str| path.parts().any(|part| part == name);
        let refused = known.iter().flat_map(|known| &known.refused);
        let unseen: Vec<_> = refused.filter(|part| is_of(part.name)).cloned().collect();
        let left_out = known.iter().flat_map(|known| &known.left_out);
        let cpus = row.cpus.iter();
        let tasks = row.busiest_tasks().into_iter().take(MOST);
        Self {
            path: path.name,
            // A trace from elsewhere does not tell.
            seen: row.count > 0 || known.is_some() && unseen.len() < path.parts().count(),
            unseen,
            left_out: left_out.filter(|left| is_of(left.name)).cloned().collect(),
            count: row.count,
            total_ns: row.total,
            share_of_a_cpu: row.total as f64 / elapsed.max(1) as f64,
            median_ns: row.quantile(0.5),
            p99_ns: row.quantile(0.99),
            bytes: row.bytes,
            longest: row.longest.map(|(ns, start_ns, slice)| Longest {
                ns,
                start_ns,
                cpu: slice.cpu,
                task: task(slice.task),
            }),
            cpus: cpus
                .map(|(&cpu, &total_ns)| CpuTime { cpu, total_ns })
                .collect(),
            tasks: tasks
                .map(|(number, total_ns)| TaskTime {
                    task: task(number),
                    total_ns,
                })
                .collect(),
        }
    }

    /// Returns the longest call, where the time went, and what mends the path.
    fn details(&self, path: &Path) -> String {
        let mut text = format!("{}: ", path.title);
        if let Some(longest) = &self.longest {
            text += &format!(
                "longest {} on CPU {} in {}, at {:.6} s. ",
                time(longest.ns as f64),
                longest.cpu,
                longest.task,
                longest.start_ns as f64 / 1e9
            );
        }
        if let Some(most) = self.cpus.iter().max_by_key(|cpu| cpu.total_ns) {
            let total = time(most.total_ns as f64);
            text += &format!("Of all, {total} were on CPU {}", most.cpu);
        }
        for TaskTime { task, total_ns } in self.tasks.iter().take(3) {
            text += &format!(", {} in {task}", time(*total_ns as f64));
        }
        text + &format!(". What mends it: {}.", path.remedy)
    }
}

/// Returns a task as `name/number`, and without its name if the report is to be sent.
pub fn task(catalog: &Catalog, task: Task, is_private: bool) -> String {
    let task = catalog.task_name(task);
    match (task.name.as_str(), task.id) {
        (_, 0) => "idle".to_owned(),
        (name, id) if is_private || name.is_empty() => format!("task {id}"),
        (name, id) => format!("{}/{id}", escape(name.as_bytes())),
    }
}
