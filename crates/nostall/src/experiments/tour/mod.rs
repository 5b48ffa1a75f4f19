//! The tour: a short form of every experiment, and one table of their figures.
//!
//! Each experiment supplies a [`Part`](row::Part) in its own folder.

mod expected;
pub mod ran;
pub mod row;
mod runs;
mod table;

use std::path::Path;

use anyhow::{Result, bail};

use super::document;
use super::entry::Entry;
use super::experiment::print;
use runs::Runs;

/// Runs the tour, and writes its figures to `json`.
pub fn run(entries: &'static [Entry], json: Option<&Path>) -> Result<()> {
    // A path that cannot be written is reported before the runs take a minute.
    json.map_or(Ok(()), document::probe)?;
    let runs = Runs::of(entries);
    // Files first: a reader of the output may stop reading.
    let written = json.map_or(Ok(()), |path| {
        document::write(path, &runs.machines(), &runs.figures(), &())
    });
    print(&table::text(entries, &runs))?;
    let mut faults = runs.faults();
    faults.extend(table::faults(entries, &runs));
    faults.extend(written.err().map(|error| format!("{error:#}")));
    if !faults.is_empty() {
        bail!(
            "the tour is not as it should be:\n  {}",
            faults.join("\n  ")
        );
    }
    Ok(())
}
