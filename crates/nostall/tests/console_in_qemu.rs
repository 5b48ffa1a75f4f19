//! `nostall run console --on qemu` and `nostall log read` of a machine that was killed, as
//! a user meets them.

mod common;
#[path = "common/frozen.rs"]
mod frozen;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use common::qemu;
use frozen::Machine;
use tempfile::TempDir;

fn nostall(dir: &Path, args: &[&str]) -> Output {
    Command::new(cargo_bin("nostall"))
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// So many lines, logged at once.
fn log(lines: usize) -> String {
    let line = |n| format!("[    1.000000] sd {n}:0:0:0: Attached scsi generic sg{n} type 0\n");
    (0..lines).map(line).collect()
}

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

/// What somebody finds who has the memory of a dead machine and the log of its serial line
/// must fit together: each record is in one of them, and at most the one that was on its way
/// is in both.
#[test]
fn what_a_machine_killed_in_mid_flood_had_not_printed_is_in_its_ring() {
    if qemu("what_a_machine_killed_in_mid_flood").is_none() {
        return;
    }
    /// All at once, and more than the line sends in 20 s.
    const LINES: usize = 4_000;
    let dir = TempDir::new().unwrap();
    let serial = || fs::read(dir.path().join("serial")).unwrap_or_default();
    let read = |args: &[&str]| {
        let output = nostall(dir.path(), &[&["log", "read", "ram"], args].concat());
        let out = String::from_utf8(output.stdout).unwrap();
        (out, String::from_utf8(output.stderr).unwrap())
    };
    let flood = log(LINES);
    let words = "repeat=1 console:bounded:115200:1";
    let guest = Machine::start(dir.path(), words, flood.as_bytes());
    guest.kill_when(|| serial().len() > 2_000 && read(&["--all"]).0.lines().count() > LINES);

    let (all, _) = read(&["--all"]);
    let (left, told) = read(&[]);
    let (all, left): (Vec<_>, Vec<_>) = (all.lines().collect(), left.lines().collect());
    assert!(told.contains(", printed up to "), "{told}");
    assert!(!told.contains("unfinished") && !told.contains("damaged"));
    // All that was to be logged is in the ring, once.
    let texts = |lines: &[&str]| {
        let texts = lines.iter().map(|line| line.split_once("] ").unwrap().1);
        let mut texts: Vec<_> = texts.map(str::to_owned).collect();
        texts.sort_unstable();
        texts
    };
    let first = ["[    0.000000] nostall's reference kernel, 4 CPUs"];
    let lines: Vec<_> = first.into_iter().chain(flood.lines()).collect();
    assert_eq!(texts(&all), texts(&lines));

    let serial = String::from_utf8(serial()).unwrap();
    let mut printed: Vec<_> = serial.split("\r\n").collect();
    // The kill cut it, maybe before its first byte.
    let cut = printed.pop().unwrap();
    assert!(all.starts_with(&printed), "printed as logged");
    assert!(all[printed.len()].starts_with(cut.trim_end()), "{cut}");
    assert!(all.ends_with(&left), "the rest of what was logged");
    assert!(printed.len() > 20 && left.len() > LINES / 2);
    // A line whose last bytes had just been sent.
    let both = (printed.len() + left.len()).checked_sub(all.len());
    assert!(matches!(both, Some(0 | 1)), "{both:?} of {}", printed.len());
}
