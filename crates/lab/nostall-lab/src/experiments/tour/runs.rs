//! The tour's runs: each is made once, and its figures serve all rows that pick them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::process;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use nostall_postmortem::cli::output;

use super::expected;
use super::row::{self, Pick, Value};
use super::run_result::RunResult;
use crate::experiments::entry::Entry;
use crate::experiments::progress;
use nostall_figures::figure::Figure;
use nostall_figures::metric::Metric;

/// All runs, by their arguments.
pub struct Runs(BTreeMap<&'static str, Result<RunResult>>);

impl Runs {
    /// Makes every run that a row needs.
    pub fn of(entries: &'static [Entry]) -> Self {
        let all = arguments(entries);
        let bar = ProgressBar::new(all.len() as u64);
        let style =
            ProgressStyle::with_template("{bar:20} {pos} of {len}: nostall-lab run {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let mut runs = BTreeMap::new();
        for run in all {
            bar.set_message(run);
            bar.tick();
            let give_up = move || {
                let limit = LIMIT.as_secs();
                let line = format!("nostall-lab run {run}: no result within {limit} s");
                output::fail(&anyhow::anyhow!(line));
                // The kernel ends QEMU with this process.
                process::exit(1);
            };
            let ran = within(LIMIT, give_up, || {
                progress::hidden(|| make_one(entries, run))
            });
            runs.insert(run, ran);
            bar.inc(1);
        }
        bar.finish_and_clear();
        Self(runs)
    }

    /// Returns the reason why a run was not made.
    pub fn lacks(&self, run: &str) -> Option<&str> {
        match self.0.get(run)? {
            Ok(RunResult::Lacks(why)) => Some(why),
            _ => None,
        }
    }

    /// Returns the figure of a strategy.
    pub fn figure(&self, pick: &Pick, metric: &Metric) -> Option<&Figure> {
        let key = pick.key(metric);
        let mut figures = figures(self.0.get(pick.run)?);
        figures.find(|figure| self::key(figure) == key)
    }

    /// Returns the machine of the figures that `value` asks for.
    pub fn place(&self, pick: &Pick, value: Value) -> Option<&str> {
        let on = Cell::new(None);
        value(&|metric| {
            let figure = self.figure(pick, metric)?;
            on.set(Some(&*figure.on));
            Some(figure.value)
        });
        on.get()
    }

    /// The runs that were made, in the order of their arguments.
    pub fn made(&self) -> impl Iterator<Item = &RunResult> {
        self.0.values().filter_map(|ran| ran.as_ref().ok())
    }

    /// Everything that is wrong with a run: an error, its own verdict, or an exact figure that
    /// is another.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (run, ran) in &self.0 {
            let found: Vec<_> = match ran {
                Err(error) => vec![format!("{error:#}")],
                Ok(RunResult::Lacks(_)) => Vec::new(),
                Ok(RunResult::Answered { failure, .. }) => {
                    let find = |key: &str| {
                        let same = |figure: &&Figure| self::key(figure) == key;
                        figures(ran).find(same).map(|figure| figure.value)
                    };
                    let exact = expected::of(run);
                    let differences = exact.map(|exact| expected::differences(exact, find));
                    let differences = differences.unwrap_or_default();
                    failure.iter().cloned().chain(differences).collect()
                }
            };
            faults.extend(
                found
                    .iter()
                    .map(|fault| format!("nostall-lab run {run}: {fault}")),
            );
        }
        faults
    }
}

/// Limit of one run of the tour. The longest takes seconds, on a busy host a minute, and guests
/// have shorter limits of their own.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs `work`, and calls `late` on another thread if it has not ended after `limit`.
fn within<T>(limit: Duration, late: impl FnOnce() + Send, work: impl FnOnce() -> T) -> T {
    let (ended, end) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            // A dropped sender is the end, too: that of a panic.
            if end.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                late();
            }
        });
        let result = work();
        drop(ended);
        result
    })
}

fn make_one(entries: &[Entry], run: &str) -> Result<RunResult> {
    let words: Vec<_> = run.split(' ').collect();
    let (name, arguments) = words.split_first().unwrap_or((&"", &[]));
    let entry = entries.iter().find(|one| one.name == *name);
    let entry = entry.ok_or_else(|| anyhow::anyhow!("there is no experiment {name}"))?;
    let mut ran = (entry.make)(arguments)?;
    ran.set_command(&format!("nostall-lab run {run}"));
    Ok(ran)
}

