//! The tour, as a newcomer meets it, and `bench/expected.json`: the figures that are the same in
//! every run, and upper bounds for instruction counts.
//!
//! With `NOSTALL_RECORD` set, the file is written and not compared (`make expected`).
#![cfg(unix)]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use crate::common::kvm as common_kvm;
use crate::common::{self, root};

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;

use nostall_vm::qemu::QemuBoard;
use serde_json::Value;
use tempfile::TempDir;

/// Rows of the table.
const ROWS: usize = 21;

/// Values by run, and then by strategy, profile and metric.
type Figures = BTreeMap<String, BTreeMap<String, f64>>;

/// Two tests write the same file.
static FILE: Mutex<()> = Mutex::new(());

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nostall-lab"));
    command.stdin(Stdio::null()).arg("run");
    command
}

/// Returns the figures of a document that `is_wanted` chooses from.
fn figures(document: &str, run: Option<&str>, is_wanted: impl Fn(&Value, &str) -> bool) -> Figures {
    let document: Value = serde_json::from_str(document).unwrap();
    assert_eq!(document["schema"], 2);
    let mut all = Figures::new();
    for figure in document["results"].as_array().unwrap() {
        let of_tour = figure["command"].as_str();
        let run = run
            .or_else(|| of_tour?.strip_prefix("nostall-lab run "))
            .unwrap();
        if is_wanted(figure, run) {
            let words = ["strategy", "profile", "metric", "case"].map(|name| figure[name].as_str());
            let key = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
            let value = figure["value"].as_f64().unwrap();
            all.entry(run.to_owned()).or_default().insert(key, value);
        }
    }
    all
}

/// Whether a figure of the tour is the same in every run.
fn is_exact(figure: &Value, run: &str) -> bool {
    let word = |name: &str| figure[name].as_str().unwrap();
    let (on, strategy, metric) = (word("on"), word("strategy"), word("metric"));
    let is_one_of = |metrics: &[&str]| metrics.contains(&metric);
    // Ratios follow from other figures, and a text of one line is sent as one write.
    let is_special = figure["path"] == "uart" && figure["case"].is_string();
    if is_special || metric.contains("ratio") {
        return false;
    }
    match on {
        "model" => true,
        "host-threads" => {
            is_one_of(&[
                "bytes",
                "records",
                "records_recovered",
                "frames",
                "messages",
            ]) || (strategy, metric) == ("caller", "messages_by_worker")
        }
        // Pacing goes by the clock.
        _ if strategy == "fifo-paced" => false,
        // Its devices are those of its version.
        "qemu" => {
            is_one_of(&["bytes", "records", "records_recovered"])
                || metric.starts_with("register_instructions_per_")
                || metric.starts_with("bus_accesses_per_")
                    && !metric.ends_with("_scan")
                    && !metric.ends_with("_init")
        }
        // Collected writes are also taken by a timer.
        "kvm" if run.contains("mmio-readonly") && metric.starts_with("exits_") => false,
        "kvm" => {
            is_one_of(&["bytes", "functions", "buses", "faults"])
                || [
                    "register_instructions_per_",
                    "bus_accesses_per_",
                    "exits_per_",
                ]
                .iter()
                .any(|start| metric.starts_with(start))
        }
        on => panic!("{on}"),
    }
}

/// Compares `found` with a part of the file, or records it.
fn compare(part: &str, found: Figures, holds: impl Fn(f64, f64) -> bool) {
    let _only = FILE.lock().unwrap();
    let file = root().join("bench/expected.json");
    let text = fs::read_to_string(&file).unwrap();
    let mut expected: BTreeMap<String, Figures> = serde_json::from_str(&text).unwrap();
    if env::var_os("NOSTALL_RECORD").is_some() {
        expected.insert(part.to_owned(), found);
        let text = serde_json::to_string_pretty(&expected).unwrap() + "\n";
        fs::write(&file, text).unwrap();
        return;
    }
    for (run, expected) in &expected[part] {
        // A machine that is not there was said to be skipped.
        let Some(found) = found.get(run) else {
            let is_optional = run.contains("--on qemu") || run.contains("--on kvm");
            assert!(is_optional, "nostall-lab run {run} has no figures");
            continue;
        };
        for (key, expected) in expected {
            let found = found.get(key);
            assert!(
                found.is_some_and(|found| holds(*found, *expected)),
                "nostall-lab run {run}: {key} is {found:?}, {expected} is expected \
                 (`make expected` records what is right now)"
            );
        }
        let new = found.keys().find(|key| !expected.contains_key(*key));
        assert_eq!(
            new, None,
            "nostall-lab run {run}: recorded with `make expected`"
        );
    }
}

