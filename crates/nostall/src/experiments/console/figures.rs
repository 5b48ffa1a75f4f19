//! The figures, for programs.

use nostall_console::{StallDetector, Watchdog};
use nostall_devices::uart::Line;

use super::measured::{Measured, Run, Setup};
use crate::experiments::figure::Figure;

impl Measured {
    pub(super) fn figures(&self) -> Vec<Figure> {
        let runs = self.runs.iter();
        runs.flat_map(|run| run.figures(&self.setup)).collect()
    }
}

impl Run {
    fn figures(&self, setup: &Setup) -> Vec<Figure> {
        let haste = u64::from(setup.haste());
        let whole = &self.whole;
        let n = whole.delays.len();
        let ns = |span: nostall_io::Nanos| span.0 as f64;
        let mut metrics = vec![
            ("longest_hold_ns", ns(whole.longest_hold()), "ns", 1),
            ("delay_median_ns", ns(whole.delay(500)), "ns", n),
            ("delay_p999_ns", ns(whole.delay(999)), "ns", n),
            ("delay_max_ns", ns(whole.delay(1000)), "ns", n),
            ("ticks_missed", whole.missed() as f64, "1", 1),
            ("lockup_reports", whole.lockups() as f64, "1", 1),
            ("stall_reports", whole.stalls() as f64, "1", 1),
            ("cascades", whole.cascades() as f64, "1", 1),
            ("bytes", whole.bytes as f64, "B", 1),
            ("bytes_per_second", whole.bytes_per_second(), "B/s", 1),
            ("second_task_share", whole.share(), "1", 1),
            ("second_task_least_share", whole.least_share(), "1", 1),
            ("records_lost", whole.lost as f64, "1", 1),
            (
                "lockup_threshold_ns",
                ns(Watchdog::THRESHOLD / haste),
                "ns",
                1,
            ),
            (
                "stall_threshold_ns",
                ns(StallDetector::THRESHOLD / haste),
                "ns",
                1,
            ),
        ];
        if self.profile.line != Line::AtOnce {
            metrics.push(("line_use", whole.line_use(), "1", 1));
        }
        let unsent = self.unsent() as f64;
        metrics.push(("panic_records_unsent", unsent, "1", 1));
        if let Some(panic) = self.panicked.panic {
            let first = panic.first_byte.map(|at| ("panic_first_byte_ns", at));
            let last = panic.last_byte.map(|at| ("panic_last_byte_ns", at));
            let bytes = first.into_iter().chain(last);
            metrics.extend(bytes.map(|(metric, at)| (metric, ns(at), "ns", 1)));
            let record = panic.record.map(|record| record.bytes as f64);
            metrics.extend(record.map(|bytes| ("panic_record_bytes", bytes, "B", 1)));
        }
        let figure = |(metric, value, unit, n): (&str, f64, &'static str, usize)| Figure {
            path: "console",
            strategy: self.strategy.name(),
            on: setup.name(),
            profile: Some(self.profile.name),
            metric: metric.to_owned(),
            value,
            unit,
            n,
            ..Figure::default()
        };
        metrics.into_iter().map(figure).collect()
    }
}