/// Returns the arguments of every run, each once, in the order of the rows.
pub fn arguments(entries: &'static [Entry]) -> Vec<&'static str> {
    let mut all = Vec::new();
    let rows = entries.iter().flat_map(|entry| entry.tour.rows);
    for run in rows.flat_map(|row| row.picks()).map(|pick| pick.run) {
        if !all.contains(&run) {
            all.push(run);
        }
    }
    all
}

fn figures(ran: &Result<RunResult>) -> impl Iterator<Item = &Figure> {
    let figures = match ran {
        Ok(RunResult::Answered { figures, .. }) => figures.as_slice(),
        _ => &[],
    };
    figures.iter()
}

fn key(figure: &Figure) -> String {
    let (profile, case) = (figure.profile.as_deref(), figure.case.as_deref());
    row::key(&figure.strategy, profile, &figure.metric, case)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;
    use serde_json::Map;

    use super::*;
    use crate::experiments::EXPERIMENTS;
    use crate::experiments::on::On;

    fn faults(run: &'static str, ran: Result<RunResult>) -> Vec<String> {
        Runs(BTreeMap::from([(run, ran)])).faults()
    }

    /// A run with one figure, the longest hold.
    fn held(ns: f64, failure: Option<&str>) -> Result<RunResult> {
        let figure = Figure {
            strategy: "bounded".to_owned(),
            profile: Some("pc-16550a".to_owned()),
            metric: "longest_hold_ns".to_owned(),
            value: ns,
            ..Figure::default()
        };
        Ok(RunResult::Answered {
            beside: Default::default(),
            on: On::Model,
            text: String::new(),
            figures: vec![figure],
            found: Map::new(),
            failure: failure.map(str::to_owned),
        })
    }

    #[test]
    fn a_run_that_does_not_end_is_given_up_and_one_that_ends_is_not() {
        let (send, received) = mpsc::channel();
        // The run ends only because it is given up.
        let given_up = within(
            Duration::from_millis(1),
            move || send.send(()).unwrap(),
            || received.recv().is_ok(),
        );
        assert!(given_up);
        let unexpected = || panic!("given up");
        assert_eq!(within(Duration::from_secs(3_600), unexpected, || 7), 7);
    }

    const CONSOLE: &str = "console --on model";

    #[test]
    fn an_exact_count_that_differs_fails_the_tour_and_is_named_with_its_run() {
        let wrong = "nostall-lab run console --on model: \
                     bounded pc-16550a longest_hold_ns is 28901, 28900 is expected";
        let of_hold = |ns| {
            let mut faults = faults(CONSOLE, held(ns, None));
            // The other figures of the run are missing.
            faults.retain(|fault| !fault.contains(" is missing, "));
            faults
        };
        assert_eq!(of_hold(28_901.0), [wrong]);
        assert_eq!(of_hold(28_900.0), [""; 0]);
        let missing = "bounded pc-16550a records_lost is missing, 0 is expected";
        let all = faults(CONSOLE, held(28_900.0, None));
        assert!(all.iter().any(|fault| fault.ends_with(missing)), "{all:?}");
    }

    #[test]
    fn a_run_that_fails_or_judges_itself_fails_the_tour_and_one_without_machine_does_not() {
        let failed = faults("unknown", held(1.0, Some("a line was lost")));
        assert_eq!(failed, ["nostall-lab run unknown: a line was lost"]);
        let failed = faults(CONSOLE, Err(anyhow!("the guest hung")));
        assert_eq!(
            failed,
            ["nostall-lab run console --on model: the guest hung"]
        );
        let lacks = RunResult::Lacks("no KVM".to_owned());
        assert_eq!(faults("pci --on kvm", Ok(lacks)), [""; 0]);
    }

    #[test]
    fn every_run_has_exact_figures_and_is_made_once() {
        let all = arguments(EXPERIMENTS);
        for (n, run) in all.iter().enumerate() {
            assert!(expected::of(run).is_some(), "make expected: {run}");
            assert!(!all[..n].contains(run), "{run}");
        }
    }
}
