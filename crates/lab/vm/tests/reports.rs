//! Results of jobs, as the host reads them from a guest's reports.

use std::time::Duration;

use nostall_vm::{Error, GuestRun, Report};
use nostall_work::uart::Sent;
use nostall_work::{Event, LONGEST_REPORT, script};
use serde::Serialize;

/// Returns a guest's report as decoded by the host.
fn from_guest<T: Serialize>(report: &nostall_work::Report<T>) -> Report {
    serde_json::from_slice(report.encode(&mut [0; LONGEST_REPORT])).unwrap()
}

fn ran(results: [(u16, script::JobResult); 2]) -> GuestRun {
    let ready = Event::Ready {
        cpus: 1,
        clock_hz: 1,
        timer_hz: 0,
    };
    let [first, second] =
        results.map(|(item, result)| from_guest(&nostall_work::Report::Result { item, result }));
    GuestRun {
        reports: vec![from_guest(&ready), first, second, from_guest(&Event::Done)],
        serial: Vec::new(),
        first_report: Duration::ZERO,
        exits: None,
    }
}

fn piece(first: u32) -> script::JobResult {
    script::JobResult {
        first,
        values: [7; 3].into_iter().collect(),
    }
}

#[test]
fn results_are_in_order_with_their_jobs_indexes_and_without_the_guests_events() {
    let result = ran([(0, piece(0)), (3, piece(3))]).results().unwrap();
    assert_eq!(result, [(0, piece(0)), (3, piece(3))]);
}

#[test]
fn a_result_of_another_experiment_is_not_a_report() {
    let error = ran([(0, piece(0)), (0, piece(3))])
        .results::<Sent>()
        .unwrap_err();
    let Error::NotAReport(line) = error else {
        panic!("{error}");
    };
    assert!(line.contains(r#""first":0"#), "{line}");
}
