//! Function graphs in the form of Linux's tracer.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};

use serde::Serialize;

use super::{Look, Selection};
use crate::graph::{Entry, Match, Slice, Step};
use crate::model::{Catalog, Event, EventKind, Task, TimeUnit};

/// Maximum number of lines that wait for an entry that may be a leaf.
const MOST_WAITING: usize = 1 << 14;

/// Depth at which the indentation stops growing.
const DEEPEST: u32 = 50;

/// Prints a function graph: one line per entry and exit, or per leaf.
pub struct Graph<'a> {
    selection: Selection,
    /// Lines left to print.
    left: u64,
    has_time: bool,
    look: Look,
    out: &'a mut dyn Write,
    waiting: VecDeque<Line>,
    /// Number of the first waiting line.
    first: u64,
    /// Numbers of the lines whose entry may be a leaf.
    entries: HashMap<Lane, u64>,
    /// State of the CPUs, or of the threads, in the printed lines.
    lanes: HashMap<Lane, State>,
    /// Depths of the open selected functions, by task or CPU.
    inside: HashMap<(Task, u32), u32>,
}

/// A CPU; or a thread, in a trace without CPUs.
type Lane = (u32, Task);

fn lane(cpu: u32, task: Task, catalog: &Catalog) -> Lane {
    match catalog.has_cpus() {
        true => (cpu, Task::NONE),
        false => (0, task),
    }
}

/// Returns the first column of a lane.
fn label((cpu, task): Lane, catalog: &Catalog) -> String {
    match catalog.has_cpus() {
        true => format!("{cpu:>2})"),
        false => format!("{:>7})", catalog.task_name(task).id),
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    task: Option<Task>,
    /// Depth of the next function.
    depth: u32,
}

#[derive(Clone, Copy, Debug)]
enum Line {
    /// An entry that may be a leaf.
    Maybe(Entry),
    Enter(Entry),
    Leaf(Slice),
    Leave(Slice),
    Event(Event),
}

/// One call as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GraphLine<'a> {
    /// Version of this format.
    pub schema: u32,
    /// Function's name, if the trace has it.
    pub function: Option<&'a str>,
    /// Unit of times: `ns` or `ticks`.
    pub unit: &'a str,
    /// Start time, if known.
    pub start: Option<u64>,
    /// Duration, if known.
    pub duration: Option<u64>,
    /// Duration without the called functions.
    #[serde(rename = "self")]
    pub own: Option<u64>,
    /// Number of functions around it.
    pub depth: u32,
    /// CPU of the entry.
    pub cpu: u32,
    /// Task's identifier; `null` without tasks. A negative one stands for an unknown thread.
    pub task: Option<i64>,
    /// Argument that was passed to the recorder.
    pub argument: Option<u64>,
    /// `paired`, `no-entry`, `open`, `skipped`, `lost` or `too-deep`.
    pub matched: &'a str,
}

impl<'a> GraphLine<'a> {
    /// Returns the line for a call.
    pub fn new(slice: &Slice, catalog: &'a Catalog, unit: TimeUnit) -> Self {
        Self {
            schema: 1,
            function: slice.function.map(|name| catalog.text(name)),
            unit: match unit {
                TimeUnit::Nanoseconds => "ns",
                TimeUnit::Ticks => "ticks",
            },
            start: slice.begin(),
            duration: slice.duration,
            own: slice.own(),
            depth: slice.depth,
            cpu: slice.cpu,
            task: (slice.task != Task::NONE).then(|| catalog.task_name(slice.task).id),
            argument: slice.argument,
            matched: match slice.matched {
                Match::Paired => "paired",
                Match::NoEntry => "no-entry",
                Match::Open => "open",
                Match::Skipped => "skipped",
                Match::Lost => "lost",
                Match::TooDeep => "too-deep",
            },
        }
    }
}

impl<'a> Graph<'a> {
    /// Prints the selected functions, and those that they call, on the selected CPUs.
    ///
    /// Prints at most `limit` lines, each with its time if `has_time`.
    pub fn new(
        selection: Selection,
        limit: Option<u64>,
        has_time: bool,
        look: Look,
        out: &'a mut dyn Write,
    ) -> Self {
        Self {
            selection,
            left: limit.unwrap_or(u64::MAX),
            has_time,
            look,
            out,
            waiting: VecDeque::new(),
            first: 0,
            entries: HashMap::new(),
            lanes: HashMap::new(),
            inside: HashMap::new(),
        }
    }

