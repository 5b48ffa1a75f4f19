//! Rows of the tour: the comparisons that experiments supply.

use nostall_figures::metric::Metric;

/// Rows that an experiment supplies.
pub struct TourRows {
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
pub type Value = fn(&dyn Fn(&Metric) -> Option<f64>) -> Option<f64>;

/// Strategy of one run.
#[derive(Clone, Copy)]
pub struct Pick {
    /// Arguments of `nostall-lab run`.
    pub run: &'static str,
    /// The port, where a run has several.
    pub profile: Option<&'static str>,
    pub strategy: &'static str,
    /// Kind of work, where a run has several.
    pub case: Option<&'static str>,
}

impl Pick {
    /// The run, without a strategy.
    pub const fn of(run: &'static str) -> Self {
        Self {
            run,
            profile: None,
            strategy: "",
            case: None,
        }
    }

    /// A strategy of the run.
    pub const fn by(self, strategy: &'static str) -> Self {
        Self { strategy, ..self }
    }

    /// The same strategy on one port of several.
    pub const fn on_port(self, profile: &'static str) -> Self {
        let profile = Some(profile);
        Self { profile, ..self }
    }

    /// The same strategy in one kind of work.
    pub const fn of_case(self, case: &'static str) -> Self {
        let case = Some(case);
        Self { case, ..self }
    }

    /// Returns the key of a figure of this strategy in `bench/expected.json`.
    pub fn key(&self, metric: &Metric) -> String {
        let (name, case) = metric.key(self.case);
        key(self.strategy, self.profile, &name, case)
    }
}

/// Returns the key of a figure in `bench/expected.json`.
pub fn key(strategy: &str, profile: Option<&str>, metric: &str, case: Option<&str>) -> String {
    let words = [Some(strategy), profile, Some(metric), case];
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
    /// Compares three strategies of one run: before, Linux with its fix, and nostall.
    pub const fn new(
        (name, unit, value): (&'static str, Unit, Value),
        run: Pick,
        [before, fix, nostall]: [&'static str; 3],
    ) -> Self {
        Self {
            name,
            unit,
            value,
            before: run.by(before),
            fix: Some(run.by(fix)),
            nostall: run.by(nostall),
            limit: Limit::Unknown,
        }
    }

    /// The same row with a limit.
    pub const fn limit(self, limit: Limit) -> Self {
        Self { limit, ..self }
    }

    /// The strategies of the row.
    pub fn picks(&self) -> impl Iterator<Item = &Pick> {
        let limit = match &self.limit {
            Limit::Measured(pick, _) => Some(pick),
            _ => None,
        };
        let first = [Some(&self.before), self.fix.as_ref()];
        let all = first.into_iter().chain([Some(&self.nostall), limit]);
        all.flatten()
    }
}
