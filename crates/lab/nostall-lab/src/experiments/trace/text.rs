//! The text about recorded sendings and a recorded crash.

use std::io;

use anyhow::Result;
use nostall_uart::Strategy;
use nostall_work::trace::{PROFILE, SIZES};
use terminal_size::{Width, terminal_size_of};

use super::fold::fold;
use super::metrics;
use super::picture::{beside, draw};
use super::run::{Crash, Recorded};
use crate::experiments::experiment::Answer;
use nostall_figures::figure::write_of;
use nostall_figures::table::{Column, table, time, whole};

const COLUMNS: [Column; 7] = [
    Column::of("time", metrics::NS, time),
    Column::of("CPU held", metrics::STALLED_NS, time),
    Column::of("accesses", metrics::REGISTER_INSTRUCTIONS, whole),
    Column::of("| traced calls", metrics::TRACED_CALLS, whole),
    Column::of("polls", metrics::TRACED_POLLS, whole),
    Column::of("write", metrics::TRACED_WRITE_NS, time).or("overwritten"),
    Column::of("all", metrics::TRACED_NS, time).or("overwritten"),
];

const LEGEND: &str = "\
    CPU held: time that a second task on the same CPU did not get; polls: reads of\n\
    the line status; write: until the caller goes on; all: until the last bit has\n\
    left; overwritten: the trace is longer than its memory, and shows the end.\n\
    The article: 411 us for one byte, all of it polling (byte-polled).";

/// Number of first and of last lines of a picture.
const LINES: (usize, usize) = (9, 6);

/// Number of columns without a terminal.
const WIDTH: usize = 100;

/// Returns the text and the figures of the recorded sendings and crash.
pub fn answer(
    headline: &str,
    on: &'static str,
    recorded: &Recorded,
    symbols: &dyn Fn(u64) -> Option<String>,
) -> Result<Answer> {
    let (figures, faults) = fold(on, recorded, symbols)?;
    let of_first = recorded.sendings.first();
    let counts = of_first.map_or((0, 0), |one| (one.functions, one.refused));
    let records = match counts {
        (0, 0) => "recorded: the accesses to the port".to_owned(),
        (n, 0) => format!("recorded: the accesses to the port, and {n} functions"),
        (n, refused) => format!(
            "recorded: the accesses to the port, and {n} functions; \
             {refused} could not be patched, and their calls are missing"
        ),
    };
    let sizes = SIZES.map(|bytes| (bytes.to_string(), write_of(bytes)));
    let rows = sizes.iter().flat_map(|(bytes, case)| {
        Strategy::ALL.map(|strategy| {
            let row = figures.row(strategy.name()).of_case(Some(case));
            ([strategy.name(), bytes.as_str()], row)
        })
    });
    let mut parts = vec![
        format!("{headline}\nport like {}; {records}", PROFILE.name),
        table(["strategy", "bytes"], &COLUMNS, rows),
        LEGEND.to_owned(),
    ];
    let width = match terminal_size_of(io::stdout()) {
        Some((Width(columns), _)) => columns.into(),
        None => WIDTH,
    };
    let picture = |strategy| -> Result<Vec<String>> {
        let one = |sending: &&super::run::Sending| {
            (sending.strategy, sending.bytes) == (strategy, SIZES[0])
        };
        let sending = recorded.sendings.iter().find(one);
        sending.map_or(Ok(Vec::new()), |one| draw(&one.trace, symbols, LINES))
    };
    let [before, fix, burst, ours] = Strategy::ALL.map(picture);
    parts.push(beside(
        ("One byte, as in the article (byte-polled):", &before?),
        ("One byte, nostall (fifo-paced):", &ours?),
        width,
    ));
    parts.push(beside(
        ("One byte, Linux since 2022 (fifo-polled):", &fix?),
        ("One byte, nostall in a crash (fifo-burst):", &burst?),
        width,
    ));
    if let Some(Crash { trace, panic, .. }) = &recorded.crash {
        let (first, last) = LINES;
        let lines = draw(trace, symbols, (0, first + last))?;
        parts.push(format!(
            "Before the panic \"{panic}\":\n{}",
            lines.join("\n")
        ));
    }
    let success = match recorded.crash {
        Some(_) => {
            "The kernel panicked. The host read its last calls from the crashed machine's\n\
             RAM, and a second boot read the same."
        }
        None => "Every byte arrived, and each trace shows its sending.",
    };
    Ok(Answer::of(parts, figures, (), faults, |_| {
        success.to_owned()
    }))
}

#[cfg(test)]
mod tests {
    use super::super::model;
    use super::*;

    #[test]
    fn functions_that_could_not_be_patched_are_reported() {
        let mut recorded = model::run(None).unwrap();
        let text = |recorded: &Recorded| answer("", "model", recorded, &|_| None).unwrap().text;
        assert!(!text(&recorded).contains("patched"));
        for sending in &mut recorded.sendings {
            (sending.functions, sending.refused) = (812, 3);
        }
        let line = "recorded: the accesses to the port, and 812 functions; \
                    3 could not be patched, and their calls are missing\n";
        assert!(text(&recorded).contains(line), "{}", text(&recorded));
    }
}
