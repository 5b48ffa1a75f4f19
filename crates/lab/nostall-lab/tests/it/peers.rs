//! `nostall-lab run --peers`: Linux beside nostall, and peers that are missing or fail.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::pauses::pause_until;
use crate::common::{is_of, qemu};
use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};
use tempfile::TempDir;

const UART: [&str; 5] = ["uart", "--on", "model", "--bytes", "100"];

/// Returns `nostall-lab run` with peers from this folder.
fn nostall(peers: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("nostall-lab"));
    command
        .arg("run")
        .args(args)
        .env("NOSTALL_LINUX_PEERS", peers)
        .stdin(Stdio::null());
    command
}

/// Returns the document in the file `figures` of a folder.
fn document_in(dir: &Path) -> Value {
    let document = fs::read_to_string(dir.join("figures")).unwrap();
    serde_json::from_str(&document).unwrap()
}

/// Returns the figures in the file `figures` of a folder.
fn figures_in(dir: &Path) -> Vec<Value> {
    document_in(dir)["results"].as_array().unwrap().clone()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs the smallest experiment beside `peer`, with peers from the folder `dir`, and writes its
/// figures and its page there. Returns its text.
fn beside(dir: &Path, peer: &str) -> String {
    let output = nostall(dir, &UART)
        .args(["--peers", peer, "--json", "figures", "--report", "page"])
        .current_dir(dir)
        .output()
        .unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    text
}

/// Returns a peer's row on the page in a folder.
fn row_of(dir: &Path, peer: &str) -> String {
    let page = fs::read_to_string(dir.join("page")).unwrap();
    let (_, row) = page.split_once(&format!("<th>{peer}</th>")).unwrap();
    row.split_once("</tr>").unwrap().0.to_owned()
}

/// A kernel file that QEMU refuses.
fn refused(dir: &Path, peer: &str) {
    let folder = dir.join(peer);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("vmlinuz"), "no kernel").unwrap();
    fs::write(folder.join("initramfs"), "").unwrap();
}

#[test]
fn the_help_lists_every_peer() {
    let output = nostall(Path::new("/"), &["uart", "--help"])
        .output()
        .unwrap();
    let help = stdout(&output);
    for peer in [
        "linux-6.1:",
        "linux-6.1-before:",
        "linux-6.1-after:",
        "linux-6.12:",
        "linux-6.12-rt:",
        "all:",
        "none:",
    ] {
        assert!(help.contains(peer), "{peer}: {help}");
    }
}

#[test]
fn an_unknown_peer_is_refused_with_the_list_of_peers() {
    // Crates for the same work have their rows in each experiment.
    for unknown in ["linux-5.0", "crates"] {
        let output = nostall(Path::new("/"), &["uart", "--peers", unknown])
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("linux-6.12-rt"), "{error}");
    }
}

#[test]
fn a_peer_that_is_not_built_has_a_line_with_the_command_that_builds_it() {
    let dir = TempDir::new().unwrap();
    let args = [&UART[..], &["--peers", "linux-6.1,linux-6.12"]].concat();
    let output = nostall(dir.path(), &args).output().unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    for peer in ["linux-6.1", "linux-6.12"] {
        let line =
            format!("{peer}: not built; in a checkout of nostall, `make linux-peer` builds it");
        assert!(text.lines().any(|found| found == line), "{text}");
    }
    assert!(text.contains("Every byte arrived"), "{text}");
}

#[test]
fn a_peer_that_fails_costs_its_rows_only() {
    if qemu("a_peer_that_fails").is_none() {
        return;
    }
    let dir = TempDir::new().unwrap();
    refused(dir.path(), "linux-6.1");
    let text = beside(dir.path(), "linux-6.1");
    assert!(
        text.contains("linux-6.1: not measured: QEMU ended with exit status: 1"),
        "{text}"
    );
    let figures = figures_in(dir.path());
    assert!(!figures.is_empty());
    assert!(
        figures.iter().all(|figure| figure["on"] == "model"),
        "{figures:?}"
    );
}

#[test]
fn a_missing_peer_is_in_the_document_and_on_the_page_with_the_command_that_builds_it() {
    let dir = TempDir::new().unwrap();
    beside(dir.path(), "linux-6.12");
    let missing = "not built; in a checkout of nostall, `make linux-peer` builds it";
    let expected = json!([{"name": "linux-6.12", "missing": missing}]);
    assert_eq!(document_in(dir.path())["host"]["peers"], expected);
    let row = row_of(dir.path(), "linux-6.12");
    assert!(row.contains(missing), "{row}");
}

