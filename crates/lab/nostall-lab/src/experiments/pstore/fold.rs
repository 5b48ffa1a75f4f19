//! How movings and records become figures and findings.

use nostall_work::pstore::{BLOCK, BLOCKS, ENTRIES_PER_BLOCK, Recovered, TextKind, ZoneStrategy};

use super::metrics;
use super::run::Survived;
use crate::experiments::verdict::group;
use nostall_figures::figure::{Figures, Goal};
use nostall_figures::numbers::median;

/// Folds all of it into figures, and returns them with the faults, each in a line.
pub fn fold(on: &'static str, survived: &Survived) -> (Figures, Vec<String>) {
    let mut figures = Figures::new("pstore", on);
    let mut faults = Vec::new();
    for (strategy, rounds) in group(survived.moved.iter().copied()) {
        let median = |values: Vec<u64>| median(values) as f64;
        let ns = median(rounds.iter().map(|moved| moved.ns).collect());
        let all_bytes = median(rounds.iter().map(|moved| moved.bytes).collect());
        let all_records = median(rounds.iter().map(|moved| moved.records).collect());

        let mut record = figures.record(strategy.name());
        let expected = u64::from(BLOCKS) * BLOCK as u64;
        let bytes = record.median(metrics::BYTES, rounds.iter().map(|moved| moved.bytes), 1.0);
        let missed = bytes.and_then(|bytes| bytes.missed(Goal::Exactly(expected as f64)));
        let lost = missed.map(|bytes| format!("only {bytes} of {expected} bytes arrived"));
        let expected = match strategy {
            ZoneStrategy::Untraced => 0,
            _ => u64::from(BLOCKS) * ENTRIES_PER_BLOCK,
        };
        let records = rounds.iter().map(|moved| moved.records);
        let records = record.median(metrics::RECORDS, records, 1.0);
        let missed = records.and_then(|records| records.missed(Goal::Exactly(expected as f64)));
        let unwritten = missed.map(|records| format!("{records} records, not {expected}"));
        let fault = lost.or(unwritten);
        faults.extend(fault.map(|fault| format!("{strategy}: {fault}")));

        let speed = |bytes: f64, ns: f64| bytes * 1e3 / ns.max(1.0);
        let speeds = rounds
            .iter()
            .map(|moved| speed(moved.bytes as f64, moved.ns as f64));
        record.value_of(metrics::MB_PER_S, speed(all_bytes, ns), speeds);
        // The time of a record is a share of the whole run.
        let each = (all_records > 0.0).then(|| ns / all_records);
        let times = rounds
            .iter()
            .map(|moved| moved.ns as f64 / moved.records.max(1) as f64);
        record.value_of(metrics::NS_PER_RECORD, each, times);
    }
    let host = &survived.host;
    let recovered = host.iter().find_map(|found| match found {
        Recovered::Trace { cpu: None, trace } => Some(trace.records),
        _ => None,
    });
    let mut record = figures.record(ZoneStrategy::PerCpuClock.name());
    let recovered = recovered.unwrap_or(0) as f64;
    let recovered = record.value(metrics::RECORDS_RECOVERED, recovered);
    if recovered
        .and_then(|records| records.missed(Goal::AtLeast(1.0)))
        .is_some()
    {
        faults.push("the host read no records".to_owned());
    }
    if let Some(panic) = &survived.panic {
        faults.extend(disagreements(survived, panic));
    }
    (figures, faults)
}

