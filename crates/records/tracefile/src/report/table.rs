//! Calls and times by function.

use std::cmp::Reverse;
use std::io::{self, Write};

use serde::Serialize;

use super::columns::Columns;
use super::number::{count, time};
use super::spread::Spread;
use super::{Look, Selection};
use crate::graph::{Match, Slice, Step};
use crate::model::{Catalog, EventKind, Name};

/// Maximum number of functions with their own row. The others share one.
const MOST: usize = 1 << 17;

/// Calls and times of each function.
#[derive(Debug, Default)]
pub struct Table {
    selection: Selection,
    /// Functions by name number; the last one counts all names beyond [`MOST`].
    functions: Vec<Function>,
    /// Exits without an entry and without a name.
    unnamed: Function,
}

/// Calls of one function.
#[derive(Clone, Debug, Default)]
pub(super) struct Function {
    calls: u64,
    unmatched: u64,
    total: u64,
    own: u64,
    pub(super) spread: Spread,
}

/// Row of one function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableRow {
    /// Function's name.
    pub function: String,
    /// Number of calls with an entry or an exit in the trace.
    pub calls: u64,
    /// Number of calls without an entry or exit, and without a recorded duration.
    pub unmatched: u64,
    /// Number of calls with a duration. The times refer to these.
    pub timed: u64,
    /// Sum of the durations. A recursive function's inner calls count as a part of the outermost.
    pub total: u64,
    /// Sum of the durations without the called functions.
    #[serde(rename = "self")]
    pub own: u64,
    /// Shortest duration.
    pub min: u64,
    /// Median of the durations.
    pub p50: u64,
    /// Duration that 99 of 100 calls do not exceed.
    pub p99: u64,
    /// Longest duration.
    pub max: u64,
}

/// Order of the rows; all but names are in descending order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Sum of the durations.
    #[default]
    Total,
    /// Sum of the durations without the called functions.
    Own,
    /// Number of calls.
    Calls,
    /// Median.
    P50,
    /// Duration that 99 of 100 calls do not exceed.
    P99,
    /// Longest duration.
    Max,
    /// Name, in alphabetical order.
    Name,
}

impl Table {
    /// Creates a table of the functions and CPUs in `selection`.
    pub fn new(selection: Selection) -> Self {
        Self {
            selection,
            ..Self::default()
        }
    }

    /// Processes a step.
    #[inline]
    pub fn push(&mut self, step: &Step, catalog: &Catalog) {
        match step {
            Step::Enter(_) => {}
            Step::Leave(slice) => self.slice(slice, catalog),
            Step::Event(event) => {
                if let EventKind::Call { function, .. } = event.kind
                    && self.selection.cpu(event.cpu)
                    && self.selection.function(function, catalog)
                {
                    self.function(function).calls += 1;
                }
            }
        }
    }

    #[inline]
    fn slice(&mut self, slice: &Slice, catalog: &Catalog) {
        let is_chosen = match slice.function {
            Some(name) => self.selection.function(name, catalog),
            None => !self.selection.has_patterns(),
        };
        if !is_chosen || !self.selection.cpu(slice.cpu) {
            return;
        }
        let function = match slice.function {
            Some(name) => self.function(name),
            None => &mut self.unnamed,
        };
        function.calls += 1;
        let is_unmatched = slice.matched != Match::Paired && slice.duration.is_none();
        function.unmatched += u64::from(is_unmatched);
        if let (Some(duration), Some(own)) = (slice.duration, slice.own()) {
            if !slice.is_recursive {
                function.total = function.total.saturating_add(duration);
            }
            function.own = function.own.saturating_add(own);
            function.spread.add(duration);
        }
    }

    #[inline]
    fn function(&mut self, name: Name) -> &mut Function {
        let at = (name.0 as usize).min(MOST);
        if at >= self.functions.len() {
            self.functions.resize(at + 1, Function::default());
        }
        &mut self.functions[at]
    }

    /// Returns the called functions with their names.
    pub(super) fn called<'a>(
        &'a self,
        catalog: &'a Catalog,
    ) -> impl Iterator<Item = (&'a str, &'a Function)> {
        let functions = self.functions.iter().enumerate();
        let named = functions.map(|(at, function)| match at {
            MOST => ("(other functions)", function),
            at => (catalog.text(Name(at as u32)), function),
        });
        let all = named.chain([("(unnamed)", &self.unnamed)]);
        all.filter(|(_, function)| function.calls > 0)
    }

    /// Returns the rows in the given order.
    pub fn rows(&self, catalog: &Catalog, sort: Sort) -> Vec<TableRow> {
        let mut rows: Vec<_> = self
            .called(catalog)
            .map(|(name, function)| function.row(name))
            .collect();
        rows.sort_by(|a, b| a.function.cmp(&b.function));
        let key = |row: &TableRow| match sort {
            Sort::Total => row.total,
            Sort::Own => row.own,
            Sort::Calls => row.calls,
            Sort::P50 => row.p50,
            Sort::P99 => row.p99,
            Sort::Max => row.max,
            Sort::Name => 0,
        };
        rows.sort_by_key(|row| Reverse((key(row), if sort == Sort::Name { 0 } else { row.calls })));
        rows
    }
}

impl Function {
    fn row(&self, name: &str) -> TableRow {
        let spread = &self.spread;
        TableRow {
            function: name.to_owned(),
            calls: self.calls,
            unmatched: self.unmatched,
            timed: spread.count,
            total: self.total,
            own: self.own,
            min: spread.min,
            p50: spread.quantile(0.5),
            p99: spread.quantile(0.99),
            max: spread.max,
        }
    }
}

impl TableRow {
    /// Writes rows as text.
    ///
    /// # Errors
    ///
    /// The error of `out`.
    pub fn write(rows: &[Self], look: &Look, out: &mut dyn Write) -> io::Result<()> {
        let heads = [
            "calls", "total", "self", "min", "p50", "p99", "max", "function",
        ];
        let mut columns = Columns::new(look, &heads);
        for row in rows {
            let times = [row.total, row.own, row.min, row.p50, row.p99, row.max];
            let times = times.map(|value| match row.timed {
                0 => "-".to_owned(),
                _ => time(value, look.unit),
            });
            let calls = match row.unmatched {
                0 => count(row.calls as f64),
                _ => format!("*{}", count(row.calls as f64)),
            };
            columns.row([calls].into_iter().chain(times), &row.function);
        }
        columns.write(out)?;
        let unmatched: u64 = rows.iter().map(|row| row.unmatched).sum();
        if unmatched > 0 {
            let line = format!("* calls without an entry or without an exit: {unmatched}");
            writeln!(out, "{}", look.doubt(&line))?;
        }
        Ok(())
    }
}
