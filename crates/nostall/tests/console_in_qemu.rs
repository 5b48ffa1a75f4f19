//! `nostall run console --on qemu` and `nostall log read` of a machine that was killed, as
//! a user meets them.

mod common;
#[path = "common/flood.rs"]
mod flood;
#[path = "common/frozen.rs"]
mod frozen;

use std::fs;
use std::path::Path;

use common::qemu;
use flood::{log, nostall};
use nostall_vm::qemu::Machine;
use tempfile::TempDir;

#[test]
fn a_guest_loses_nothing_sends_nothing_twice_and_brings_its_panic() {
    if qemu("a_guest_loses_nothing").is_none() {
        return;
    }
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("log"), log(50)).unwrap();
    let args = "run console --on qemu --input log --cpus 3 --panic-at 0.1 --json figures \
                --report flood.svg";
    let args: Vec<_> = args.split_whitespace().collect();
    let output = nostall(dir.path(), &args);
    let out = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}{out}");
    assert_eq!(stderr, "", "nothing but the answer");
    assert!(!out.contains("FAILS"), "{out}");
    for line in out.lines() {
        assert!(line.len() <= 80 && line == line.trim_end(), "{line}");
    }
    assert!(out.contains(", q35, 3 CPUs on "), "{out}");
    assert_eq!(out.matches("lines once, as logged").count(), 3, "{out}");
    assert_eq!(out.matches("brings all of a panic's text").count(), 3);
    assert_eq!(out.matches("text in persistent RAM").count(), 3);

    let figures = fs::read_to_string(dir.path().join("figures")).unwrap();
    let figures: serde_json::Value = serde_json::from_str(&figures).unwrap();
    assert_eq!(figures["host"]["machine"], "q35");
    let results = figures["results"].as_array().unwrap();
    let of = |strategy: &str, metric: &str| {
        let found = results.iter().find(|result| {
            assert_eq!(
                (&result["path"], &result["on"]),
                (&"console".into(), &"qemu".into())
            );
            result["strategy"] == strategy && result["metric"] == metric
        });
        let found = found.unwrap_or_else(|| panic!("{strategy} {metric}"));
        found["value"].as_f64().unwrap()
    };
    for strategy in ["print-inline", "fifo-inline", "bounded"] {
        // The line is never faster than its rate: 11,520 bytes a second.
        let rate = of(strategy, "bytes_per_second");
        assert!(rate > 0.0 && rate < 11_600.0, "{strategy}: {rate}");
        assert_eq!(of(strategy, "records_lost"), 0.0);
        assert!(of(strategy, "longest_hold_ns") > 0.0);
        assert!(of(strategy, "delay_max_ns") > 0.0);
        let first = of(strategy, "panic_first_byte_ns");
        assert!(first > 0.0 && first < of(strategy, "panic_last_byte_ns"));
        assert!(of(strategy, "panic_record_bytes") > 400.0, "{strategy}");
        let shares = ["second_task_least_share", "second_task_share"];
        let [least, share] = shares.map(|metric| of(strategy, metric));
        assert!(0.0 <= least && least <= share && share <= 1.0, "{strategy}");
    }
    assert!(of("bounded", "second_task_share") > 0.0);
    let svg = fs::read_to_string(dir.path().join("flood.svg")).unwrap();
    assert_eq!(svg.matches("class=\"lane\"").count(), 2 * 3 * 3);
}

#[test]
fn a_port_can_be_as_slow_as_a_controllers() {
    if qemu("a_port_can_be_as_slow").is_none() {
        return;
    }
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("log"), log(40)).unwrap();
    let args = "run console --on qemu --input log --cpus 2 --profile hp-dl380-gen9 --json figures";
    let output = nostall(dir.path(), &args.split_whitespace().collect::<Vec<_>>());
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{out}");
    assert!(out.contains("\n\nhp-dl380-gen9\n"), "{out}");
    let figures = fs::read_to_string(dir.path().join("figures")).unwrap();
    let figures: serde_json::Value = serde_json::from_str(&figures).unwrap();
    let results = figures["results"].as_array().unwrap();
    let rates = results.iter().filter(|result| {
        assert_eq!(result["profile"], "hp-dl380-gen9");
        result["metric"] == "bytes_per_second" && result["strategy"] == "print-inline"
    });
    let rates: Vec<_> = rates.map(|rate| rate["value"].as_f64().unwrap()).collect();
    // Byte by byte each waits for the controller: 396 us.
    assert!(rates[0] > 0.0 && rates[0] < 1e9 / 396_000.0, "{rates:?}");
}

#[test]
fn what_a_machine_killed_in_mid_flood_had_not_printed_is_in_its_ring() {
    if qemu("what_a_machine_killed_in_mid_flood").is_some() {
        let sent = |serial: &Path| fs::read(serial).unwrap_or_default();
        flood::killed_in_mid_flood(Machine::Q35, sent);
    }
}
