//! Comparison of two traces by function.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::columns::Columns;
use super::number::{count, time};
use super::{Look, TableRow};

/// Comparison of two traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// Functions of both traces, greatest change of the total first.
    pub rows: Vec<DiffRow>,
}

/// One function in two traces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiffRow {
    /// Function's name.
    pub function: String,
    /// Row of the first trace, if the function was called there.
    pub before: Option<TableRow>,
    /// Row of the second trace, if the function was called there.
    pub after: Option<TableRow>,
}

impl DiffRow {
    /// Returns the sums of durations in the first and second trace.
    fn totals(&self) -> [u64; 2] {
        [&self.before, &self.after].map(|row| row.as_ref().map_or(0, |row| row.total))
    }
}

impl Diff {
    /// Compares the rows of two tables.
    pub fn new(before: Vec<TableRow>, after: Vec<TableRow>) -> Self {
        let mut functions: BTreeMap<String, [Option<TableRow>; 2]> = BTreeMap::new();
        for (at, rows) in [before, after].into_iter().enumerate() {
            for row in rows {
                let name = row.function.clone();
                functions.entry(name).or_default()[at] = Some(row);
            }
        }
        let rows = functions.into_iter();
        let mut rows: Vec<_> = rows
            .map(|(function, [before, after])| DiffRow {
                function,
                before,
                after,
            })
            .collect();
        rows.sort_by_key(|row| {
            let [before, after] = row.totals();
            Reverse(before.abs_diff(after))
        });
        Self { rows }
    }

    /// Writes the comparison as text.
    ///
    /// # Errors
    ///
    /// The error of `out`.
    pub fn write(&self, look: &Look, out: &mut dyn Write) -> io::Result<()> {
        let heads = [
            "calls", "then", "total", "then", "change", "p50", "then", "function",
        ];
        let mut columns = Columns::new(look, &heads);
        for row in &self.rows {
            let sides = [&row.before, &row.after];
            let calls = sides.map(|row| cell(row, |row| count(row.calls as f64)));
            let timed = |of: fn(&TableRow) -> u64| {
                sides.map(|row| match row {
                    Some(row) if row.timed > 0 => time(of(row), look.unit),
                    _ => "-".to_owned(),
                })
            };
            let totals = timed(|row| row.total);
            let p50 = timed(|row| row.p50);
            let [before, after] = row.totals();
            let change = match (after, before) {
                (0, _) | (_, 0) => "-".to_owned(),
                (after, before) => format!("x{:.2}", after as f64 / before as f64),
            };
            let cells = calls.into_iter().chain(totals).chain([change]).chain(p50);
            columns.row(cells, &row.function);
        }
        columns.write(out)
    }
}

fn cell(row: &Option<TableRow>, text: impl Fn(&TableRow) -> String) -> String {
    row.as_ref().map_or_else(|| "-".to_owned(), text)
}