    /// Writes the heading.
    ///
    /// # Errors
    ///
    /// The error of the output.
    pub fn heading(&mut self, catalog: &Catalog) -> io::Result<()> {
        let time = match self.has_time {
            true => "     TIME        ",
            false => "",
        };
        let lane = match catalog.has_cpus() {
            true => "CPU",
            false => "  THREAD",
        };
        let line = format!("# {time}{lane}  DURATION         FUNCTION CALLS");
        writeln!(self.out, "{}", self.look.heading(&line))
    }

    /// Returns whether all lines within the limit are printed.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Processes a step.
    ///
    /// # Errors
    ///
    /// The error of the output.
    pub fn push(&mut self, step: &Step, catalog: &Catalog) -> io::Result<()> {
        if !self.is_shown(step, catalog) {
            return Ok(());
        }
        let (cpu, task, line) = match *step {
            Step::Enter(entry) => (entry.cpu, entry.task, Line::Maybe(entry)),
            Step::Leave(slice) => (slice.last_cpu, slice.task, Line::Leave(slice)),
            Step::Event(event) => (event.cpu, event.task, Line::Event(event)),
        };
        let lane = lane(cpu, task, catalog);
        if let Some(number) = self.entries.remove(&lane)
            && let Some(at) = number.checked_sub(self.first)
            && let Some(waiting) = self.waiting.get_mut(at as usize)
            && let Line::Maybe(entry) = *waiting
        {
            if let Line::Leave(slice) = line
                && is_leaf(&entry, &slice)
            {
                *waiting = Line::Leaf(slice);
                return self.flush(catalog);
            }
            *waiting = Line::Enter(entry);
        }
        if let Line::Maybe(_) = line {
            self.entries
                .insert(lane, self.first + self.waiting.len() as u64);
        }
        self.waiting.push_back(line);
        self.flush(catalog)
    }

    /// Prints the lines that still wait for the end of their call.
    ///
    /// # Errors
    ///
    /// The error of the output.
    pub fn finish(&mut self, catalog: &Catalog) -> io::Result<()> {
        while let Some(line) = self.waiting.pop_front() {
            self.line(line, catalog)?;
        }
        Ok(())
    }

    fn flush(&mut self, catalog: &Catalog) -> io::Result<()> {
        while let Some(line) = self.waiting.front().copied() {
            if matches!(line, Line::Maybe(_)) && self.waiting.len() < MOST_WAITING {
                break;
            }
            self.waiting.pop_front();
            self.first += 1;
            self.line(line, catalog)?;
        }
        Ok(())
    }

    fn is_shown(&mut self, step: &Step, catalog: &Catalog) -> bool {
        let cpu = match step {
            Step::Enter(entry) => entry.cpu,
            Step::Leave(slice) => slice.cpu,
            Step::Event(event) => event.cpu,
        };
        if !self.selection.cpu(cpu) {
            return false;
        }
        if !self.selection.has_patterns() {
            return true;
        }
        let key = |task: Task, cpu| match catalog.task_name(task).id {
            0 => (Task::NONE, cpu),
            _ => (task, 0),
        };
        match step {
            Step::Enter(entry) => {
                let key = key(entry.task, entry.cpu);
                let is_chosen = self.selection.function(entry.function, catalog);
                if is_chosen {
                    self.inside.entry(key).or_insert(entry.depth);
                }
                self.inside.contains_key(&key)
            }
            Step::Leave(slice) => {
                let key = key(slice.task, slice.cpu);
                let depth = self.inside.get(&key).copied();
                if depth == Some(slice.depth) && slice.matched != Match::NoEntry {
                    self.inside.remove(&key);
                }
                let name = slice.function;
                let chosen = name.is_some_and(|name| self.selection.function(name, catalog));
                depth.is_some() || chosen
            }
            Step::Event(event) => match event.kind {
                EventKind::Call { function, .. } => self.selection.function(function, catalog),
                _ => self.inside.contains_key(&key(event.task, event.cpu)),
            },
        }
    }

