//! The tour: a short form of every experiment, and one table of their figures.
//!
//! Each experiment supplies a [`Part`] in its own folder.

mod expected;
mod part;
pub mod ran;
mod runs;
mod table;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::document::document;
use super::entry::Entry;
use super::experiment::print;
pub use part::{Limit, Part, Pick, Row, Unit, Value};
use runs::Runs;

/// Runs the tour, and writes its figures to `json`.
pub fn run(entries: &'static [Entry], json: Option<&Path>) -> Result<()> {
    let runs = Runs::of(entries);
    let text = table::text(entries, &runs);
    // Files first: a reader of the output may stop reading.
    if let Some(file) = json {
        let document = document(&runs.machines(), &runs.figures(), &())?;
        fs::write(file, document).with_context(|| format!("--json {}", file.display()))?;
    }
    print(&text)?;
    let mut faults = runs.faults();
    faults.extend(table::faults(entries, &runs));
    if !faults.is_empty() {
        bail!(
            "the tour is not as it should be:\n  {}",
            faults.join("\n  ")
        );
    }
    Ok(())
}
