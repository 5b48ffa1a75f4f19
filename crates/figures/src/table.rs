//! Tables and numbers for readers.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::figure::Row;
use crate::metric::Metric;

/// A column of a table over figures.
pub struct Column {
    /// The column's heading.
    pub header: &'static str,
    value: Value,
    case: Option<&'static str>,
    show: fn(f64) -> String,
    missing: &'static str,
}

/// A cell's value.
#[derive(Clone, Copy)]
enum Value {
    /// The row's figure of this metric.
    Metric(&'static Metric),
    /// A value that is derived from the row's figures.
    Derived(fn(&Row<'_>) -> Option<f64>),
}

impl Column {
    /// Shows the figures of `metric`.
    pub const fn of(
        header: &'static str,
        metric: &'static Metric,
        show: fn(f64) -> String,
    ) -> Self {
        Self::with(header, Value::Metric(metric), show)
    }

    /// Shows a value that is derived from each row.
    pub const fn new(
        header: &'static str,
        value: fn(&Row<'_>) -> Option<f64>,
        show: fn(f64) -> String,
    ) -> Self {
        Self::with(header, Value::Derived(value), show)
    }

    const fn with(header: &'static str, value: Value, show: fn(f64) -> String) -> Self {
        Self {
            header,
            value,
            case: None,
            show,
            missing: "-",
        }
    }

    /// Shows the figures of this case, and not those of the row's.
    #[must_use]
    pub const fn of_case(mut self, case: &'static str) -> Self {
        self.case = Some(case);
        self
    }

    /// Shows this where there is no value.
    pub const fn or(mut self, missing: &'static str) -> Self {
        self.missing = missing;
        self
    }

    /// Returns the row's value, if it has one.
    pub fn value(&self, row: &Row<'_>) -> Option<f64> {
        match self.value {
            Value::Metric(metric) => row.of_case(self.case.or(row.case)).get(metric),
            Value::Derived(value) => value(row),
        }
    }

    /// Returns the text for the row.
    pub fn cell(&self, row: &Row<'_>) -> String {
        let value = self.value(row);
        value.map_or_else(|| self.missing.to_owned(), self.show)
    }
}

/// Returns a table with a line for each of `rows`. Its labels come first.
pub fn table<'a, const LABELS: usize>(
    labels: [&str; LABELS],
    columns: &[Column],
    rows: impl IntoIterator<Item = ([&'a str; LABELS], Row<'a>)>,
) -> String {
    let mut table = Table::new();
    let headers = columns.iter().map(|column| column.header);
    table.set_header(labels.into_iter().chain(headers));
    for (labels, row) in rows {
        let cells = columns.iter().map(|column| column.cell(&row));
        table.add_row(labels.map(str::to_owned).into_iter().chain(cells));
    }
    aligned(table, LABELS)
}

/// Returns the table's lines, with the columns after the first `text` aligned to the right.
pub fn aligned(mut table: Table, text: usize) -> String {
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    for column in table.column_iter_mut().skip(text) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines: Vec<_> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n")
}

/// Returns `1 CPU`, `2 CPUs`.
pub fn cpus(n: impl Into<usize>) -> String {
    match n.into() {
        1 => "1 CPU".to_owned(),
        n => format!("{n} CPUs"),
    }
}

/// Returns `2 CPUs on 4 of the host`.
pub fn cpus_on_host(n: u16) -> String {
    format!("{} on {} of the host", cpus(n), host_cpus())
}

/// Returns the number of the host's CPUs.
pub fn host_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Formats a value without decimals.
pub fn whole(value: f64) -> String {
    format!("{value:.0}")
}

/// Formats a value with one decimal.
pub fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

/// Formats a value with two decimals.
pub fn hundredths(value: f64) -> String {
    format!("{value:.2}")
}

/// Formats a value with four decimals.
pub fn four_decimals(value: f64) -> String {
    format!("{value:.4}")
}

/// Formats a share as a percentage with one decimal.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Formats nanoseconds with three digits and a unit: `86.8 us`.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5 => return format!("{ns:.0} ns"),
        ns if ns < 999_500.0 => (ns / 1e3, "us"),
        ns if ns < 999_500_000.0 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_that_a_person_would_choose() {
        assert_eq!(time(812.4), "812 ns");
        assert_eq!(time(3_400.0), "3.40 us");
        assert_eq!(time(86_805.0), "86.8 us");
        assert_eq!(time(12_345_678.0), "12.3 ms");
        assert_eq!(time(3_142_000_000.0), "3.14 s");
    }
}
