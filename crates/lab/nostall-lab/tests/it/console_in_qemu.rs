//! `nostall-lab run console --on qemu`, and `nostall postmortem` of a killed machine, as their user
//! sees them.

use crate::common::flood;

use std::fs;
use std::path::Path;

use crate::common::qemu;
use flood::{log, run};
use nostall_vm::qemu::QemuBoard;
use tempfile::TempDir;

#[test]
fn a_guest_loses_nothing_sends_nothing_twice_and_brings_its_panic() {
    if qemu("a_guest_loses_nothing").is_none() {
        return;
    }
    flood::replayed(QemuBoard::Q35, "--on qemu");
}

#[test]
fn a_port_can_be_as_slow_as_a_controllers() {
    if qemu("a_port_can_be_as_slow").is_none() {
        return;
    }
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("log"), log(40)).unwrap();
    let args = "run console --on qemu --input log --cpus 2 --profile hp-dl380-gen9 --json figures";
    let output = run(
        "nostall-lab",
        dir.path(),
        &args.split_whitespace().collect::<Vec<_>>(),
    );
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
    // Sent byte by byte, each byte waits for the controller: 396 us.
    assert!(rates[0] > 0.0 && rates[0] < 1e9 / 396_000.0, "{rates:?}");
}

#[test]
fn the_ring_of_a_machine_killed_in_mid_flood_has_the_lines_not_yet_printed() {
    if qemu("the_ring_of_a_machine_killed_in_mid_flood").is_some() {
        let sent = |serial: &Path| fs::read(serial).unwrap_or_default();
        flood::killed_in_mid_flood(QemuBoard::Q35, sent);
    }
}
