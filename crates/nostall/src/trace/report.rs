//! `nostall trace report`: functions that ran, their durations, and their stalls.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Error, Result, ensure};
use nostall_tracefile::graph::{Step, walk};
use nostall_tracefile::model::{Catalog, ReadError, Source, TimeUnit};
use nostall_tracefile::report::{
    Diff, Graph, GraphLine, Histogram, Interval, Look, Rate, StallRow, Stalls, Table, TableRow,
};
use serde::Serialize;

pub use super::args::Args;
use super::args::View;
use super::flame;
use super::input;
use super::print::{json_line, look_of};
use super::watched::Watched;
use crate::escape::{escape_name, json_document};
use crate::output::{Style, is_closed, note, to_stdout};

/// Maximum number of histograms without `--limit`.
const HISTOGRAMS: usize = 10;

/// Prints the report.
///
/// # Errors
///
/// If an input cannot be read or the output cannot be written.
pub fn run(args: &Args) -> Result<()> {
    match args.view {
        View::Diff => ensure!(
            args.inputs.len() == 2,
            "--view diff compares two inputs, and there are {}",
            args.inputs.len()
        ),
        View::Graph => {}
        _ => ensure!(!args.time, "--time is for --view graph"),
    }
    if args.view == View::Flame {
        return flame::run(args);
    }
    let mut job = Job {
        args,
        style: Style::of(&io::stdout()),
        traces: Vec::new(),
    };
    // An unreadable input does not stop the others.
    let mut failed = None;
    for path in &args.inputs {
        let Err(error) = job.input(path) else {
            continue;
        };
        if is_closed(&error) {
            return Err(error);
        }
        if let Some(earlier) = failed.replace(error) {
            note(format_args!("{earlier:#}"));
        }
    }
    job.end()?;
    failed.map_or(Ok(()), Err)
}

/// A report in the making.
struct Job<'a> {
    args: &'a Args,
    style: Style,
    /// Collected traces, for JSON and for a comparison.
    traces: Vec<Trace>,
}

/// Document for programs.
#[derive(Serialize)]
struct Document {
    schema: u32,
    view: View,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    traces: Vec<Trace>,
    #[serde(flatten)]
    diff: Option<Diff>,
}

/// Rows of one trace.
#[derive(Serialize)]
struct Trace {
    input: String,
    unit: &'static str,
    notes: Vec<String>,
    rows: Rows,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Rows {
    Table(Vec<TableRow>),
    Histogram(Vec<Histogram>),
    Stalls(Vec<StallRow>),
}

/// Reason to stop reading.
enum Stop {
    Read(ReadError),
    Write(io::Error),
    /// All lines within `--limit` are printed.
    Done,
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl Job<'_> {
    /// Reads one input, and prints its report unless that needs all inputs.
    fn input(&mut self, path: &Path) -> Result<()> {
        let name = input::name(path);
        let mut source = Watched::new(input::open(path, &self.args.reading)?);
        let look = look_of(self.style, source.unit());
        if self.args.inputs.len() > 1 && !self.args.json && self.args.view != View::Diff {
            let heading = self.style.heading();
            to_stdout(|out| writeln!(out, "{heading}{name}:{heading:#}"))?;
        }
        let ended = match self.args.view {
            View::Graph => self.graph(&mut source, look)?,
            View::Rate => self.rate(&mut source, look)?,
            _ => {
                let (rows, ended) = self.rows(&mut source);
                let is_collected = self.args.json || self.args.view == View::Diff;
                if is_collected {
                    self.traces.push(Trace {
                        input: name.clone(),
                        unit: unit(source.unit()),
                        notes: source.notes().to_vec(),
                        rows,
                    });
                } else {
                    source.clear();
                    // In text, a late line may show that the times are ticks.
                    let look = look_of(self.style, source.unit());
                    to_stdout(|out| rows.write(&look, out))?;
                }
                ended
            }
        };
        source.clear();
        for line in source.notes() {
            note(format_args!("{name}: {}", escape_name(line)));
        }
        ended.map_err(Error::new).context(name)
    }

    /// Returns the rows of the view, and the error at which reading ended.
    fn rows(&self, source: &mut Watched) -> (Rows, Result<(), ReadError>) {
        let selection = self.args.selection();
        if self.args.view == View::Stalls {
            let mut stalls = Stalls::new(selection);
            let ended = collect(source, |step, catalog| stalls.push(step, catalog));
            let mut rows = stalls.rows(source.catalog());
            rows.truncate(self.args.most());
            return (Rows::Stalls(rows), ended);
        }
        let mut table = Table::new(selection);
        let ended = collect(source, |step, catalog| table.push(step, catalog));
        let catalog = source.catalog();
        let rows = match self.args.view {
            View::Histogram => {
                let mut rows = Histogram::of(&table, catalog);
                let most = self.args.limit.map_or(HISTOGRAMS, |_| self.args.most());
                rows.truncate(most);
                Rows::Histogram(rows)
            }
            view => {
                let mut rows = table.rows(catalog, self.args.sort.into());
                if view != View::Diff {
                    rows.truncate(self.args.most());
                }
                Rows::Table(rows)
            }
        };
        (rows, ended)
    }

