//! How reports about the flash and the busy bus become figures and findings.

use nostall_work::spi::{BusStrategy, Job, SpiMeasured};

use super::metrics;
use super::run::SpiReports;
use crate::escape::escape;
use nostall_figures::figure::{Figures, Goal, Recorder};
use nostall_figures::metric::Metric;
use nostall_figures::numbers::grouped;

/// Folds the reports, and returns the figures, and the faults in a line each. `on` names the machine
/// of the flash and that of the busy bus.
pub fn fold(on: [&'static str; 2], frames: u32, reports: &SpiReports) -> (Figures, Vec<String>) {
    let mut figures = Figures::new("spi", on[0]);
    let mut record = figures.record(BusStrategy::Caller.name());
    let sector = reports.sector.as_ref();
    let times = [
        (metrics::FLASH_SECTOR_ERASE_NS, sector.map(|s| s.erase_ns)),
        (metrics::FLASH_SECTOR_WRITE_NS, sector.map(|s| s.write_ns)),
    ];
    for (metric, value) in times {
        record.value(metric, value.map(|value| value as f64));
    }

    let result = reports.faults.iter();
    let result = result.map(|(_, what)| escape(what.as_bytes()).into_owned());
    let mut faults: Vec<_> = result.collect();
    // A failed job leaves out further reports. That is no fault of its own.
    if !reports.faults.iter().any(|(job, _)| *job == Job::Flash) {
        faults.extend(flash_faults(reports));
    }
    figures.on = on[1];
    for strategy in BusStrategy::ALL {
        let mut measured = reports.measured.iter();
        match measured.find(|measured| measured.strategy == strategy) {
            Some(busy) => {
                let record = figures.record(strategy.name());
                let missed = add_busy_bus(record, busy, frames);
                faults.extend(missed.into_iter().map(|what| format!("{strategy}: {what}")));
            }
            None => faults.push(format!("{strategy}: nothing was measured")),
        }
    }
    (figures, faults)
}

/// Records one measurement, and returns the goals that it missed.
fn add_busy_bus(mut record: Recorder<'_>, busy: &SpiMeasured, frames: u32) -> Vec<String> {
    let sent = u64::from(frames / 10);
    let sync = u64::from(frames) * 3 + 4;
    let messages = sync + 2 * sent;
    // The hardware may also be put to sleep where no frame came for a second.
    let least = busy.preparations.min(u64::from(busy.pauses) + 1).max(1);

    let of_messages = |count: u64| Some(count as f64 / busy.messages.max(1) as f64);
    let rate = |count: Option<u64>| Some(count? as f64 * 1e9 / busy.ns.max(1) as f64);
    let mut missed = Vec::new();
    let mut put = |metric: &Metric, value: Option<f64>, goal: Option<Goal>| {
        if let Some((figure, goal)) = record.value(metric, value).zip(goal)
            && let Some(value) = figure.missed(goal)
        {
            let (value, goal) = (grouped(value), grouped(goal.bound()));
            missed.push(format!("{}: {value} and not {goal}", metric.thing));
        }
    };
    let count = |count: u64| Some(count as f64);
    let is = |expected: u64| Some(Goal::Exactly(expected as f64));
    let by_caller = |goal: Option<_>| goal.filter(|_| busy.strategy == BusStrategy::Caller);
    let before_idle = Some(Goal::AtMost((least - 1) as f64));
    put(
        metrics::FRAMES,
        count(busy.received.into()),
        is(frames.into()),
    );
    put(metrics::MESSAGES, count(busy.messages), is(messages));
    put(
        metrics::MESSAGES_PER_SECOND,
        rate(Some(busy.messages)),
        None,
    );
    put(
        metrics::MESSAGES_BY_WORKER,
        count(busy.by_worker),
        by_caller(is(0)),
    );
    put(metrics::WAKEUPS, count(busy.wakeups), by_caller(is(0)));
    put(
        metrics::WAKEUPS_PER_MESSAGE,
        of_messages(busy.wakeups),
        None,
    );
    put(
        metrics::TEARDOWNS,
        count(busy.teardowns),
        is(busy.preparations),
    );
    put(
        metrics::TEARDOWNS_PER_MESSAGE,
        of_messages(busy.teardowns),
        None,
    );
    let worker_share = busy.worker_ns as f64 / busy.ns.max(1) as f64;
    put(metrics::WORKER_CPU_SHARE, Some(worker_share), None);
    put(
        metrics::CONTEXT_SWITCHES_PER_SECOND,
        rate(busy.switches),
        None,
    );
    put(
        metrics::CROSS_CPU_INTERRUPTS,
        busy.cross_cpu.and_then(count),
        None,
    );
    put(
        metrics::CROSS_CPU_INTERRUPTS_PER_SECOND,
        rate(busy.cross_cpu),
        None,
    );
    put(metrics::INTERRUPTS_PER_SECOND, rate(busy.interrupts), None);
    put(metrics::FRAMES_WRONG, count(busy.wrong.into()), is(0));
    put(metrics::FRAMES_LOST, count(busy.overflows.into()), is(0));
    put(
        metrics::FRAMES_SUBMITTED,
        count(busy.submitted.into()),
        is(sent),
    );
    put(metrics::FRAMES_SENT, count(busy.sent.into()), is(sent));
    put(metrics::MESSAGES_SYNC, count(busy.sync), is(sync));
    put(
        metrics::MESSAGES_SUBMITTED,
        count(busy.asynchronous),
        is(2 * sent),
    );
    put(metrics::MESSAGES_FAILED, count(busy.errors), is(0));
    let early = count(busy.wakeups_meanwhile);
    put(metrics::WAKEUPS_BEFORE_IDLE, early, by_caller(before_idle));
    put(
        metrics::PREPARATIONS,
        count(busy.preparations),
        by_caller(is(least)),
    );
    missed
}

fn flash_faults(reports: &SpiReports) -> Vec<String> {
    let (Some(sector), Some(inside)) = (&reports.sector, &reports.in_flash) else {
        return vec!["flash: nothing was told of its sector".to_owned()];
    };
    let all = [
        (
            sector.before == sector.pattern,
            "the pattern was there before",
        ),
        (sector.not_erased > 0, "the sector was not erased"),
        (
            sector.after != sector.pattern,
            "what was read is not what was written",
        ),
        (
            !sector.neighbours_kept,
            "what is beside the sector has changed",
        ),
        (
            sector.before != inside.before,
            "what was found is not what was in it",
        ),
        (
            sector.after != inside.after,
            "what was read is not what is in it",
        ),
        (!inside.rest_kept, "more than the sector has changed"),
    ];
    let wrong = all.into_iter().filter(|(wrong, _)| *wrong);
    wrong.map(|(_, what)| format!("flash: {what}")).collect()
}

/// Formats a digest as `sha256sum` prints it.
pub fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: u32 = 100;

    /// A measurement in which all is well.
    fn measured(strategy: BusStrategy) -> SpiMeasured {
        SpiMeasured {
            strategy,
            received: FRAMES,
            wrong: 0,
            overflows: 0,
            submitted: 10,
            sent: 10,
            messages: 324,
            sync: 304,
            sync_immediate: 304,
            asynchronous: 20,
            by_worker: 0,
            errors: 0,
            wakeups_meanwhile: 0,
            wakeups: 0,
            preparations: 1,
            teardowns: 1,
            pauses: 0,
            ns: 1_000,
            worker_ns: 0,
            switches: None,
            cross_cpu: None,
            interrupts: None,
        }
    }

    fn missed(busy: &SpiMeasured) -> Vec<String> {
        let mut figures = Figures::new("spi", "model");
        add_busy_bus(figures.record(busy.strategy.name()), busy, FRAMES)
    }

    #[test]
    fn every_count_of_the_busy_bus_that_differs_is_a_fault() {
        type Change = fn(&mut SpiMeasured);
        let of_all: [(Change, &str); 10] = [
            (|one| one.received = 99, "frames received: 99 and not 100"),
            (|one| one.wrong = 1, "frames that were wrong: 1 and not 0"),
            (|one| one.overflows = 1, "frames lost: 1 and not 0"),
            (|one| one.submitted = 9, "frames submitted: 9 and not 10"),
            (|one| one.sent = 9, "frames sent: 9 and not 10"),
            (
                |one| one.sync = 305,
                "synchronous messages: 305 and not 304",
            ),
            (
                |one| one.asynchronous = 19,
                "messages submitted: 19 and not 20",
            ),
            (|one| one.messages = 323, "messages: 323 and not 324"),
            (|one| one.errors = 1, "messages that failed: 1 and not 0"),
            (
                |one| one.teardowns = 2,
                "times the hardware was put to sleep: 2 and not 1",
            ),
        ];
        let of_caller: [(Change, &str); 4] = [
            (
                |one| one.by_worker = 1,
                "messages run by the worker: 1 and not 0",
            ),
            (
                |one| one.wakeups = 1,
                "times the worker was woken: 1 and not 0",
            ),
            (
                |one| one.wakeups_meanwhile = 1,
                "times it was woken before the bus was idle: 1 and not 0",
            ),
            (
                |one| (one.preparations, one.teardowns) = (2, 2),
                "times the hardware was woken: 2 and not 1",
            ),
        ];
        for strategy in BusStrategy::ALL {
            assert_eq!(missed(&measured(strategy)), [""; 0]);
            let is_caller = strategy == BusStrategy::Caller;
            let changes = of_all.iter().map(|change| (change, true));
            let changes = changes.chain(of_caller.iter().map(|change| (change, is_caller)));
            for ((change, fault), is_judged) in changes {
                let mut busy = measured(strategy);
                change(&mut busy);
                let expected: Vec<_> = is_judged.then_some(*fault).into_iter().collect();
                assert_eq!(missed(&busy), expected, "{strategy}");
            }
        }
    }
}