/// Checks the form of a table, and returns its lines.
fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    assert!(lines.len() <= 40, "{} lines:\n{text}", lines.len());
    let widest = lines.iter().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?} columns:\n{text}");
    assert!(!text.contains('\x1b'), "{text}");
    assert!(text.contains("docs/src/tour.md"), "{text}");
    assert!(
        text.contains("A row alone: `nostall-lab run` with\n  uart --on model"),
        "{text}"
    );
    lines
}

/// The rows, which stand between headings before the first empty line.
fn rows(lines: &[String]) -> Vec<&String> {
    let table = lines.iter().take_while(|line| !line.is_empty()).skip(1);
    let experiments = [
        "uart: ",
        "pstore: ",
        "pci: ",
        "spi: ",
        "console: ",
        "trace: ",
    ];
    let is_heading = |line: &String| experiments.iter().any(|name| line.starts_with(name));
    table.filter(|line| !is_heading(line)).collect()
}

/// Whether the host has each machine; a test that misses one says so.
fn machines() -> (bool, bool) {
    let test = "the_tour";
    let q35 = common::qemu_for(test, QemuBoard::Q35).is_some();
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    let kvm = {
        use nostall_vm::kvm::{Options, PciMode, UartMode};
        let best = Options {
            uart: UartMode::MmioReadonly,
            pci: PciMode::EcamShadow,
        };
        common_kvm::kvm_with(test, best).is_some()
    };
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    let kvm = false;
    (q35, kvm)
}

#[test]
fn the_tour_shows_every_fix_in_one_table_and_its_exact_figures_are_as_expected() {
    let (qemu, kvm) = machines();
    let dir = TempDir::new().unwrap();
    let output = command()
        .args(["--json", "figures"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let recording = env::var_os("NOSTALL_RECORD").is_some();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || recording, "{stderr}");
    let lines = lines(&output);
    let rows = rows(&lines);
    assert_eq!(rows.len(), ROWS, "{lines:#?}");
    for row in rows {
        let is_there = match row.find("needs ") {
            Some(at) if row[at..].starts_with("needs KVM: ") => !kvm,
            Some(at) if row[at..].starts_with("needs QEMU: ") => !qemu,
            Some(_) => false,
            None => ["model", "QEMU", "KVM", "~host", "~QEMU", "~KVM"]
                .iter()
                .any(|on| row.ends_with(&format!("  {on}"))),
        };
        assert!(is_there, "{row}");
    }
    let document = fs::read_to_string(dir.path().join("figures")).unwrap();
    let found = figures(&document, None, is_exact);
    assert_eq!(found.keys().any(|run| run.contains("--on qemu")), qemu);
    assert_eq!(found.keys().any(|run| run.contains("--on kvm")), kvm);
    compare("exact", found, |found, expected| found == expected);
}

#[cfg(target_os = "linux")]
/// The disk is full at the end: the table is printed, and that is the only error.
#[test]
fn without_qemu_and_kvm_and_with_a_full_disk_the_table_is_smaller_and_the_rest_is_right() {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;

    const OTHER_USER: u32 = 65_534;
    let mut command = command();
    command.args(["--json", "/dev/full"]);
    command.env("PATH", "/nonexistent").current_dir("/");
    let has_kvm = match fs::metadata("/dev/kvm") {
        Err(_) => false,
        // Another user may not open it.
        Ok(device) if device.mode() & 0o006 == 0 => {
            command.uid(OTHER_USER).gid(OTHER_USER);
            false
        }
        Ok(_) => true,
    };
    let Ok(output) = command.output() else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED without_qemu_and_kvm: not root, or no other user may run the command"
        );
        return;
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let full = "  --json /dev/full: No space left on device (os error 28)\n";
    assert_eq!(stderr.split_once('\n').unwrap().1, full);
    let lines = lines(&output);
    let rows = rows(&lines);
    assert_eq!(rows.len(), ROWS);
    let needs = |machine: &str| rows.iter().filter(|row| row.contains(machine)).count();
    assert_eq!(
        needs("  needs QEMU: qemu-system-x86_64 is not installed"),
        3,
        "{rows:#?}"
    );
    assert_eq!(
        needs("  needs KVM: "),
        if has_kvm { 0 } else { 3 },
        "{rows:#?}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("`make setup` installs QEMU")),
        "{lines:#?}"
    );
}

