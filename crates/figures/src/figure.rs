//! Figures: the only form of a result after the guest's report.

use std::fmt::Display;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize};

use crate::metric::Metric;
use crate::numbers::median;

/// Result of an experiment: the form in which it is computed, written as JSON, and read again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Path of I/O that is measured.
    pub path: String,
    /// Row of the comparison.
    pub strategy: String,
    /// Machine that it was measured on.
    pub on: String,
    /// The port, where several are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Stable name of the thing counted.
    pub metric: String,
    /// Kind of work, where one metric is measured for several and its name has none of them:
    /// [`write_of`], [`BY_LINE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// The value, in `unit`. In JSON, `null` is a ratio without a finite value.
    #[serde(deserialize_with = "number_or_null")]
    pub value: f64,
    /// Unit of the value: `1`, `ns`, `1/s`, `B`.
    #[serde(default)]
    pub unit: String,
    /// Number of measurements that it is the median of.
    #[serde(default)]
    pub n: usize,
    /// Smallest of the measurements, if there is more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Largest of the measurements, if there is more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Bound that the verdict holds it to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
    /// Command line that measures it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// Case of a text that is sent line by line. Its figures include the cost of each write.
pub const BY_LINE: &str = "by-line";

/// Returns the case of one write of so many bytes: `2500-byte-write`.
#[must_use]
pub fn write_of(bytes: impl Display) -> String {
    format!("{bytes}-byte-write")
}

fn number_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// Bound of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// The value is this or more.
    AtLeast(f64),
    /// The value is this or less.
    AtMost(f64),
    /// The value is this.
    Exactly(f64),
}

impl Goal {
    /// Returns the bound's value.
    pub const fn bound(self) -> f64 {
        let (Self::AtLeast(bound) | Self::AtMost(bound) | Self::Exactly(bound)) = self;
        bound
    }

    /// Returns whether `value` meets the goal.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
            Self::Exactly(bound) => value == bound,
        }
    }
}

impl Figure {
    /// Holds the figure to `goal`, and returns the first of its values that misses it.
    pub fn missed(&mut self, goal: Goal) -> Option<f64> {
        self.goal = Some(goal);
        let values = [Some(self.value), self.low, self.high];
        let mut missed = values.into_iter().flatten();
        missed.find(|value| !goal.is_met(*value))
    }
}

/// The figures of an experiment, in the order in which they were recorded.
#[derive(Debug)]
pub struct Figures {
    path: &'static str,
    /// Machine of the figures that follow.
    pub on: &'static str,
    all: Vec<Figure>,
}

impl Deref for Figures {
    type Target = [Figure];

    fn deref(&self) -> &[Figure] {
        &self.all
    }
}

impl Figures {
    /// Returns an empty list for the experiment `path` on the machine `on`.
    pub const fn new(path: &'static str, on: &'static str) -> Self {
        let all = Vec::new();
        Self { path, on, all }
    }

    /// Returns a recorder of one strategy's figures.
    pub fn record(&mut self, strategy: &'static str) -> Recorder<'_> {
        Recorder {
            figures: self,
            strategy,
            profile: None,
            case: None,
        }
    }

    /// Adds figures of other systems.
    pub fn add(&mut self, figures: Vec<Figure>) {
        self.all.extend(figures);
    }

    /// Returns the figures of one strategy.
    pub fn row<'a>(&'a self, strategy: &'a str) -> Row<'a> {
        Row {
            figures: self,
            strategy,
            profile: None,
            case: None,
        }
    }

    /// Returns the figure of this strategy, port and metric without a case, if there is one.
    pub fn find_mut(
        &mut self,
        strategy: &str,
        profile: Option<&str>,
        metric: &Metric,
    ) -> Option<&mut Figure> {
        let mut all = self.all.iter_mut();
        all.find(|one| {
            (&*one.strategy, one.profile.as_deref(), &*one.metric)
                == (strategy, profile, metric.name)
                && one.case.is_none()
        })
    }

    /// Gives every figure the command line that measures it again.
    pub fn set_command(&mut self, command: &str) {
        for figure in &mut self.all {
            figure.command = Some(command.to_owned());
        }
    }
}

/// Records the figures of one strategy.
pub struct Recorder<'a> {
    figures: &'a mut Figures,
    strategy: &'static str,
    profile: Option<String>,
    case: Option<String>,
}