#[test]
fn a_peer_that_fails_is_in_the_document_and_on_the_page_with_its_last_lines_and_qemus_version() {
    if qemu("a_peer_that_fails_is_in_the_document").is_none() {
        return;
    }
    let dir = TempDir::new().unwrap();
    refused(dir.path(), "linux-6.1");
    beside(dir.path(), "linux-6.1");
    let host = &document_in(dir.path())["host"];
    let peer = &host["peers"][0];
    assert_eq!(
        (&peer["name"], &peer["path"]),
        (&json!("linux-6.1"), &json!("uart"))
    );
    let failed = peer["failed"].as_str().unwrap();
    let (why, console) = failed.split_once("; its console ends with\n").unwrap();
    assert_eq!(why, "QEMU ended with exit status: 1");
    assert!((1..=5).contains(&console.lines().count()), "{console}");
    // No run of nostall's own was in QEMU.
    assert!(
        host["qemu"]
            .as_str()
            .is_some_and(|version| version.contains('.')),
        "{host}"
    );
    let row = row_of(dir.path(), "linux-6.1");
    assert!(
        row.contains("uart: QEMU ended with exit status: 1; its console ends with\n"),
        "{row}"
    );
}

#[test]
fn an_experiment_without_rows_of_linux_says_so() {
    let args = ["trace", "--on", "model", "--peers", "all"];
    let output = nostall(Path::new("/"), &args).output().unwrap();
    let text = stdout(&output);
    assert!(
        text.contains("Linux has no rows in this experiment."),
        "{text}"
    );
}

/// Returns the processes whose command line has `part`.
fn processes_with(part: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = all.filter_map(|one| fs::read_to_string(one.path().join("cmdline")).ok());
    lines
        .filter(|line| line.starts_with("qemu") && line.contains(part))
        .collect()
}

#[test]
fn a_killed_run_leaves_no_machine_and_no_file() {
    if qemu("a_killed_run").is_none() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("linux-6.1");
    refused(dir.path(), "linux-6.1");
    // A multiboot image whose code is a jump to itself.
    let (at, magic, flags) = (0x10_0000_u32, 0x1bad_b002_u32, 0x1_0000_u32);
    let check = 0_u32.wrapping_sub(magic).wrapping_sub(flags);
    let header = [magic, flags, check, at, at, 0, 0, at + 32];
    let mut kernel: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    kernel.extend([0xeb, 0xfe]);
    fs::write(folder.join("vmlinuz"), kernel).unwrap();
    let args = [&UART[..], &["--peers", "linux-6.1"]].concat();
    let mut run = nostall(dir.path(), &args)
        .args(["--json", "figures"])
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let part = folder.to_str().unwrap();
    assert!(
        pause_until(|| !processes_with(part).is_empty()),
        "QEMU was not started"
    );
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(
        pause_until(|| processes_with(part).is_empty()),
        "QEMU is left"
    );
    assert!(!dir.path().join("figures").exists());
}

/// Returns the builds of `make linux-peer`, if they are there. With `NOSTALL_REQUIRE_LINUX_PEER`
/// their absence is an error.
fn built() -> Option<&'static Path> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let is_built = folder.join("linux-6.1/initramfs").exists();
    let is_required = std::env::var_os("NOSTALL_REQUIRE_LINUX_PEER").is_some();
    assert!(
        is_built || !is_required,
        "there is no Linux: run make linux-peer"
    );
    if !is_built {
        // The test harness captures the output of std's macros, so they are not used here.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED beside Linux: run make linux-peer"
        );
    }
    is_built.then_some(folder)
}

