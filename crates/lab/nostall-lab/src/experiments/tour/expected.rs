//! The figures that are the same in every run, as recorded in `bench/expected.json`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::row::Pick;
use nostall_figures::metric::Metric;

/// A link, so that the published crate carries the file.
const FILE: &str = include_str!("../../../fixtures/expected.json");

/// Values by strategy, profile and metric.
pub type Exact = BTreeMap<String, f64>;

#[derive(Deserialize)]
struct Expected {
    /// By the arguments of `nostall-lab run`.
    exact: BTreeMap<String, Exact>,
}

static EXPECTED: LazyLock<Expected> =
    LazyLock::new(|| serde_json::from_str(FILE).unwrap_or_else(|error| panic!("{error}")));

/// Returns the exact figures of a run.
pub fn of(run: &str) -> Option<&'static Exact> {
    EXPECTED.exact.get(run)
}

/// Returns an exact figure of a strategy; `None` if it differs from run to run.
pub fn figure(pick: &Pick, metric: &Metric) -> Option<f64> {
    of(pick.run)?.get(&pick.key(metric)).copied()
}

/// Compares the figures that `found` returns with `exact`, without tolerance.
pub fn differences(exact: &Exact, found: impl Fn(&str) -> Option<f64>) -> Vec<String> {
    let differs = |(key, expected): (&String, &f64)| match found(key) {
        None => Some(format!("{key} is missing, {expected} is expected")),
        Some(value) if as_written(value) != *expected => {
            Some(format!("{key} is {value}, {expected} is expected"))
        }
        Some(_) => None,
    };
    exact.iter().filter_map(differs).collect()
}

/// Rounds a number as the file's parser does.
fn as_written(value: f64) -> f64 {
    serde_json::from_str(&value.to_string()).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_figure_that_differs_by_one_or_is_missing_is_named() {
        let exact = Exact::from([
            ("bounded longest_hold_ns".to_owned(), 28_900.0),
            ("bounded records_lost".to_owned(), 0.0),
        ]);
        let all = |hold: f64| {
            move |key: &str| match key {
                "bounded longest_hold_ns" => Some(hold),
                _ => Some(0.0),
            }
        };
        assert_eq!(differences(&exact, all(28_900.0)), [""; 0]);
        assert_eq!(
            differences(&exact, all(28_901.0)),
            ["bounded longest_hold_ns is 28901, 28900 is expected"]
        );
        let none = differences(&exact, |_| None);
        assert_eq!(none[1], "bounded records_lost is missing, 0 is expected");
    }

    #[test]
    fn the_recorded_file_can_be_read() {
        assert!(EXPECTED.exact.values().all(|run| !run.is_empty()));
        assert!(of("console --on model").is_some());
    }
}
