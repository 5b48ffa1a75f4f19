//! The tour's rows of a document that was written earlier, or on another machine.

use std::cell::Cell;

use super::row::{Pick, Row};
use crate::experiments::entry::Entry;
use crate::report::page::TourSection;
use crate::report::source::Source;
use nostall_figures::figure::Figure;
use nostall_figures::metric::Metric;

/// Returns the rows whose figures the document has.
pub fn summary(entries: &[Entry], source: &Source) -> Vec<TourSection> {
    let parts = entries.iter().map(|entry| TourSection {
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

fn cells(row: &Row, source: &Source) -> Option<[String; 8]> {
    let value = |pick: &Pick, metric: &Metric| Some(find(source, pick, metric)?.value);
    // The machine of the figures that the cell is computed from. Others may have another.
    let on = Cell::new(None);
    (row.value)(&|metric| {
        let figure = find(source, &row.nostall, metric)?;
        on.set(Some(&figure.on));
        Some(figure.value)
    });
    let on = on.get()?;
    let [before, linux, nostall, limit, factor, to_linux] = row.cells(value);
    let cell = |cell: Option<String>| cell.unwrap_or("-".to_owned());
    Some([
        row.name.to_owned(),
        cell(before),
        cell(linux),
        cell(nostall),
        cell(limit),
        cell(factor),
        cell(to_linux),
        on.to_owned(),
    ])
}

/// Returns a figure of a strategy in its run.
fn find<'a>(source: &'a Source, pick: &Pick, metric: &Metric) -> Option<&'a Figure> {
    let (name, case) = metric.key(pick.case);
    let mut figures = source.figures.iter();
    figures.find(|figure| {
        let command = figure.command.as_deref().unwrap_or_default();
        figure.strategy == pick.strategy
            && figure.profile.as_deref() == pick.profile
            && (&*figure.metric, figure.case.as_deref()) == (&*name, case)
            && command.strip_prefix("nostall-lab run ") == Some(pick.run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::EXPERIMENTS;

    #[test]
    fn a_row_has_the_machine_of_its_own_figures() {
        let figure = |on: &str, strategy: &str, metric: &str, value: u32| {
            format!(
                r#"{{"path": "spi", "strategy": {strategy:?}, "on": {on:?}, "metric": {metric:?},
                    "value": {value}, "command": "nostall-lab run spi --on model --frames 1000"}}"#
            )
        };
        let results = [
            figure("model", "caller", "flash_sector_erase_ns", 7),
            figure("host-threads", "caller", "wakeups", 1),
            figure("host-threads", "caller", "messages", 10),
            figure("host-threads", "pump", "wakeups", 5),
            figure("host-threads", "pump", "messages", 10),
        ];
        let text = format!(r#"{{"schema": 2, "results": [{}]}}"#, results.join(","));
        let source = Source::parse("a.json".to_owned(), text).unwrap();
        let parts = summary(EXPERIMENTS, &source);
        assert_eq!(parts.len(), 1);
        let cells = [
            "wake-ups per message",
            "0.5",
            "-",
            "0.1",
            "0",
            "5.0",
            "-",
            "host-threads",
        ];
        assert_eq!(parts[0].rows[0], cells);
    }
}
