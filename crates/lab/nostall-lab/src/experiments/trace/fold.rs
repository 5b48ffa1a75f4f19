//! Conversion of sendings and traces to figures and findings.

use anyhow::Result;
use nostall_work::trace::JobResult;

use super::metrics;
use super::picture::numbers;
use super::run::{Crash, Recorded};
use nostall_figures::figure::{Figures, Goal, write_of};

/// Name of the crash in the figures, in place of a strategy.
pub const CRASH: &str = "crash";

/// Returns the figures of the experiment and its faults, one line each. `symbols` names the
/// functions at linked addresses.
pub fn fold(
    on: &'static str,
    recorded: &Recorded,
    symbols: &dyn Fn(u64) -> Option<String>,
) -> Result<(Figures, Vec<String>)> {
    let mut figures = Figures::new("trace", on);
    let mut faults = Vec::new();
    let mut all_bytes = 0;
    for sending in &recorded.sendings {
        let (strategy, bytes, sent) = (sending.strategy.name(), sending.bytes, sending.sent);
        let numbers = numbers(&sending.trace, symbols)?;
        all_bytes += u64::from(bytes);
        let mut record = figures.record(strategy);
        record = record.of_case(Some(write_of(bytes)));
        let written = record.value(metrics::BYTES, sent.written as f64);
        let missed = written.and_then(|figure| figure.missed(Goal::Exactly(bytes.into())));
        let cut = missed.map(|written| format!("only {written} of {bytes} bytes were sent"));
        record.value(metrics::NS, sent.ns as f64);
        record.value(metrics::STALLED_NS, sent.stalled_ns as f64);
        let accesses = sent.register_instructions as f64;
        record.value(metrics::REGISTER_INSTRUCTIONS, accesses);
        record.value(metrics::TRACED_CALLS, numbers.calls as f64);
        record.value(metrics::TRACED_POLLS, numbers.polls as f64);
        record.value(metrics::TRACED_NS, numbers.ns.map(|ns| ns as f64));
        let write_ns = numbers.write_ns.map(|ns| ns as f64);
        record.value(metrics::TRACED_WRITE_NS, write_ns);
        record.value(metrics::RECORDS_OVERWRITTEN, numbers.lost as f64);
        // The trace begins before the driver's own measurement, and ends after it.
        let unseen = match numbers.ns {
            Some(ns) if ns < sent.ns => Some(format!(
                "the trace shows {ns} ns, and the driver measured {}",
                sent.ns
            )),
            None if numbers.lost == 0 => Some("the trace does not show the sending".to_owned()),
            _ => None,
        };
        let found = cut.into_iter().chain(unseen);
        faults.extend(found.map(|fault| format!("{strategy}, {bytes} bytes: {fault}")));
    }
    if recorded.arrived != all_bytes {
        let arrived = recorded.arrived;
        faults.push(format!("only {arrived} of {all_bytes} bytes arrived"));
    }
    if let Some(crash) = &recorded.crash {
        let records = crash.host.iter().map(|result| match result {
            JobResult::Left { records, .. } => *records,
            _ => 0,
        });
        let records = records.sum::<u64>() as f64;
        let mut record = figures.record(CRASH);
        let recovered = record.value(metrics::RECORDS_RECOVERED, records);
        let missed = recovered.and_then(|figure| figure.missed(Goal::AtLeast(1.0)));
        faults.extend(missed.map(|_| "the host read no records".to_owned()));
        faults.extend(disagreement(crash));
    }
    Ok((figures, faults))
}

fn disagreement(crash: &Crash) -> Option<String> {
    let differs = crash.host != crash.next_boot;
    differs.then(|| "the second boot read another trace than the host".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::model;
    use super::super::run::read;
    use super::*;

    /// Uses a sending's trace in place of a crash's.
    fn recorded() -> Recorded {
        let mut recorded = model::run(None).unwrap();
        let trace = recorded.sendings[0].trace.clone();
        recorded.crash = Some(Crash {
            host: read(&trace),
            next_boot: read(&trace),
            panic: "why".to_owned(),
            trace,
        });
        recorded
    }

    fn faults(change: impl FnOnce(&mut Recorded)) -> Vec<String> {
        let mut recorded = recorded();
        change(&mut recorded);
        fold("qemu", &recorded, &|_| None).unwrap().1
    }

    #[test]
    fn equal_traces_have_no_faults() {
        assert_eq!(faults(|_| {}), [""; 0]);
    }

    #[test]
    fn a_next_boot_that_reads_another_trace_is_reported() {
        let crash = |recorded: &mut Recorded| recorded.crash.as_mut().unwrap().next_boot.pop();
        let result = faults(|recorded| drop(crash(recorded)));
        assert_eq!(result, ["the second boot read another trace than the host"]);
        let result = faults(|recorded| {
            let crash = recorded.crash.as_mut().unwrap();
            (crash.host, crash.next_boot) = (Vec::new(), Vec::new());
        });
        assert_eq!(result, ["the host read no records"]);
    }

    #[test]
    fn bytes_not_sent_or_not_received_are_reported() {
        let result = faults(|recorded| recorded.sendings[4].sent.written -= 1);
        assert_eq!(
            result,
            ["byte-polled, 2500 bytes: only 2499 of 2500 bytes were sent"]
        );
        let result = faults(|recorded| recorded.arrived -= 1);
        assert_eq!(result, ["only 10003 of 10004 bytes arrived"]);
    }

    #[test]
    fn a_trace_that_contradicts_the_driver_is_reported() {
        let result = faults(|recorded| recorded.sendings[0].sent.ns += 1_000_000_000);
        assert!(
            result[0].starts_with("byte-polled, 1 bytes: the trace shows "),
            "{result:?}"
        );
        let result = faults(|recorded| {
            recorded.sendings[0].trace = recorded.sendings[0].trace[..1024].to_vec()
        });
        assert_eq!(
            result,
            ["byte-polled, 1 bytes: the trace does not show the sending"]
        );
    }
}
