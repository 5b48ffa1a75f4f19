//! The tour: a short form of every experiment, and one table of their figures.
//!
//! Each experiment supplies a [`Part`] in its own folder.

mod expected;
pub mod runs;
mod table;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Error, Result, bail};

use super::Entry;
use super::document::document;
use super::experiment::print;
use runs::Runs;

/// Rows that an experiment supplies.
pub struct Part {
    /// The stall, and Linux's fix.
    pub heading: &'static str,
    pub rows: &'static [Row],
}

/// Comparison of strategies: one line of the table.
pub struct Row {
    /// Thing that is compared.
    pub name: &'static str,
    pub unit: Unit,
    pub value: Value,
    pub before: Pick,
    /// Linux with its fix, where a run measures that.
    pub fix: Option<Pick>,
    pub nostall: Pick,
    pub limit: Limit,
}

/// Computes a cell from the figures of one strategy, which it asks for by their metrics.
pub type Value = fn(&dyn Fn(&str) -> Option<f64>) -> Option<f64>;

/// Strategy of one run.
pub struct Pick {
    /// Arguments of `nostall run`.
    pub run: &'static str,
    /// The port, where a run has several.
    pub profile: Option<&'static str>,
    pub strategy: &'static str,
}

impl Pick {
    pub const fn new(run: &'static str, strategy: &'static str) -> Self {
        Self {
            run,
            profile: None,
            strategy,
        }
    }

    /// The same strategy on one port of several.
    pub const fn on_port(self, profile: &'static str) -> Self {
        let profile = Some(profile);
        Self { profile, ..self }
    }

    /// Key of a figure of this strategy in `bench/expected.json`.
    fn key(&self, metric: &str) -> String {
        key(self.strategy, self.profile, metric)
    }
}

fn key(strategy: &str, profile: Option<&str>, metric: &str) -> String {
    let words = [Some(strategy), profile, Some(metric)];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Value that nothing can go below.
pub enum Limit {
    /// Not known.
    Unknown,
    /// Follows from the port's timing or from the work.
    Derived(f64),
    /// Measured.
    Measured(Pick, Value),
}

/// Form of a row's cells.
#[derive(Clone, Copy)]
pub enum Unit {
    Count,
    Nanoseconds,
    Share,
}

impl Row {
    /// The strategies of the row.
    fn picks(&self) -> impl Iterator<Item = &Pick> {
        let limit = match &self.limit {
            Limit::Measured(pick, _) => Some(pick),
            _ => None,
        };
        let first = [Some(&self.before), self.fix.as_ref()];
        let all = first.into_iter().chain([Some(&self.nostall), limit]);
        all.flatten()
    }
}

fn of_json(path: &Path) -> String {
    format!("--json {}", path.display())
}

/// Runs the tour, and writes its figures to `json`.
pub fn run(entries: &'static [Entry], json: Option<&Path>) -> Result<()> {
    // A path that cannot be written is reported before the runs take a minute.
    let create = |path: &Path| File::create(path).with_context(|| of_json(path));
    let json = json.map(|path| Ok::<_, Error>((path, create(path)?)));
    let json = json.transpose()?;
    let runs = Runs::of(entries);
    // Files first: a reader of the output may stop reading.
    let written = json.map_or(Ok(()), |(path, mut file)| {
        let document = document(&runs.machines(), &runs.figures(), &())?;
        file.write_all(document.as_bytes())
            .with_context(|| of_json(path))
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