    fn graph(&self, source: &mut Watched, look: Look) -> Result<Result<(), ReadError>> {
        let args = self.args;
        let mut left = args.limit.unwrap_or(u64::MAX);
        streamed(|out| {
            if args.json {
                let mut selection = args.selection();
                return walk(source, |catalog, step| {
                    let Step::Leave(slice) = step else {
                        return Ok(());
                    };
                    let function = slice.function;
                    let is_chosen = !selection.has_patterns()
                        || function.is_some_and(|name| selection.function(name, catalog));
                    if !is_chosen || !selection.cpu(slice.cpu) {
                        return Ok(());
                    }
                    left = left.checked_sub(1).ok_or(Stop::Done)?;
                    Ok(json_line(&GraphLine::new(&slice, catalog, look.unit), out)?)
                });
            }
            let mut graph = Graph::new(args.selection(), args.limit, args.time, look, out);
            graph.heading(source.catalog())?;
            let ended = walk(source, |catalog, step| {
                graph.push(&step, catalog)?;
                if graph.is_done() {
                    Err(Stop::Done)
                } else {
                    Ok(())
                }
            });
            graph.finish(source.catalog())?;
            ended
        })
    }

    fn rate(&self, source: &mut Watched, look: Look) -> Result<Result<(), ReadError>> {
        ensure!(
            source.unit() == TimeUnit::Nanoseconds,
            "a rate needs seconds, and the rate of this trace's clock is not known"
        );
        let args = self.args;
        let length = u64::try_from(args.interval.as_nanos()).unwrap_or(u64::MAX);
        let mut rate = Rate::new(args.selection(), length);
        let mut left = args.limit.unwrap_or(u64::MAX);
        streamed(|out| {
            if !args.json {
                Interval::heading(&look, out)?;
            }
            let mut origin = None;
            let mut print = |interval: Interval, out: &mut dyn Write| {
                left = left.checked_sub(1).ok_or(Stop::Done)?;
                if args.json {
                    return Ok(json_line(&interval, out)?);
                }
                let origin = *origin.get_or_insert(interval.start);
                Ok(interval.write((origin, 1e9), &look, out)?)
            };
            let ended = walk(source, |catalog, step| match rate.push(&step, catalog) {
                Some(interval) => print(interval, out),
                None => Ok(()),
            });
            match rate.finish(source.catalog()) {
                Some(last) if !matches!(ended, Err(Stop::Done)) => {
                    print(last, out)?;
                }
                _ => {}
            }
            ended
        })
    }

    /// Prints the parts that need all inputs.
    fn end(mut self) -> Result<()> {
        let mut document = Document {
            schema: 1,
            view: self.args.view,
            traces: Vec::new(),
            diff: None,
        };
        if self.args.view == View::Diff {
            let rows = |trace: Trace| match trace.rows {
                Rows::Table(rows) => rows,
                _ => Vec::new(),
            };
            let (Some(after), Some(before)) = (self.traces.pop(), self.traces.pop()) else {
                return Ok(());
            };
            ensure!(
                before.unit == after.unit,
                "the clock of one trace has an unknown rate: its times cannot be compared"
            );
            let mut diff = Diff::new(rows(before), rows(after));
            diff.rows.truncate(self.args.most());
            if !self.args.json {
                let look = look_of(self.style, TimeUnit::Nanoseconds);
                return to_stdout(|out| diff.write(&look, out));
            }
            document.diff = Some(diff);
        } else if !self.args.json || matches!(self.args.view, View::Graph | View::Rate) {
            return Ok(());
        }
        document.traces = self.traces;
        let document = json_document(&document)?;
        to_stdout(|out| out.write_all(document.as_bytes()))
    }
}

impl Rows {
    fn write(&self, look: &Look, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Table(rows) => TableRow::write(rows, look, out),
            Self::Stalls(rows) => StallRow::write(rows, look, out),
            Self::Histogram(rows) => rows.iter().try_for_each(|row| row.write(look, out)),
        }
    }
}

/// Passes all steps to `push`.
fn collect(source: &mut Watched, mut push: impl FnMut(&Step, &Catalog)) -> Result<(), ReadError> {
    walk(source, |catalog, step| {
        push(&step, catalog);
        Ok(())
    })
}

/// Prints while reading. The outer error is the output's, the inner one the input's.
fn streamed(
    print: impl FnOnce(&mut dyn Write) -> Result<(), Stop>,
) -> Result<Result<(), ReadError>> {
    let mut ended = Ok(());
    to_stdout(|out| match print(out) {
        Ok(()) | Err(Stop::Done) => Ok(()),
        Err(Stop::Write(error)) => Err(error),
        Err(Stop::Read(error)) => {
            ended = Err(error);
            Ok(())
        }
    })?;
    Ok(ended)
}

const fn unit(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Nanoseconds => "ns",
        TimeUnit::Ticks => "ticks",
    }
}
