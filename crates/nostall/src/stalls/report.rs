//! The report of a measurement or of a trace, as text and as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use comfy_table::Table;
use nostall_figures::numbers::grouped;
use nostall_figures::table::{aligned, percent, time};
use nostall_tracefile::model::{Catalog, Task};
use serde::Serialize;

use super::holds::{Hold, Holds, Row};
use super::live::Known;
use super::paths::{PATHS, Path};
use super::wrap::wrapped;
use crate::escape::{escape, json_document};

/// Maximum number of tasks and initcalls of a list.
const MOST: usize = 5;

/// Contents of a report.
pub struct Report<'a> {
    pub holds: &'a Holds,
    pub catalog: &'a Catalog,
    pub notes: &'a [String],
    /// `None` for a trace that was made elsewhere.
    pub known: Option<&'a Known>,
    /// Time of the measurement, or from the first to the last event, in nanoseconds.
    pub elapsed: u64,
    /// Whether names of programs are left out.
    pub is_private: bool,
}

/// A path's row in JSON.
#[derive(Serialize)]
struct PathFigures {
    path: &'static str,
    /// `false`: no function or tracepoint of the path was seen, which is not the same as no call.
    seen: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unseen: Vec<Unseen>,
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
struct Unseen {
    name: &'static str,
    reason: String,
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
struct Cost {
    calls: u64,
    pair_ns: f64,
    share_of_a_cpu: f64,
    missed_probes: u64,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    elapsed_ns: u64,
    paths: Vec<PathFigures>,
    unpaired_calls: u64,
    lost_records: u64,
    losses_of_unknown_size: u64,
    /// `null` for a trace that was made elsewhere.
    cost: Option<Cost>,
    notes: &'a [String],
}

impl Report<'_> {
    /// Returns one object, and a newline.
    pub fn json(&self) -> anyhow::Result<String> {
        let paths = PATHS.iter().zip(&self.holds.rows);
        Ok(json_document(&Document {
            schema: 1,
            elapsed_ns: self.elapsed,
            paths: paths.map(|(path, row)| self.figures(path, row)).collect(),
            unpaired_calls: self.holds.unpaired,
            lost_records: self.holds.lost.0,
            losses_of_unknown_size: self.holds.lost.1,
            cost: self.known.map(|known| Cost {
                calls: known.calls,
                pair_ns: known.pair,
                share_of_a_cpu: known.overhead,
                missed_probes: known.missed,
            }),
            notes: self.notes,
        })?)
    }

    fn figures(&self, path: &Path, row: &Row) -> PathFigures {
        let unseen = self.unseen(path);
        let tasks = row.busiest_tasks().into_iter().take(MOST);
        PathFigures {
            path: path.name,
            seen: row.count > 0 || self.is_seen(path),
            unseen: unseen
                .into_iter()
                .map(|(name, reason)| Unseen { name, reason })
                .collect(),
            count: row.count,
            total_ns: row.total,
            share_of_a_cpu: self.share(row),
            median_ns: row.quantile(0.5),
            p99_ns: row.quantile(0.99),
            bytes: row.bytes,
            longest: row.longest.map(|hold| Longest {
                ns: hold.duration,
                start_ns: hold.start,
                cpu: hold.cpu,
                task: self.task(hold.task),
            }),
            cpus: row
                .cpus
                .iter()
                .map(|(&cpu, &total_ns)| CpuTime { cpu, total_ns })
                .collect(),
            tasks: tasks
                .map(|(task, total_ns)| TaskTime {
                    task: self.task(task),
                    total_ns,
                })
                .collect(),
        }
    }

    /// Returns the functions and tracepoints of a path that could not be seen.
    fn unseen(&self, path: &Path) -> Vec<(&'static str, String)> {
        let known = self.known.map_or(&[][..], |known| &known.refused);
        let is_of = |name: &str| path.parts().any(|part| part == name);
        let of = known.iter().filter(|(name, _)| is_of(name));
        of.cloned().collect()
    }

    /// Returns whether a part of the path was seen. A trace from elsewhere does not tell.
    fn is_seen(&self, path: &Path) -> bool {
        self.known.is_some() && self.unseen(path).len() < path.parts().count()
    }

    fn share(&self, row: &Row) -> f64 {
        row.total as f64 / self.elapsed.max(1) as f64
    }

    /// Returns a task as `name/number`.
    fn task(&self, task: Task) -> String {
        let task = self.catalog.task_name(task);
        match (task.name.as_str(), task.id) {
            (_, 0) => "idle".to_owned(),
            (_, id) if self.is_private => format!("task {id}"),
            ("", id) => format!("task {id}"),
            (name, id) => format!("{}/{id}", escape(name.as_bytes())),
        }
    }

