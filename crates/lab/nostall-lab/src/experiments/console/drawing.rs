//! Time lines of the CPUs that the console holds, for the page of figures.

use nostall_work::console::{Context, What};

use super::outcome::{FloodOutcome, FloodPair};
use super::run::{Floods, Setup};
use crate::report::drawing::{Bar, Drawing, Drawings, Mark};
use nostall_figures::table::time;

/// Columns of a lane. In each, a bar is as high as the share of the time that the CPU is held.
const COLUMNS: usize = 200;

/// Activities, from the bottom up.
const KINDS: [&str; 4] = [
    "prints in a task",
    "prints in an interrupt handler",
    "prints in a panic",
    "waits for the console",
];

/// Returns a time line of every flood without a panic.
pub fn drawings(floods: &Floods) -> Drawings {
    let drawings = floods.runs.iter();
    let drawings = drawings.map(|run| drawing(run, &floods.setup));
    Drawings {
        drawings: drawings.collect(),
    }
}

fn drawing(run: &FloodPair, setup: &Setup) -> Drawing {
    let outcome = &run.whole;
    let cpus = 0..outcome.cpus.len();
    let held = time(outcome.longest_hold().0 as f64);
    let reports = match outcome.fired.len() {
        0 => String::new(),
        1 => "; a watchdog fires once".to_owned(),
        n => format!("; watchdogs fire {n} times"),
    };
    let marks = outcome.fired.iter().map(|(cpu, fired)| Mark {
        lane: *cpu,
        at_ns: (fired.at - outcome.start).0 as f64,
        text: match fired.what {
            What::SoftLockup(stuck) => format!("CPU {cpu}: soft lockup, stuck for {stuck}"),
            What::Stall(lasts) => format!("CPU {cpu}: stall detected, for {lasts}"),
        },
    });
    Drawing {
        path: "console".to_owned(),
        on: setup.name().to_owned(),
        profile: run.profile.name.to_owned(),
        strategy: run.strategy.to_string(),
        text: format!("a CPU is held for {held} at most{reports}"),
        span_ns: outcome.span().0 as f64,
        lanes: cpus.clone().map(|cpu| format!("CPU {cpu}")).collect(),
        bars: cpus.flat_map(|cpu| lane(outcome, cpu)).collect(),
        marks: marks.collect(),
    }
}

/// Returns the bars of a CPU: one for each activity and column, equal neighbours joined.
fn lane(outcome: &FloodOutcome, cpu: usize) -> Vec<Bar> {
    let span = outcome.span().0.max(1) as f64;
    let width = span / COLUMNS as f64;
    let mut shares = [[0.0_f64; KINDS.len()]; COLUMNS];
    let mut add = |kind: usize, from: f64, until: f64| {
        let columns = shares.iter_mut().enumerate().skip((from / width) as usize);
        for (at, column) in columns.take_while(|(at, _)| (*at as f64) * width < until) {
            let start = at as f64 * width;
            column[kind] += (until.min(start + width) - from.max(start)).max(0.0) / width;
        }
    };
    for (_, hold) in outcome.holds.iter().filter(|(of, _)| *of == cpu) {
        let kind = match hold.context {
            Context::Task => 0,
            Context::Interrupt => 1,
            Context::Panic => 2,
        };
        let [from, owner, until] =
            [hold.from, hold.owner_from, hold.until].map(|at| (at - outcome.start).0 as f64);
        add(3, from, owner);
        add(kind, owner, until);
    }
    let mut bars: Vec<Bar> = Vec::new();
    let mut below = [0.0_f64; COLUMNS];
    for (kind, name) in KINDS.iter().enumerate() {
        for (at, (column, base)) in shares.iter().zip(&mut below).enumerate() {
            let share = shown(column[kind]).min(1.0 - *base);
            if share <= 0.0 {
                continue;
            }
            let bar = Bar {
                lane: cpu,
                from_ns: (at as f64 * width).round(),
                until_ns: ((at + 1) as f64 * width).round(),
                kind: (*name).to_owned(),
                base: *base,
                share,
            };
            *base += share;
            match bars.last_mut() {
                Some(last) if is_continued(last, &bar) => last.until_ns = bar.until_ns,
                _ => bars.push(bar),
            }
        }
    }
    bars
}

fn is_continued(last: &Bar, bar: &Bar) -> bool {
    let form = |bar: &Bar| (bar.base, bar.share);
    last.kind == bar.kind && form(last) == form(bar) && last.until_ns == bar.from_ns
}

/// Rounds a share. A short hold stays visible.
fn shown(share: f64) -> f64 {
    match share.min(1.0) {
        share if share > 0.0 => ((share * 50.0).round() / 50.0).max(0.02),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_of_any_length_is_visible_and_none_is_higher_than_its_lane() {
        assert_eq!(shown(0.0), 0.0);
        assert_eq!(shown(1e-9), 0.02);
        assert_eq!(shown(0.509), 0.5);
        assert_eq!(shown(1.000_1), 1.0);
    }
}