    fn line(&mut self, line: Line, catalog: &Catalog) -> io::Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        let (time, cpu, task) = match &line {
            Line::Maybe(entry) | Line::Enter(entry) => (entry.time, entry.cpu, entry.task),
            Line::Leaf(slice) => (slice.start.unwrap_or(0), slice.cpu, slice.task),
            Line::Leave(slice) => {
                let time = slice.end.or(slice.start).unwrap_or(0);
                (time, slice.last_cpu, slice.task)
            }
            Line::Event(event) => (event.time, event.cpu, event.task),
        };
        let lane = lane(cpu, task, catalog);
        let label = label(lane, catalog);
        self.switch(lane, task, &label, catalog)?;
        if let Line::Event(Event {
            kind: EventKind::Lost { records },
            ..
        }) = line
        {
            let lane = match catalog.has_cpus() {
                true => format!("CPU:{cpu}"),
                false => format!("THREAD:{}", catalog.task_name(task).id),
            };
            let text = match records {
                0 => format!("{lane} [LOST EVENTS]"),
                _ => format!("{lane} [LOST {records} EVENTS]"),
            };
            return writeln!(self.out, "{}", self.look.doubt(&text));
        }
        if self.has_time {
            let (seconds, rest) = match self.look.unit {
                TimeUnit::Nanoseconds => (time / 1_000_000_000, time % 1_000_000_000 / 1_000),
                TimeUnit::Ticks => (time / 1_000_000, time % 1_000_000),
            };
            write!(self.out, "{seconds:>6}.{rest:06} |  ")?;
        }
        let duration = match &line {
            Line::Leaf(slice) | Line::Leave(slice) => slice.duration,
            Line::Event(event) => match event.kind {
                EventKind::Stall { duration, .. } => Some(duration),
                _ => None,
            },
            _ => None,
        };
        let duration = duration.map_or_else(String::new, |it| linux(it, self.look.unit));
        let mark = duration.chars().next().unwrap_or(' ');
        let duration = format!("{duration:<14}");
        let duration = match mark {
            ' ' => duration,
            _ => self.look.doubt(&duration),
        };
        let (depth, text) = self.text(&line, catalog);
        self.lanes.entry(lane).or_default().depth = match line {
            Line::Maybe(_) | Line::Enter(_) => depth.saturating_add(1),
            _ => depth,
        };
        let depth = depth.min(DEEPEST) as usize;
        let depth = depth.min(self.look.width.map_or(depth, |width| width / 4));
        let used = 18 + label.len() + depth * 2 + usize::from(self.has_time) * 17;
        let text = self.look.name(&text, used);
        let text = match &line {
            Line::Leave(slice) if slice.matched != Match::Paired => self.look.doubt(&text),
            _ => text,
        };
        writeln!(self.out, "{label} {duration}|  {:1$}{text}", "", depth * 2)
    }

    fn text(&self, line: &Line, catalog: &Catalog) -> (u32, String) {
        let call = |name: &str, argument: Option<u64>| match argument {
            Some(argument) => format!("{name}({argument:#x})"),
            None => format!("{name}()"),
        };
        match line {
            Line::Maybe(entry) | Line::Enter(entry) => {
                let call = call(catalog.text(entry.function), entry.argument);
                (entry.depth, format!("{call} {{"))
            }
            Line::Leaf(slice) => {
                let name = slice.function.map_or("", |name| catalog.text(name));
                (slice.depth, call(name, slice.argument) + ";")
            }
            Line::Leave(slice) => {
                let known = slice.function;
                let name = known.map_or("", |name| catalog.text(name));
                let text = match slice.matched {
                    // The recorder only wrote the exit with its duration.
                    Match::NoEntry if slice.duration.is_some() && known.is_some() => {
                        format!("}} /* {name} */")
                    }
                    Match::NoEntry if known.is_none() => {
                        "} /* its entry is not in the trace */".to_owned()
                    }
                    Match::Paired if slice.is_leaf || slice.is_partial => {
                        format!("}} /* {name} */")
                    }
                    Match::Paired => "}".to_owned(),
                    Match::NoEntry => format!("}} /* {name}: its entry is not in the trace */"),
                    Match::Open => format!("/* {name}: the trace ends in it */"),
                    Match::Skipped => format!("/* {name}: its exit is not in the trace */"),
                    Match::Lost => format!("/* {name}: its exit may be among the lost events */"),
                    Match::TooDeep => format!("/* {name}: too many calls are open */"),
                };
                (slice.depth, text)
            }
            Line::Event(event) => {
                let lane = self.lanes.get(&lane(event.cpu, event.task, catalog));
                (
                    lane.map_or(0, |lane| lane.depth),
                    self.event(event, catalog),
                )
            }
        }
    }

    fn event(&self, event: &Event, catalog: &Catalog) -> String {
        match event.kind {
            EventKind::Call { function, caller } => {
                let caller = caller.map(|caller| format!(" <-{}", catalog.text(caller)));
                format!("{}{}", catalog.text(function), caller.unwrap_or_default())
            }
            EventKind::Stall {
                condition, place, ..
            } => {
                let place = place.map(|place| format!(" in {}", catalog.text(place)));
                let condition = catalog.text(condition);
                format!("/* stall: {condition}{} */", place.unwrap_or_default())
            }
            EventKind::Counter { counter, value } => {
                format!("/* {}: {value} */", catalog.text(counter))
            }
            EventKind::Mark { text } => format!("/* {} */", catalog.text(text)),
            _ => String::new(),
        }
    }

    /// Prints that another task runs on the CPU; or a thread's name, before its first line.
    fn switch(&mut self, lane: Lane, task: Task, label: &str, catalog: &Catalog) -> io::Result<()> {
        if task == Task::NONE {
            return Ok(());
        }
        let before = self.lanes.entry(lane).or_default().task.replace(task);
        let name = |task| {
            let task = catalog.task_name(task);
            let known = || format!("{}-{}", task.name, task.id);
            task.unknown_thread().unwrap_or_else(known)
        };
        let text = match before {
            None if !catalog.has_cpus() => format!("{label}  {}", name(task)),
            Some(before) if before != task => {
                format!("{label}  {} => {}", name(before), name(task))
            }
            _ => return Ok(()),
        };
        let text = self.look.name(&text, 0);
        writeln!(self.out, "{}", self.look.heading(&text))
    }
}

