//! The tour: a short form of every experiment, and one table of their figures.
//!
//! Each experiment supplies a [`TourRows`](row::TourRows) in its own folder.

mod expected;
pub mod row;
pub mod run_result;
mod runs;
pub mod summary;
mod table;

use anyhow::{Result, bail};

use super::document;
use super::entry::Entry;
use super::files::Files;
use crate::report::drawing::DRAWINGS;
use crate::report::page::Supplied;
use run_result::gathered;
use runs::Runs;

/// Runs the tour, and writes its figures to `files`.
pub fn run(entries: &'static [Entry], files: &Files, supplied: Supplied) -> Result<()> {
    // A path that cannot be written is reported before the runs take a minute.
    files.probe()?;
    let tour = Tour::of(entries);
    // Files first: a reader of the output may stop reading.
    let mut all = gathered(tour.runs.made());
    all.found.retain(|name, _| name == DRAWINGS);
    let written = document::write(files, &all, supplied);
    files.print(&tour.text)?;
    let mut faults = tour.faults;
    faults.extend(written.err().map(|error| format!("{error:#}")));
    if !faults.is_empty() {
        bail!(
            "the tour is not as it should be:\n  {}",
            faults.join("\n  ")
        );
    }
    Ok(())
}

/// Result of the tour.
pub struct Tour {
    pub runs: Runs,
    /// The table.
    pub text: String,
    pub faults: Vec<String>,
}

impl Tour {
    /// Makes every run of the tour.
    pub fn of(entries: &'static [Entry]) -> Self {
        let runs = Runs::of(entries);
        let mut faults = runs.faults();
        faults.extend(table::faults(entries, &runs));
        Self {
            text: table::text(entries, &runs),
            faults,
            runs,
        }
    }
}
