//! Latency histograms of functions.

use std::cmp::Reverse;
use std::io::{self, Write};

use serde::Serialize;

use super::number::{count, time};
use super::{Look, Table};
use crate::model::Catalog;

/// Histogram of the durations of one function's calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// Function's name.
    pub function: String,
    /// Number of calls with a duration.
    pub timed: u64,
    /// Buckets of powers of two, from the shortest duration to the longest.
    pub buckets: Vec<Bucket>,
}

/// Number of durations from one power of two to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// Lower bound: 0, or a power of two.
    pub from: u64,
    /// Number of calls.
    pub calls: u64,
}

impl Histogram {
    /// Returns the histograms of the functions in `table`, by descending number of calls.
    pub fn of(table: &Table, catalog: &Catalog) -> Vec<Self> {
        let called = table.called(catalog).filter(|(_, it)| it.spread.count > 0);
        let histograms = called.map(|(name, function)| {
            let octaves = function.spread.octaves().into_iter();
            Self {
                function: name.to_owned(),
                timed: function.spread.count,
                buckets: octaves
                    .map(|(from, calls)| Bucket { from, calls })
                    .collect(),
            }
        });
        let mut histograms: Vec<_> = histograms.collect();
        histograms.sort_by_key(|histogram| Reverse(histogram.timed));
        histograms
    }

    /// Writes the histogram as text.
    ///
    /// # Errors
    ///
    /// The error of `out`.
    pub fn write(&self, look: &Look, out: &mut dyn Write) -> io::Result<()> {
        let calls = format!("  {} calls", count(self.timed as f64));
        let name = look.name(&self.function, calls.len());
        writeln!(out, "{}", look.heading(&format!("{name}{calls}")))?;
        let bar = look.width.unwrap_or(80).saturating_sub(38).clamp(8, 100);
        let most = self.buckets.iter().map(|it| it.calls).max().unwrap_or(1);
        for bucket in &self.buckets {
            let next = match bucket.from {
                0 => 1,
                from => from.saturating_mul(2),
            };
            let filled = (bucket.calls as f64 / most.max(1) as f64 * bar as f64).ceil();
            writeln!(
                out,
                "{:>10} .. {:>10} {:>8} |{:<bar$}|",
                time(bucket.from, look.unit),
                time(next, look.unit),
                count(bucket.calls as f64),
                "@".repeat(filled as usize)
            )?;
        }
        Ok(())
    }
}
