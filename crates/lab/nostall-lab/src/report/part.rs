//! The part of a page that an experiment supplies: the reason of a stall, and what its figures mean.

use serde::Serialize;

use super::group::{Group, Metric};
use super::text::value;
use nostall_figures::figure::metric_and_case;

/// An experiment's part of the page.
pub struct PagePart {
    /// Reason why a CPU stalls on this path.
    pub stall: &'static str,
    /// Title of its recorded time lines.
    pub lanes: &'static str,
    /// Starts of the names of nostall's own strategies. The others are those of Linux and of other
    /// crates, and the ways that cause a stall.
    pub ours: &'static [&'static str],
    /// Figures that explain a stall, in the order of the page.
    pub metrics: &'static [MetricPart],
    /// Returns the bound of a metric in the document with this number, if it is known.
    pub bound: fn(&Group<'_>, usize, Metric<'_>) -> Option<Bound>,
}

/// A figure that explains a stall.
pub struct MetricPart {
    /// Its name, with its case if it has one.
    pub name: &'static str,
    pub title: &'static str,
    /// Machines whose figures are drawn. All are in the table.
    pub drawn: &'static [&'static str],
}

impl MetricPart {
    pub const fn new(
        name: &'static str,
        title: &'static str,
        drawn: &'static [&'static str],
    ) -> Self {
        Self { name, title, drawn }
    }
}

/// Machines of figures that are drawn wherever they were measured.
pub const EVERYWHERE: &[&str] = &["kvm", "qemu", "model", "host-threads"];

/// Value that nothing can go below, the reason, and the unit.
pub type Bound = (f64, &'static str, &'static str);

/// Returns the part of the experiment with this name, if there is one.
pub type Parts = fn(&str) -> Option<&'static PagePart>;

impl PagePart {
    /// Returns the plain name of a metric, if it explains a stall.
    pub fn title(&self, metric: Metric<'_>) -> Option<&'static str> {
        let mut metrics = self.metrics.iter();
        let found = metrics.find(|one| metric_and_case(one.name) == metric)?;
        Some(found.title)
    }

    /// Returns the limit of a metric in the document with this number, if it is known.
    pub fn limit(&self, group: &Group<'_>, source: usize, metric: Metric<'_>) -> Option<Limit> {
        let (bound, why, unit) = (self.bound)(group, source, metric)?;
        bound.is_finite().then(|| Limit {
            value: bound,
            text: value(bound, unit),
            why,
        })
    }

    /// Returns whether a strategy is nostall's own.
    pub fn is_ours(&self, strategy: &str) -> bool {
        // The row beside Linux.
        strategy == "nostall" || self.ours.iter().any(|start| strategy.starts_with(start))
    }
}

/// Value that nothing can go below.
#[derive(Serialize)]
pub struct Limit {
    pub value: f64,
    pub text: String,
    pub why: &'static str,
}
