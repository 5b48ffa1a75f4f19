//! The tour's rows of a document that was written earlier, or on another machine.

use super::row::{Pick, Row};
use crate::experiments::entry::Entry;
use crate::report::page::Part;
use crate::report::source::{Figure, Source};

/// Returns the rows whose figures the document has.
pub fn summary(entries: &[Entry], source: &Source) -> Vec<Part> {
    let parts = entries.iter().map(|entry| Part {
        path: entry.name,
        heading: entry.tour.heading,
        rows: entry
            .tour
            .rows
            .iter()
            .filter_map(|row| cells(row, source))
            .collect(),
    });
    parts.filter(|part| !part.rows.is_empty()).collect()
}

fn cells(row: &Row, source: &Source) -> Option<[String; 7]> {
    let on = find(source, &row.nostall, None)?.on.as_str();
    let value = |pick: &Pick, metric: &str| find(source, pick, Some(metric))?.value;
    let [before, linux, nostall, limit, factor] = row.cells(value);
    let cell = |cell: Option<String>| cell.unwrap_or("-".to_owned());
    Some([
        row.name.to_owned(),
        cell(before),
        cell(linux),
        cell(nostall),
        cell(limit),
        cell(factor),
        on.to_owned(),
    ])
}

/// Returns a figure of a strategy in its run; any of them without `metric`.
fn find<'a>(source: &'a Source, pick: &Pick, metric: Option<&str>) -> Option<&'a Figure> {
    let mut figures = source.figures.iter();
    figures.find(|figure| {
        let command = figure.command.as_deref().unwrap_or_default();
        figure.strategy == pick.strategy
            && figure.profile.as_deref() == pick.profile
            && metric.is_none_or(|metric| figure.metric == metric)
            && command.strip_prefix("nostall run ") == Some(pick.run)
    })
}