fn disagreements(survived: &Survived, panic: &str) -> Vec<String> {
    let host = &survived.host;
    let traces = host
        .iter()
        .filter(|found| matches!(found, Recovered::Trace { .. }));
    let console_ends = host.iter().any(|found| match found {
        Recovered::Text {
            kind: TextKind::Console,
            text,
            ..
        } => text.trim_end().ends_with(panic),
        _ => false,
    });
    let checks = [
        (
            traces.eq(&survived.writer),
            "the host read other traces than the dying kernel had told of",
        ),
        (
            console_ends,
            "the console that the host read does not end with the panic",
        ),
        (
            *host == survived.next_boot,
            "the second boot recovered something else than the host read",
        ),
    ];
    let wrong = checks.into_iter().filter(|(right, _)| !right);
    wrong.map(|(_, fault)| fault.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use nostall_work::pstore::{Moved, TraceSummary};

    use super::super::text::answer;
    use super::*;
    use crate::experiments::experiment::Answer;

    fn left(records: u64, console: &str) -> Vec<Recovered> {
        let mut trace = TraceSummary::default();
        (0..records).for_each(|n| trace.add(n, n, n, 0));
        let mut text = nostall_work::ReportText::new();
        text.push_str(console).unwrap();
        vec![
            Recovered::Trace { cpu: None, trace },
            Recovered::Text {
                kind: TextKind::Console,
                bytes: console.len() as u64,
                checksum: 0,
                text,
            },
        ]
    }

    /// Two rounds after which all is well.
    fn survived() -> Survived {
        let moved = |strategy| Moved {
            bytes: 8_388_608,
            records: match strategy {
                ZoneStrategy::Untraced => 0,
                _ => 737_280,
            },
            ns: match strategy {
                ZoneStrategy::OneZoneLocked => 838_860_800,
                _ => 83_886_080,
            },
        };
        let round = ZoneStrategy::ALL.map(|strategy| (strategy, moved(strategy)));
        let host = left(7, "[0.1] Kernel panic: why\n");
        Survived {
            moved: [round, round].concat(),
            writer: host[..1].to_vec(),
            next_boot: host.clone(),
            host,
            image: Vec::new(),
            panic: Some("why".to_owned()),
        }
    }

    fn answer_of(survived: &Survived) -> Answer {
        answer("pstore", "qemu", survived)
    }

    fn fault(change: impl FnOnce(&mut Survived)) -> String {
        let mut survived = survived();
        change(&mut survived);
        let answer = answer_of(&survived);
        let fault = answer.failure.unwrap();
        let result = format!("Not as it should be:\n  {fault}");
        assert!(answer.text.ends_with(&result), "{}", answer.text);
        fault
    }

    #[test]
    fn equal_records_are_a_success_and_speeds_are_compared_with_the_locked_zone() {
        let answer = answer_of(&survived());
        assert_eq!(answer.failure, None);
        assert!(answer.text.contains("medians of 2 rounds"));
        let row = |strategy| {
            let rows = answer.text.lines();
            let mut rows = rows.filter(|line| line.starts_with(strategy));
            let words: Vec<_> = rows.next().unwrap().split_whitespace().collect();
            words[1..].join(" ")
        };
        assert_eq!(row("untraced"), "0 - 100.0 10.00 - -");
        assert_eq!(row("one-zone-locked"), "737280 1138 10.0 1.00 24.0 1.00");
        assert_eq!(row("per-cpu-counter"), "737280 114 100.0 10.00 91.5 3.81");
    }

    #[test]
    fn lost_and_unwritten_records_are_reported() {
        let fault_of = |change: fn(&mut Moved)| fault(|survived| change(&mut survived.moved[7].1));
        assert_eq!(
            fault_of(|moved| moved.bytes -= 512),
            "one-lock-for-all: only 8388096 of 8388608 bytes arrived"
        );
        assert_eq!(
            fault_of(|moved| moved.records += 1),
            "one-lock-for-all: 737281 records, not 737280"
        );
    }

    #[test]
    fn the_reader_that_finds_something_else_is_named() {
        let other = || left(8, "[0.1] Kernel panic: why\n");
        for (change, says) in [
            (
                (|survived, other| survived.next_boot = other) as fn(&mut Survived, _),
                "the second boot recovered something else",
            ),
            (
                |survived, other| survived.writer = other[..1].to_vec(),
                "the host read other traces",
            ),
            (
                |survived, _| survived.panic = Some("another".to_owned()),
                "does not end with the panic",
            ),
        ] {
            let fault = fault(|survived| change(survived, other()));
            assert!(fault.contains(says), "{fault}");
        }
        let mut nothing = survived();
        nothing.writer.clear();
        nothing.host.clear();
        nothing.next_boot.clear();
        let failure = answer_of(&nothing).failure.unwrap();
        assert_eq!(failure, "the host read no records");
    }
}
