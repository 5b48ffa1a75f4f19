//! `nostall run console --machine virt` and `nostall log read` of that machine, as a user
//! meets them: a RISC-V machine has nothing that interrupts a CPU that has masked
//! interrupts, and no port of its own that the firmware has not used before.

mod common;
#[path = "common/flood.rs"]
mod flood;
#[path = "common/frozen.rs"]
mod frozen;

use std::fs;
use std::path::Path;

use common::qemu_for;
use flood::{log, nostall};
use nostall_vm::qemu::Machine;
use nostall_work::FIRMWARE_DONE;
use tempfile::TempDir;

static KERNEL: &[u8] = include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_RISCV64"));

#[test]
fn a_guest_loses_nothing_sends_nothing_twice_and_brings_its_panic_without_an_nmi() {
    if qemu_for("a_guest_loses_nothing", Machine::Virt).is_none() {
        return;
    }
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("log"), log(50)).unwrap();
    // The machine is QEMU's, which need not be said.
    let args = "run console --machine virt --input log --cpus 3 --panic-at 0.1 \
                --json figures --report flood.svg";
    let output = nostall(dir.path(), &args.split_whitespace().collect::<Vec<_>>());
    let out = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}{out}");
    assert_eq!(stderr, "", "nothing but the answer");
    assert!(!out.contains("FAILS"), "{out}");
    for line in out.lines() {
        assert!(line.len() <= 80 && line == line.trim_end(), "{line}");
    }
    assert!(out.contains(", virt, 3 CPUs on "), "{out}");
    assert!(out.contains("\nNothing here interrupts a CPU that has masked interrupts"));
    assert_eq!(out.matches("lines once, as logged").count(), 3, "{out}");
    assert_eq!(out.matches("brings all of a panic's text").count(), 3);
    assert_eq!(out.matches("text in persistent RAM").count(), 3);

    let figures = fs::read_to_string(dir.path().join("figures")).unwrap();
    let figures: serde_json::Value = serde_json::from_str(&figures).unwrap();
    assert_eq!(figures["host"]["machine"], "virt");
    let results = figures["results"].as_array().unwrap();
    let of = |strategy: &str, metric: &str| {
        let found = results
            .iter()
            .find(|result| result["strategy"] == strategy && result["metric"] == metric);
        let found = found.unwrap_or_else(|| panic!("{strategy} {metric}"));
        assert_eq!(
            (&found["path"], &found["on"]),
            (&"console".into(), &"qemu".into())
        );
        found["value"].as_f64().unwrap()
    };
    for strategy in ["print-inline", "fifo-inline", "bounded"] {
        // The line is never faster than its rate: 11,520 bytes a second.
        let rate = of(strategy, "bytes_per_second");
        assert!(rate > 0.0 && rate < 11_600.0, "{strategy}: {rate}");
        assert_eq!(of(strategy, "records_lost"), 0.0);
        assert!(of(strategy, "longest_hold_ns") > 0.0);
        let first = of(strategy, "panic_first_byte_ns");
        assert!(first > 0.0 && first < of(strategy, "panic_last_byte_ns"));
    }
    assert!(of("bounded", "second_task_share") > 0.0);
    let svg = fs::read_to_string(dir.path().join("flood.svg")).unwrap();
    assert_eq!(svg.matches("class=\"lane\"").count(), 2 * 3 * 3);
}

#[test]
fn whichever_way_a_kernel_dies_its_log_is_in_persistent_ram() {
    if let Some(qemu) = qemu_for("whichever_way_a_kernel_dies", Machine::Virt) {
        flood::dies_in_every_way(&qemu, KERNEL);
    }
}

/// What has come over the line since the firmware was done with it.
fn of_the_kernel(serial: &Path) -> Vec<u8> {
    let all = fs::read(serial).unwrap_or_default();
    let done = FIRMWARE_DONE.as_bytes();
    let at = all.windows(done.len()).position(|window| window == done);
    at.map_or_else(Vec::new, |at| all[at + done.len()..].to_vec())
}

#[test]
fn what_a_machine_killed_in_mid_flood_had_not_printed_is_in_its_ring() {
    if qemu_for("what_a_machine_killed_in_mid_flood", Machine::Virt).is_some() {
        flood::killed_in_mid_flood(Machine::Virt, of_the_kernel);
    }
}
