//! The part of a page that an experiment supplies: the reason of a stall, and what its figures mean.

use serde::Serialize;

use super::group::{Group, MetricKey};
use super::text::value;
use nostall_figures::metric::{LimitScope, Metric, Shown};

/// An experiment's part of the page.
pub struct PagePart {
    /// Reason why a CPU stalls on this path.
    pub stall: &'static str,
    /// Title of its recorded time lines.
    pub lanes: &'static str,
    /// Starts of the names of nostall's own strategies. The others are those of Linux and of other
    /// crates, and the ways that cause a stall.
    pub ours: &'static [&'static str],
    /// Its metrics, those that explain a stall in the order of the page.
    pub metrics: &'static [&'static Metric],
}

/// Machines of figures that are drawn wherever they were measured.
pub const EVERYWHERE: &[&str] = &["kvm", "qemu", "model", "host-threads"];

/// Returns the part of the experiment with this name, if there is one.
pub type Parts = fn(&str) -> Option<&'static PagePart>;

impl PagePart {
    /// Returns a metric and the case of its figures, if the experiment has it.
    fn metric<'a>(&self, (name, case): MetricKey<'a>) -> Option<(&'static Metric, &'a str)> {
        let mut metrics = self.metrics.iter().copied();
        metrics.find_map(|one| Some((one, one.case_of(name, case)?)))
    }

    /// Returns the place of a metric on the page, if it explains a stall.
    pub fn shown(&self, key: MetricKey<'_>) -> Option<&'static Shown> {
        let (metric, case) = self.metric(key)?;
        metric.shown.iter().find(|one| one.case == case)
    }

    /// Returns the limit of a metric in the document with this number, if it is known.
    pub fn limit(&self, group: &Group<'_>, source: usize, key: MetricKey<'_>) -> Option<Limit> {
        let (metric, case) = self.metric(key)?;
        let limit = metric.limit.as_ref()?;
        let scope = LimitScope {
            on: group.on,
            port: group.profile.or_else(|| group.option("--profile")),
            case,
            strategies: &group.strategies,
            find: &|strategy, name| group.value(source, strategy, name),
        };
        let bound = (limit.value)(&scope).filter(|bound| bound.is_finite())?;
        Some(Limit {
            value: bound,
            text: value(bound, metric.unit),
            why: limit.why,
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