/// Returns the figures of a run beside Linux, or `None` where Linux or QEMU is missing.
fn beside_linux(args: &[&str]) -> Option<Vec<Value>> {
    qemu("beside_linux")?;
    let dir = TempDir::new().unwrap();
    let output = nostall(built()?, args)
        .args(["--json", "figures"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("not measured"), "{text}");
    Some(figures_in(dir.path()))
}

/// Returns a figure's value.
fn value(figures: &[Value], strategy: &str, profile: Option<&str>, metric: &str) -> f64 {
    let found = figures.iter().find(|figure| {
        figure["strategy"] == strategy
            && figure["profile"].as_str() == profile
            && is_of(figure, metric)
    });
    let found = found.unwrap_or_else(|| panic!("{strategy} {profile:?} {metric}: {figures:#?}"));
    found["value"].as_f64().unwrap()
}

#[test]
fn linux_reads_configuration_space_with_two_accesses_using_ports_and_one_using_memory() {
    let args = [
        "pci",
        "--on",
        "model",
        "--peers",
        "linux-6.1,linux-6.1-after",
    ];
    let Some(figures) = beside_linux(&args) else {
        return;
    };
    let accesses = |strategy, way| value(&figures, strategy, way, "bus_accesses_per_read");
    assert_eq!(accesses("linux-6.1", None), 2.0);
    assert_eq!(accesses("linux-6.1", Some("ports")), 2.0);
    assert_eq!(accesses("linux-6.1", Some("ecam")), 1.0);
    assert_eq!(accesses("linux-6.1-after", None), 1.0);
    assert_eq!(accesses("nostall", None), 1.0);
}

#[test]
fn linux_before_its_fix_reads_the_line_status_for_each_byte_and_after_it_once_a_fifo() {
    let args = [&UART[..], &["--peers", "linux-6.1,linux-6.1-before"]].concat();
    let Some(figures) = beside_linux(&args) else {
        return;
    };
    let metric = "bus_accesses_per_byte 2500-byte-write";
    let before = value(&figures, "linux-6.1-before", None, metric);
    let after = value(&figures, "linux-6.1", None, metric);
    assert!(before >= 2.0, "{before}");
    assert!(after < before, "{after} {before}");
    assert!(value(&figures, "nostall", None, metric) < after);
}

#[test]
fn the_test_programs_times_have_a_table_with_nostall_and_the_document_has_the_release() {
    if qemu("the_test_programs_times").is_none() {
        return;
    }
    let Some(peers) = built() else { return };
    let dir = TempDir::new().unwrap();
    let args = [&UART[..], &["--peers", "linux-6.1"]].concat();
    let output = nostall(peers, &args)
        .args(["--json", "figures", "--report", "page"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let text = stdout(&output);
    let lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let lines: Vec<_> = lines.collect();
    for size in ["1", "2500", "11500"] {
        for [system, way] in [["linux-6.1", "sertest"], ["linux-6.1", "tty"]] {
            let is_row = |line: &Vec<&str>| line.starts_with(&[size, system, way]);
            assert!(lines.iter().any(is_row), "{size} {way}: {text}");
        }
        let is_ours = |line: &Vec<&str>| line.starts_with(&[size, "nostall"]);
        assert!(lines.iter().any(is_ours), "{size}: {text}");
    }
    let figures = figures_in(dir.path());
    let real = value(&figures, "nostall", None, "ns 2500-byte-write");
    let system = value(&figures, "nostall", None, "system_ns 2500-byte-write");
    assert!(0.0 < system && system <= real, "{system} {real}");
    let release = &document_in(dir.path())["host"]["peers"][0]["release"];
    assert!(
        release
            .as_str()
            .is_some_and(|release| release.starts_with("6.1."))
    );
    let page = fs::read_to_string(dir.path().join("page")).unwrap();
    for row in ["2,500 bytes, real, sertest", "1 byte, real, tty"] {
        assert!(page.contains(row), "{row}");
    }
    // nostall's guest has no user space.
    assert!(!page.contains("1 byte, user"));
}

#[test]
fn linux_tears_the_bus_down_after_each_message_and_before_its_fix_wakes_a_thread_for_it() {
    let args = [
        "spi",
        "--on",
        "model",
        "--frames",
        "100",
        "--peers",
        "linux-6.1,linux-6.1-before",
    ];
    let Some(figures) = beside_linux(&args) else {
        return;
    };
    let teardowns = value(&figures, "linux-6.1", None, "teardowns_per_message");
    let woken = |strategy| value(&figures, strategy, None, "wakeups_per_message");
    assert_eq!(teardowns, 1.0);
    assert!(woken("linux-6.1-before") > 0.1, "{figures:?}");
    assert!(woken("linux-6.1") < 0.01, "{figures:?}");
    assert!(woken("nostall") < 0.01, "{figures:?}");
    assert!(value(&figures, "nostall", None, "teardowns_per_message") < 0.01);
}

#[test]
fn linux_records_functions_on_one_cpu_and_on_three_with_and_without_ecc() {
    let args = [
        "pstore",
        "--on",
        "model",
        "--peers",
        "linux-6.1,linux-6.1-before",
    ];
    let Some(figures) = beside_linux(&args) else {
        return;
    };
    for peer in ["linux-6.1", "linux-6.1-before"] {
        let of = |way, metric| value(&figures, peer, Some(way), metric);
        for way in ["untraced", "untraced-3cpu"] {
            assert_eq!(of(way, "records"), 0.0);
            assert!(of(way, "ns_per_block") > 0.0);
        }
        // A dd's system calls enter at least 8 functions a block, in 20,000 and in 500 blocks.
        for (way, least) in [
            ("ecc-0", 160_000.0),
            ("ecc-0-3cpu", 480_000.0),
            ("ecc-16", 4_000.0),
            ("ecc-16-3cpu", 12_000.0),
        ] {
            let records = of(way, "records");
            assert!(records >= least, "{peer} {way}: {records}");
            assert!(of(way, "ns_per_record") > 0.0);
        }
    }
}

#[test]
fn linux_prints_and_hides_messages() {
    let args = [
        "console",
        "--on",
        "model",
        "--profile",
        "vm",
        "--peers",
        "linux-6.1",
    ];
    let Some(figures) = beside_linux(&args) else {
        return;
    };
    for system in ["linux-6.1", "nostall"] {
        for way in ["printed", "hidden"] {
            assert!(value(&figures, system, Some(way), "ns_per_printk") > 0.0);
            assert!(value(&figures, system, Some(way), "longest_printk_ns") > 0.0);
        }
    }
}