#[test]
fn a_document_that_cannot_be_opened_costs_no_run() {
    let output = command().args(["--json", "/nonexistent/figures"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.starts_with("nostall: --json /nonexistent/figures: No such file"),
        "{stderr}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn an_unknown_experiment_is_answered_with_the_list_of_experiments() {
    let output = command().arg("bogus").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    let known = "nostall: there is no experiment 'bogus'\n\nExperiments:\n  uart ";
    assert!(stderr.starts_with(known), "{stderr}");
    assert!(
        stderr.contains("\n\nUsage: nostall-lab run [--json FILE]"),
        "{stderr}"
    );
    let help = command().arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let list = |text: &str| {
        let (_, list) = text.split_once("\nExperiments:\n").unwrap();
        let list = list.split("\n\n").next().unwrap();
        list.to_owned()
    };
    assert_eq!(list(&stderr), list(&help));
}

#[test]
fn instruction_counts_stay_below_their_bounds() {
    let test = "instruction_counts";
    if common::qemu_for(test, QemuBoard::Q35).is_none() {
        return;
    }
    let toolchain = fs::read_to_string(root().join("rust-toolchain.toml")).unwrap();
    let (_, pinned) = toolchain.split_once("channel = \"").unwrap();
    let pinned = pinned.split('"').next().unwrap();
    let rustc = env::var_os("RUSTC").unwrap_or("rustc".into());
    let version = Command::new(rustc).arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    if !version.starts_with(&format!("rustc {pinned} ")) {
        let version = version.trim();
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED {test}: {version} is not {pinned}"
        );
        return;
    }
    // One instruction takes one nanosecond there.
    let count = "--qemu-arg=-icount --qemu-arg=shift=0,sleep=off";
    let count_all = |(run, metrics): (&str, &[&str])| {
        let dir = TempDir::new().unwrap();
        let run = format!("{run} {count}");
        let output = command()
            .args(run.split(' '))
            .args(["--json", "figures"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{run}: {stderr}");
        let document = fs::read_to_string(dir.path().join("figures")).unwrap();
        let is_wanted = |figure: &Value, _: &str| {
            metrics.contains(&figure["metric"].as_str().unwrap()) && figure["case"].is_null()
        };
        figures(&document, Some(&run), is_wanted)
    };
    let runs = [
        ("uart --on qemu --bytes 1000", &["ns_per_byte"][..]),
        ("pci --on qemu", &["ns_per_read", "ns_per_write"]),
        ("pstore --on qemu", &["ns_per_record"]),
    ];
    // Other load of the host takes no instructions from a guest.
    let mut found: Figures = thread::scope(|scope| {
        let runs = runs.map(|run| scope.spawn(move || count_all(run)));
        runs.into_iter()
            .flat_map(|run| run.join().unwrap())
            .collect()
    });
    if env::var_os("NOSTALL_RECORD").is_some() {
        // Room for another way of QEMU's to count, and not for another loop.
        let all = found.values_mut().flat_map(BTreeMap::values_mut);
        all.for_each(|count| *count = (*count * 1.05).ceil());
    }
    compare("instructions_at_most", found, |found, bound| found <= bound);
}

#[test]
fn make_run_without_arguments_is_the_tour() {
    let Ok(output) = Command::new("make")
        .args(["--no-print-directory", "--dry-run", "run", "ARGS="])
        .current_dir(root())
        .output()
    else {
        let _ = writeln!(std::io::stderr(), "SKIPPED make_run: there is no make");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap().trim_end();
    assert!(
        last.contains("--package nostall-lab") && last.ends_with(" -- run"),
        "{text}"
    );
}

#[test]
fn an_experiment_and_the_tours_options_exclude_each_other() {
    let output = command()
        .args(["--json", "figures", "uart"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let output = command().arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for words in [
        "Without an experiment",
        "Exit status of the tour",
        "  uart ",
        "--json <FILE>",
    ] {
        assert!(help.contains(words), "{words}: {help}");
    }
}
