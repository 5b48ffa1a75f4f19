//! Figures: the only form of a result after the guest's report.

use std::ops::Deref;

use serde::Serialize;

use crate::numbers::median;

/// Result of an experiment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figure {
    /// Path of I/O that is measured.
    pub path: &'static str,
    /// Row of the comparison.
    pub strategy: &'static str,
    /// Machine that it was measured on.
    pub on: &'static str,
    /// The port, where several are measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<&'static str>,
    /// Stable name of the thing counted.
    pub metric: String,
    /// The value, in `unit`.
    pub value: f64,
    /// Unit of the value: `1`, `ns`, `1/s`, `bytes`.
    pub unit: &'static str,
    /// Number of measurements that it is the median of.
    pub n: usize,
    /// Smallest of the measurements, if there is more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Largest of the measurements, if there is more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Bound that the verdict holds it to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
    /// Command line that measures it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// Bound of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
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
            part: String::new(),
        }
    }

    /// Adds figures of other systems.
    pub fn add(&mut self, figures: Vec<Figure>) {
        self.all.extend(figures);
    }

    /// Returns the figures of one strategy.
    pub fn row(&self, strategy: &'static str) -> Row<'_> {
        Row {
            figures: self,
            strategy,
            profile: None,
            part: "",
        }
    }

    /// Returns the figure of this strategy, port and metric, if there is one.
    pub fn find_mut(
        &mut self,
        strategy: &str,
        profile: Option<&str>,
        metric: &str,
    ) -> Option<&mut Figure> {
        let mut all = self.all.iter_mut();
        all.find(|one| (one.strategy, one.profile, &*one.metric) == (strategy, profile, metric))
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
    profile: Option<&'static str>,
    part: String,
}

impl Recorder<'_> {
    /// Sets the port of the figures that follow.
    pub const fn on_port(mut self, profile: &'static str) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Replaces each `*` in the metrics' names by `part`.
    pub fn of_part(mut self, part: impl ToString) -> Self {
        self.part = part.to_string();
        self
    }

    /// Records one value, or none if the machine cannot count it.
    pub fn value(
        &mut self,
        metric: &str,
        unit: &'static str,
        value: impl Into<Option<f64>>,
    ) -> Option<&mut Figure> {
        self.value_of(metric, unit, value, [])
    }

    /// Records a value that was derived from the values of `rounds`.
    pub fn value_of(
        &mut self,
        metric: &str,
        unit: &'static str,
        value: impl Into<Option<f64>>,
        rounds: impl IntoIterator<Item = f64>,
    ) -> Option<&mut Figure> {
        let value = value.into()?;
        let rounds: Vec<_> = rounds.into_iter().collect();
        let several = (rounds.len() > 1).then_some(&rounds);
        let extreme =
            |of: fn(f64, f64) -> f64| several.and_then(|all| all.iter().copied().reduce(of));
        self.figures.all.push(Figure {
            path: self.figures.path,
            strategy: self.strategy,
            on: self.figures.on,
            profile: self.profile,
            metric: metric.replace('*', &self.part),
            value,
            unit,
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
        metric: &str,
        unit: &'static str,
        rounds: impl IntoIterator<Item = u64>,
        per: f64,
    ) -> Option<&mut Figure> {
        let rounds: Vec<_> = rounds.into_iter().collect();
        let value = (!rounds.is_empty()).then(|| median(rounds.clone()) as f64 / per);
        let rounds = rounds.into_iter().map(|one| one as f64 / per);
        self.value_of(metric, unit, value, rounds)
    }
}

/// The figures of one row of a table.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    figures: &'a [Figure],
    /// The row's strategy.
    pub strategy: &'static str,
    profile: Option<&'static str>,
    /// Stands for each `*` in the metrics' names.
    pub part: &'a str,
}

impl<'a> Row<'a> {
    /// Returns the same row of another strategy.
    pub const fn of(self, strategy: &'static str) -> Self {
        Self { strategy, ..self }
    }

    /// Returns the row that measures `part`.
    pub const fn of_part(self, part: &'a str) -> Self {
        Self { part, ..self }
    }

    /// Returns the same row of another port.
    pub const fn on_port(self, profile: &'static str) -> Self {
        let profile = Some(profile);
        Self { profile, ..self }
    }

    /// Returns the row's figure of this metric, if there is one.
    pub fn figure(&self, metric: &str) -> Option<&'a Figure> {
        let metric = metric.replace('*', self.part);
        let key = (self.strategy, self.profile, metric);
        let mut figures = self.figures.iter();
        figures.find(|one| (one.strategy, one.profile, &one.metric) == (key.0, key.1, &key.2))
    }

    /// Returns the value of this metric, if there is one.
    pub fn get(&self, metric: &str) -> Option<f64> {
        Some(self.figure(metric)?.value)
    }

    /// Returns the value of this metric in units of another.
    pub fn per(&self, metric: &str, other: &str) -> Option<f64> {
        Some(self.get(metric)? / self.get(other)?.max(f64::MIN_POSITIVE))
    }

    /// Returns the value of this metric in units of another strategy's.
    pub fn to(&self, strategy: &'static str, metric: &str) -> Option<f64> {
        Some(self.get(metric)? / self.of(strategy).get(metric)?.max(f64::MIN_POSITIVE))
    }
}
