//! Metrics: things that are counted or timed, each named in one place.

use std::borrow::Cow;

/// Metric of an experiment. Its figures, the columns that show it and a page refer to it.
#[derive(Debug)]
pub struct Metric {
    /// Stable name. A `*` in it stands for the case. Without one, the case stands beside the name.
    pub name: &'static str,
    /// Unit of its values: `1`, `ns`, `1/s`, `B`.
    pub unit: &'static str,
    /// Thing that is counted, for a line about a fault.
    pub thing: &'static str,
    /// Its figures that explain a stall.
    pub shown: &'static [Shown],
    /// Value that nothing can go below.
    pub limit: Option<Bound>,
}

/// Figure of a metric that explains a stall, on a page.
#[derive(Debug)]
pub struct Shown {
    /// Its case; empty if it has none.
    pub case: &'static str,
    /// Title for readers.
    pub title: &'static str,
    /// Machines whose figures are drawn. All are in the table.
    pub drawn: &'static [&'static str],
}

/// Value that nothing can go below.
#[derive(Debug)]
pub struct Bound {
    /// Its reason.
    pub why: &'static str,
    /// Computes it for some figures, if it is known for them.
    pub value: fn(&LimitScope<'_>) -> Option<f64>,
}

/// Figures that a limit is for.
pub struct LimitScope<'a> {
    /// Their machine.
    pub on: &'a str,
    /// Their port, if they or their command name one.
    pub port: Option<&'a str>,
    /// Their case; empty if they have none.
    pub case: &'a str,
    /// Strategies that were measured with them.
    pub strategies: &'a [&'a str],
    /// Finds the value of a strategy's figure by the metric's name.
    pub find: &'a dyn Fn(&str, &str) -> Option<f64>,
}

impl LimitScope<'_> {
    /// Returns a value that was measured with these figures. It has the same case where the metric's
    /// name has a `*`, and else none.
    pub fn get(&self, strategy: &str, metric: &Metric) -> Option<f64> {
        (self.find)(strategy, &metric.name.replace('*', self.case))
    }

    /// Returns `limit` for figures without a case.
    pub fn without_case(&self, limit: f64) -> Option<f64> {
        self.case.is_empty().then_some(limit)
    }
}

impl Metric {
    /// A metric that is on no page.
    #[must_use]
    pub const fn new(name: &'static str, unit: &'static str) -> Self {
        let shown = &[];
        Self {
            name,
            unit,
            thing: "",
            shown,
            limit: None,
        }
    }

    /// The same metric with the name of the thing that is counted.
    #[must_use]
    pub const fn of(self, thing: &'static str) -> Self {
        Self { thing, ..self }
    }

    /// The same metric, whose figures explain a stall.
    #[must_use]
    pub const fn shown(self, shown: &'static [Shown]) -> Self {
        Self { shown, ..self }
    }

    /// The same metric with a limit and its reason.
    #[must_use]
    pub const fn limit(self, why: &'static str, value: fn(&LimitScope<'_>) -> Option<f64>) -> Self {
        let limit = Some(Bound { why, value });
        Self { limit, ..self }
    }

    /// Returns the name and the case that a figure has.
    #[must_use]
    pub fn key<'a>(&self, case: Option<&'a str>) -> (Cow<'static, str>, Option<&'a str>) {
        match (self.name.contains('*'), case) {
            (true, case) => (self.name.replace('*', case.unwrap_or("")).into(), None),
            (false, case) => (self.name.into(), case),
        }
    }

    /// Returns the case of a figure, empty if it has none; or `None` if it is of another metric.
    #[must_use]
    pub fn case_of<'a>(&self, name: &'a str, case: Option<&'a str>) -> Option<&'a str> {
        match self.name.split_once('*') {
            Some((start, end)) => name.strip_prefix(start)?.strip_suffix(end),
            None => (name == self.name).then_some(case.unwrap_or("")),
        }
    }
}

impl Shown {
    /// A figure without a case, which is drawn if it was measured on these machines.
    #[must_use]
    pub const fn new(title: &'static str, drawn: &'static [&'static str]) -> Self {
        Self::of("", title, drawn)
    }

    /// The figure of a case.
    #[must_use]
    pub const fn of(
        case: &'static str,
        title: &'static str,
        drawn: &'static [&'static str],
    ) -> Self {
        Self { case, title, drawn }
    }
}

/// Declares metrics, and `METRICS`, the table of them all.
#[macro_export]
macro_rules! metrics {
    ($($name:ident = $metric:expr;)*) => {
        $(pub const $name: &$crate::metric::Metric = &$metric;)*

        /// All metrics of the experiment.
        pub const METRICS: &[&$crate::metric::Metric] = &[$($name),*];
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_a_part_of_the_name_or_stands_beside_it() {
        let bytes = Metric::new("bytes", "B");
        assert_eq!(
            bytes.key(Some("by-line")),
            ("bytes".into(), Some("by-line"))
        );
        assert_eq!(bytes.case_of("bytes", None), Some(""));
        assert_eq!(bytes.case_of("bytes", Some("by-line")), Some("by-line"));
        assert_eq!(bytes.case_of("bytes_lost", None), None);
        let exits = Metric::new("exits_per_*", "1");
        assert_eq!(exits.key(Some("read")), ("exits_per_read".into(), None));
        assert_eq!(exits.case_of("exits_per_read", None), Some("read"));
        assert_eq!(exits.case_of("ns_per_read", None), None);
    }
}