impl Recorder<'_> {
    /// Sets the port of the figures that follow.
    #[must_use]
    pub fn on_port(mut self, profile: impl Into<String>) -> Self {
        self.profile = Some(profile.into());
        self
    }

    /// Sets the case of the figures that follow.
    #[must_use]
    pub fn of_case(mut self, case: Option<String>) -> Self {
        self.case = case;
        self
    }

    /// Records one value, or none if the machine cannot count it.
    pub fn value(&mut self, metric: &Metric, value: impl Into<Option<f64>>) -> Option<&mut Figure> {
        self.value_of(metric, value, [])
    }

    /// Records a value that was derived from the values of `rounds`.
    pub fn value_of(
        &mut self,
        metric: &Metric,
        value: impl Into<Option<f64>>,
        rounds: impl IntoIterator<Item = f64>,
    ) -> Option<&mut Figure> {
        let value = value.into()?;
        let rounds: Vec<_> = rounds.into_iter().collect();
        let several = (rounds.len() > 1).then_some(&rounds);
        let extreme =
            |of: fn(f64, f64) -> f64| several.and_then(|all| all.iter().copied().reduce(of));
        let (metric, unit) = (metric.key(self.case.as_deref()), metric.unit);
        self.figures.all.push(Figure {
            path: self.figures.path.to_owned(),
            strategy: self.strategy.to_owned(),
            on: self.figures.on.to_owned(),
            profile: self.profile.clone(),
            metric: metric.0.into_owned(),
            case: metric.1.map(str::to_owned),
            value,
            unit: unit.to_owned(),
            n: rounds.len().max(1),
            low: extreme(f64::min),
            high: extreme(f64::max),
            goal: None,
            command: None,
        });
        self.figures.all.last_mut()
    }

    /// Records the median of `rounds`, in units of `per`; nothing if there are none.
    pub fn median(
        &mut self,
        metric: &Metric,
        rounds: impl IntoIterator<Item = u64>,
        per: f64,
    ) -> Option<&mut Figure> {
        let rounds: Vec<_> = rounds.into_iter().collect();
        let value = (!rounds.is_empty()).then(|| median(rounds.clone()) as f64 / per);
        let rounds = rounds.into_iter().map(|one| one as f64 / per);
        self.value_of(metric, value, rounds)
    }
}

/// The figures of one row of a table.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    figures: &'a [Figure],
    /// The row's strategy.
    pub strategy: &'a str,
    profile: Option<&'a str>,
    /// The row's case, if it has one.
    pub case: Option<&'a str>,
}

impl<'a> Row<'a> {
    /// Returns the same row of another strategy.
    #[must_use]
    pub const fn of(self, strategy: &'a str) -> Self {
        Self { strategy, ..self }
    }

    /// Returns the same row of another case.
    #[must_use]
    pub const fn of_case(self, case: Option<&'a str>) -> Self {
        Self { case, ..self }
    }

    /// Returns the same row of another port.
    #[must_use]
    pub const fn on_port(self, profile: &'a str) -> Self {
        let profile = Some(profile);
        Self { profile, ..self }
    }

    /// Returns the row's figure of this metric, if there is one.
    #[must_use]
    pub fn figure(&self, metric: &Metric) -> Option<&'a Figure> {
        let (name, case) = metric.key(self.case);
        let key = (self.strategy, self.profile, &*name, case);
        self.figures.iter().find(|one| {
            let (profile, case) = (one.profile.as_deref(), one.case.as_deref());
            (&*one.strategy, profile, &*one.metric, case) == key
        })
    }

    /// Returns the value of this metric, if there is one.
    #[must_use]
    pub fn get(&self, metric: &Metric) -> Option<f64> {
        Some(self.figure(metric)?.value)
    }

    /// Returns the value of this metric in units of another.
    #[must_use]
    pub fn per(&self, metric: &Metric, other: &Metric) -> Option<f64> {
        Some(self.get(metric)? / self.get(other)?.max(f64::MIN_POSITIVE))
    }

    /// Returns the value of this metric in units of another strategy's.
    #[must_use]
    pub fn to(&self, strategy: &'a str, metric: &Metric) -> Option<f64> {
        Some(self.get(metric)? / self.of(strategy).get(metric)?.max(f64::MIN_POSITIVE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: Metric = Metric::new("ns", "ns");

    #[test]
    fn a_figure_without_a_finite_value_and_members_that_are_missing_are_read() {
        let text = r#"{"path": "p", "strategy": "s", "on": "o", "metric": "m", "value": null}"#;
        let figure: Figure = serde_json::from_str(text).unwrap();
        assert!(figure.value.is_nan() && figure.case.is_none() && figure.goal.is_none());
    }

    #[test]
    fn a_written_figure_is_read_again() {
        let mut figures = Figures::new("uart", "model");
        let mut record = figures.record("byte-polled").on_port("vm");
        record = record.of_case(Some(write_of(2_500)));
        let rounds = [1.0, 2.0, 3.0];
        let figure = record.value_of(&NS, 2.0, rounds).unwrap();
        assert_eq!(figure.missed(Goal::AtMost(2.5)), Some(3.0));
        let text = serde_json::to_string(&figures[0]).unwrap();
        assert_eq!(serde_json::from_str::<Figure>(&text).unwrap(), figures[0]);
        assert!(
            text.contains(r#""metric":"ns","case":"2500-byte-write""#),
            "{text}"
        );
    }

    #[test]
    fn a_row_finds_the_metrics_of_its_case() {
        let mut figures = Figures::new("uart", "model");
        figures.record("a").value(&NS, 1.0);
        let by_line = || Some(BY_LINE.to_owned());
        let named = Metric::new("ns_*", "ns");
        let mut record = figures.record("a").of_case(by_line());
        record.value(&NS, 2.0);
        record.value(&named, 3.0);
        assert_eq!(
            (&*figures[2].metric, figures[2].case.as_deref()),
            ("ns_by-line", None)
        );
        let row = figures.row("a");
        assert_eq!((row.get(&NS), row.get(&named)), (Some(1.0), None));
        let row = row.of_case(Some(BY_LINE));
        assert_eq!((row.get(&NS), row.get(&named)), (Some(2.0), Some(3.0)));
        assert_eq!(row.of_case(Some("other")).get(&NS), None);
    }
}
