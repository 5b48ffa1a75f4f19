//! Waits for devices.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};

use serde::Serialize;

use super::columns::Columns;
use super::number::{count, time};
use super::{Look, Selection};
use crate::graph::Step;
use crate::model::{Catalog, EventKind, Name};

/// Maximum number of rows. Further pairs of condition and place are counted together.
const MOST: usize = 1 << 16;

/// Waits by condition and place.
#[derive(Debug, Default)]
pub struct Stalls {
    selection: Selection,
    waits: HashMap<Option<(Name, Option<Name>)>, Waits>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    count: u64,
    total: u64,
    max: u64,
}

/// Waits for one condition in one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StallRow {
    /// Awaited condition.
    pub condition: String,
    /// Waiting function or file; empty if unknown.
    pub place: String,
    /// Number of waits.
    pub count: u64,
    /// Sum of the durations.
    pub total: u64,
    /// Longest duration.
    pub max: u64,
}

impl Stalls {
    /// Creates a report of the stalls on the CPUs in `selection`, whose patterns select places.
    pub fn new(selection: Selection) -> Self {
        Self {
            selection,
            waits: HashMap::new(),
        }
    }

    /// Processes a step.
    pub fn push(&mut self, step: &Step, catalog: &Catalog) {
        let Step::Event(event) = step else { return };
        let EventKind::Stall {
            condition,
            place,
            duration,
        } = event.kind
        else {
            return;
        };
        let is_chosen = !self.selection.has_patterns()
            || place.is_some_and(|place| self.selection.function(place, catalog));
        if !is_chosen || !self.selection.cpu(event.cpu) {
            return;
        }
        let mut key = Some((condition, place));
        if self.waits.len() >= MOST && !self.waits.contains_key(&key) {
            key = None;
        }
        let waits = self.waits.entry(key).or_default();
        waits.count += 1;
        waits.total = waits.total.saturating_add(duration);
        waits.max = waits.max.max(duration);
    }

    /// Returns the rows, by descending total.
    pub fn rows(&self, catalog: &Catalog) -> Vec<StallRow> {
        let mut rows: Vec<_> = self
            .waits
            .iter()
            .map(|(key, waits)| StallRow {
                condition: match key {
                    Some((condition, _)) => catalog.text(*condition).to_owned(),
                    None => "(other conditions)".to_owned(),
                },
                place: key
                    .and_then(|(_, place)| place)
                    .map_or_else(String::new, |place| catalog.text(place).to_owned()),
                count: waits.count,
                total: waits.total,
                max: waits.max,
            })
            .collect();
        rows.sort_by(|a, b| (&a.condition, &a.place).cmp(&(&b.condition, &b.place)));
        rows.sort_by_key(|row| Reverse((row.total, row.count)));
        rows
    }
}

impl StallRow {
    /// Writes rows as text.
    ///
    /// # Errors
    ///
    /// The error of `out`.
    pub fn write(rows: &[Self], look: &Look, out: &mut dyn Write) -> io::Result<()> {
        let mut columns = Columns::new(look, &["stalls", "total", "max", "condition, place"]);
        for row in rows {
            let cells = [
                count(row.count as f64),
                time(row.total, look.unit),
                time(row.max, look.unit),
            ];
            let place = match &*row.place {
                "" => row.condition.clone(),
                place => format!("{}, {place}", row.condition),
            };
            columns.row(cells, &place);
        }
        columns.write(out)
    }
}
