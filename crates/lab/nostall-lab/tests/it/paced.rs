//! The benefit of pacing: the line's full rate, and CPU time for other tasks.

use std::io::Read;

use nostall_devices::uart::Profile;
use nostall_lab::experiments::uart::{model, run::UartPlan};
use nostall_uart::{LineSettings, Strategy};
use nostall_work::uart::{Driver, Job, Sent, Writes};

/// Sends a flood like those that locked up machines. Returns its duration and the report.
fn flood(profile: Profile, strategy: Strategy, len: usize) -> (f64, Sent) {
    let packed = include_bytes!("../../fixtures/console/scsi-debug-flood.log.gz");
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_end(&mut text)
        .unwrap();
    assert_eq!(text.len(), 722_780);
    text.truncate(len);
    let jobs = [Job {
        driver: Driver::Ours(strategy),
        writes: Writes::Lines,
    }];
    let plan = UartPlan {
        jobs: &jobs,
        repeat: 1,
        text: &text,
    };
    let sendings = model::run(profile, None, &plan, &mut |_| {}).unwrap();
    let line = plan.on_the_line();
    assert!(sendings[0].arrived == line, "every byte arrives");
    (line.len() as f64, sendings[0].sent)
}

fn share_for_others(sent: &Sent) -> f64 {
    1.0 - sent.stalled_ns as f64 / sent.ns as f64
}

#[test]
fn on_a_real_line_pacing_reaches_its_rate_and_leaves_the_cpu_to_others() {
    let (bytes, sent) = flood(Profile::PC_16550A, Strategy::FifoPaced, usize::MAX);
    let line = bytes * LineSettings::baud(115_200).frame_time().0 as f64;
    assert!(line / sent.ns as f64 >= 0.995, "{}", line / sent.ns as f64);
    assert!(
        share_for_others(&sent) >= 0.95,
        "{}",
        share_for_others(&sent)
    );
}

#[test]
fn polling_leaves_nothing_to_others() {
    let (_, sent) = flood(Profile::PC_16550A, Strategy::BytePolled, 20_000);
    assert_eq!(sent.stalled_ns, sent.ns);
}

#[test]
fn on_the_slow_machine_pacing_takes_what_the_port_drains() {
    let (bytes, paced) = flood(Profile::HP_DL380_GEN9, Strategy::FifoPaced, usize::MAX);
    // The controller's buffer takes 2,170 bytes, and the rest leaves at its rate.
    let drained = (bytes - 2_170.0) * 336_700.0;
    assert!(
        drained / paced.ns as f64 >= 0.99,
        "{}",
        drained / paced.ns as f64
    );
    assert!(
        share_for_others(&paced) >= 0.90,
        "{}",
        share_for_others(&paced)
    );
}

#[test]
fn on_the_fast_machine_no_strategy_is_slower_than_byte_by_byte() {
    let time = |strategy| flood(Profile::FAST_16550A, strategy, 50_000).1.ns as f64;
    let byte_polled = time(Strategy::BytePolled);
    for strategy in Strategy::ALL {
        // The last poll may be late by a quarter of a permille.
        assert!(time(strategy) <= byte_polled * 1.00025, "{strategy}");
    }
}