/// Returns whether the call of `entry` has ended without inner calls.
fn is_leaf(entry: &Entry, slice: &Slice) -> bool {
    slice.is_leaf
        && slice.matched == Match::Paired
        && slice.function == Some(entry.function)
        && slice.start == Some(entry.time)
        && (slice.depth, slice.task) == (entry.depth, entry.task)
}

/// Formats a duration as Linux does, with its mark: `! 411.342 us`.
fn linux(duration: u64, unit: TimeUnit) -> String {
    if unit == TimeUnit::Ticks {
        return format!("  {duration}");
    }
    let marks = [
        (1_000_000_000, '$'),
        (100_000_000, '@'),
        (10_000_000, '*'),
        (1_000_000, '#'),
        (100_000, '!'),
        (10_000, '+'),
    ];
    let mark = marks.iter().find(|(limit, _)| duration > *limit);
    let mark = mark.map_or(' ', |(_, mark)| *mark);
    let micros = (duration / 1000).to_string();
    // Linux prints at most seven digits.
    let decimals = 7_usize.saturating_sub(micros.len()).min(3);
    let rest = &format!("{:03}", duration % 1000)[..decimals];
    let dot = if decimals > 0 { "." } else { "" };
    format!("{mark} {micros}{dot}{rest} us")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_their_marks_are_linuxs() {
        let linux = |duration| linux(duration, TimeUnit::Nanoseconds);
        for (duration, expected) in [
            (384, "  0.384 us"),
            (10_000, "  10.000 us"),
            (12_787, "+ 12.787 us"),
            (411_342, "! 411.342 us"),
            (1_234_567, "# 1234.567 us"),
            (12_345_678, "* 12345.67 us"),
            (123_456_789, "@ 123456.7 us"),
            (1_234_567_890, "$ 1234567 us"),
            (12_345_678_901, "$ 12345678 us"),
        ] {
            assert_eq!(linux(duration), expected);
        }
    }
}
