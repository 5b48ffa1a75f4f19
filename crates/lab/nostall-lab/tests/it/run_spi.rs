//! `nostall-lab run spi` as its user sees it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::qemu_for;
use assert_cmd::cargo::cargo_bin;
use nostall_vm::qemu::QemuBoard;
use serde_json::Value;
use tempfile::TempDir;

fn nostall(args: &[&str], dir: &Path) -> Output {
    Command::new(cargo_bin("nostall-lab"))
        .args(["run", "spi"])
        .args(args)
        .current_dir(dir)
        .env("TMPDIR", dir)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Returns the output of a command that succeeds, and the figures that it writes.
fn succeed(args: &[&str], dir: &Path) -> (String, Value) {
    let args = [args, &["--json", "figures"]].concat();
    let output = nostall(&args, dir);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{args:?}: {stderr}{out}");
    assert_eq!(stderr, "", "nothing but the answer");
    assert!(!out.contains('\u{1b}'));
    for line in out.lines() {
        assert!(line.len() <= 80 && line == line.trim_end(), "{line}");
    }
    let document = fs::read_to_string(dir.join("figures")).unwrap();
    fs::remove_file(dir.join("figures")).unwrap();
    (out, serde_json::from_str(&document).unwrap())
}

/// Returns each figure by its strategy and metric.
fn figures(document: &Value) -> BTreeMap<(String, String), f64> {
    let results = document["results"].as_array().unwrap().iter();
    let figures = results.map(|result| {
        assert_eq!(result["path"], "spi");
        let word = |name: &str| result[name].as_str().unwrap().to_owned();
        (
            (word("strategy"), word("metric")),
            result["value"].as_f64().unwrap(),
        )
    });
    figures.collect()
}

/// Checks the counts of the busy bus, which are the same every time.
fn assert_busy_bus(document: &Value, frames: f64) {
    let figures = figures(document);
    let of = |strategy: &str, metric: &str| figures[&(strategy.to_owned(), metric.to_owned())];
    let sent = (frames / 10.0).floor();
    for strategy in ["pump", "caller"] {
        assert_eq!(of(strategy, "frames"), frames);
        assert_eq!(of(strategy, "messages"), 4.0 + 3.0 * frames + 2.0 * sent);
        assert!(of(strategy, "messages_per_second") > 0.0);
        assert!(of(strategy, "worker_cpu_share") >= 0.0);
        let each = of(strategy, "wakeups") / of(strategy, "messages");
        // Reading JSON rounds.
        assert!((of(strategy, "wakeups_per_message") - each).abs() < 1e-9);
    }
    assert_eq!(of("caller", "messages_by_worker"), 0.0);
    assert_eq!(of("caller", "wakeups"), 0.0);
    assert!(of("pump", "wakeups") > 0.0);
}

#[test]
fn all_is_as_it_should_be_on_the_model() {
    let dir = TempDir::new().unwrap();
    let (out, document) = succeed(&["--on", "model", "--frames", "1234"], dir.path());
    assert!(out.starts_with("spi on a model, in virtual time;"), "{out}");
    assert!(out.contains("flash: 9d 70 19, ISSI, 32 MiB"), "{out}");
    assert_busy_bus(&document, 1234.0);
    let ons: Vec<_> = document["results"].as_array().unwrap().iter().collect();
    let on = |metric: &str| {
        let found = ons.iter().find(|result| result["metric"] == metric);
        found.unwrap()["on"].as_str().unwrap()
    };
    // Virtual times are not compared with real ones.
    assert_eq!(
        (on("flash_sector_erase_ns"), on("worker_cpu_share")),
        ("model", "host-threads")
    );
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        0,
        "nothing is left"
    );
}

#[test]
fn all_is_as_it_should_be_in_a_guest() {
    let test = "all_is_as_it_should_be_in_a_guest";
    if qemu_for(test, QemuBoard::SifiveU).is_none() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let (out, document) = succeed(&["--frames", "700"], dir.path());
    assert!(out.starts_with("spi on qemu "), "{out}");
    assert!(out.contains(", sifive_u, 3 CPUs on "), "{out}");
    assert!(out.contains("flash: 9d 70 19, ISSI, 32 MiB"), "{out}");
    assert_busy_bus(&document, 700.0);
    let figures = figures(&document);
    for strategy in ["pump", "caller"] {
        for counted in [
            "cross_cpu_interrupts",
            "context_switches_per_second",
            "interrupts_per_second",
        ] {
            assert!(
                figures.contains_key(&(strategy.to_owned(), counted.to_owned())),
                "{counted}"
            );
        }
    }
}

#[test]
fn options_and_values_without_a_meaning_are_refused() {
    let dir = TempDir::new().unwrap();
    for (args, why) in [
        (&["--machine", "q35"], "[possible values: sifive_u]"),
        (&["--cpus", "2"], "2 is not in 3..=4"),
        (&["--cpus", "5"], "5 is not in 3..=4"),
        (&["--capture", "x"], "unexpected argument '--capture'"),
        (&["--bytes", "5"], "unexpected argument '--bytes'"),
    ] {
        let output = nostall(args, dir.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(why), "{said}");
        assert_eq!(output.status.code(), Some(2));
    }
}