    /// Writes the table and its meaning.
    pub fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let rows = || PATHS.iter().zip(&self.holds.rows);
        let mut table = Table::new();
        table.set_header(["", "count", "total", "of CPU", "median", "99 %", "longest"]);
        for (path, row) in rows().filter(|(_, row)| row.count > 0) {
            let quantile = |share| {
                let quantile = row.quantile(share);
                quantile.map_or(String::new(), |value| time(value as f64))
            };
            let is_timed = row.total > 0;
            let timed = |text: String| if is_timed { text } else { String::new() };
            table.add_row([
                match row.bytes {
                    Some(bytes) => format!("{}, {} B", path.title, grouped(bytes)),
                    None => path.title.to_owned(),
                },
                grouped(row.count),
                timed(time(row.total as f64)),
                timed(percent(self.share(row))),
                quantile(0.5),
                quantile(0.99),
                row.longest
                    .map_or(String::new(), |hold| time(hold.duration as f64)),
            ]);
        }
        match table.row_count() {
            0 => writeln!(out, "No call of a slow path was recorded.")?,
            _ => writeln!(out, "{}", aligned(table, 1))?,
        }
        writeln!(out)?;
        for (path, row) in rows().filter(|(path, row)| row.total > 0 && !path.remedy.is_empty()) {
            self.details(out, path, row)?;
        }
        self.initcalls(out)?;
        self.doubts(out)
    }

    fn details(&self, out: &mut dyn Write, path: &Path, row: &Row) -> io::Result<()> {
        let Some(Hold {
            duration,
            start,
            cpu,
            task,
        }) = row.longest
        else {
            return Ok(());
        };
        let at = start as f64 / 1e9;
        let longest = time(duration as f64);
        let most = row.cpus.iter().max_by_key(|(_, total)| **total);
        let (most_cpu, total) = most.map_or((cpu, 0), |(cpu, total)| (*cpu, *total));
        let mut text = format!(
            "{}: longest {longest} on CPU {cpu} in {}, at {at:.6} s. Of all, {} were on \
             CPU {most_cpu}, ",
            path.title,
            self.task(task),
            time(total as f64),
        );
        let tasks = row.busiest_tasks();
        let tasks = tasks.iter().take(3);
        let tasks: Vec<_> = tasks
            .map(|(task, total)| format!("{} in {}", time(*total as f64), self.task(*task)))
            .collect();
        text += &tasks.join(", ");
        text += &format!(". What mends it: {}.", path.remedy);
        wrapped(out, 2, &text)
    }

    fn initcalls(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut initcalls: Vec<_> = self.holds.initcalls.iter().collect();
        initcalls.sort_by_key(|(name, total)| (std::cmp::Reverse(**total), *name));
        if initcalls.is_empty() {
            return Ok(());
        }
        writeln!(out, "Initcalls that printed longest:")?;
        for (name, total) in initcalls.into_iter().take(MOST) {
            let name = escape(name.as_bytes());
            writeln!(out, "  {:>8}  {name}", time(*total as f64))?;
        }
        writeln!(out)
    }

    /// Writes the losses and the cost of the measurement.
    fn doubts(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut reasons = BTreeMap::<String, Vec<&str>>::new();
        for (path, row) in PATHS.iter().zip(&self.holds.rows) {
            let unseen = self.unseen(path);
            if row.count == 0 && unseen.len() == path.parts().count() {
                for (name, reason) in unseen {
                    reasons.entry(reason).or_default().push(name);
                }
            }
        }
        for (reason, names) in reasons {
            wrapped(
                out,
                0,
                &format!("Not seen: {reason}: {}.", names.join(", ")),
            )?;
        }
        let Holds { unpaired, lost, .. } = self.holds;
        let mut counts = vec![
            (
                *unpaired,
                "calls have no entry or no return, and are in no sum",
            ),
            (
                lost.0,
                "records were lost: the ring was too small (--buffer)",
            ),
            (lost.1, "times, an unknown number of records was lost"),
        ];
        if let Some(known) = self.known {
            counts.push((
                known.missed,
                "calls met a probe that was busy, and are in no sum",
            ));
        }
        for (count, fate) in counts.iter().filter(|(count, _)| *count > 0) {
            writeln!(out, "{} {fate}", grouped(*count))?;
        }
        for note in self.notes {
            wrapped(out, 0, &escape(note.as_bytes()))?;
        }
        if let Some(known) = self.known {
            let cost = format!(
                "Measured for {:.1} s. The measurement took {} of a CPU: {} probed calls of {} \
                 each, and the reader.",
                known.elapsed.as_secs_f64(),
                percent(known.overhead),
                grouped(known.calls),
                time(known.pair),
            );
            wrapped(out, 0, &cost)?;
        }
        Ok(())
    }
}
