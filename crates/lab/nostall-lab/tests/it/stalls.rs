//! `nostall stalls` on Debian's kernels, beside Linux's own function graph, the port and QEMU.
//!
//! `linux/stalls` boots the guests. Counts and bytes are compared exactly. A guest's times depend on
//! the host's load, so only the times of one recording are compared with each other.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::linux::run_script;

/// The lines that the guest writes.
const LINES: u64 = 200;

/// The files of a guest.
struct Guest {
    folder: TempDir,
    kernel: &'static str,
}

impl Guest {
    fn file(&self, extension: &str) -> PathBuf {
        self.folder
            .path()
            .join(format!("{}.{extension}", self.kernel))
    }

    fn text(&self, extension: &str) -> String {
        fs::read_to_string(self.file(extension)).unwrap()
    }

    /// Returns the report that the command makes of a recording.
    fn report(&self, extension: &str) -> Value {
        let output = Command::new(cargo_bin("nostall"))
            .args(["stalls", "--json"])
            .arg(self.file(extension))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", self.kernel);
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Boots the kernel's guest to its end, or skips the test as [`run_script`].
fn guest(test: &str, kernel: &'static str, options: &[&str]) -> Option<Guest> {
    let program = cargo_bin("nostall");
    let mut arguments = vec!["--nostall".as_ref(), program.as_os_str()];
    arguments.extend(options.iter().map(OsStr::new));
    arguments.push(kernel.as_ref());
    let folder = run_script(test, "stalls", &arguments)?;
    Some(Guest { folder, kernel })
}

/// Returns whether this machine has trace-cmd. It fails if `NOSTALL_REQUIRE_TOOLS` is set and not.
fn has_trace_cmd() -> bool {
    let has = Command::new("trace-cmd").output().is_ok();
    let is_required = std::env::var_os("NOSTALL_REQUIRE_TOOLS").is_some();
    assert!(has || !is_required, "run scripts/setup trace-tools");
    has
}

fn path<'a>(report: &'a Value, name: &str) -> &'a Value {
    let paths = report["paths"].as_array().unwrap();
    paths.iter().find(|path| path["path"] == name).unwrap()
}

/// Checks all files of a guest. `console` is the path of its console's driver.
fn check(guest: &Guest, console: &str) {
    let live: Value = serde_json::from_str(&guest.text("live")).unwrap();
    let (graph, dat) = (guest.report("graph"), guest.report("dat"));
    for report in [&live, &graph, &dat] {
        assert_eq!(path(report, console)["count"], LINES, "{report}");
        assert_eq!(report["lost_records"], 0);
    }

    // The port has a return before each line feed, which the driver does not count.
    let port = fs::read(guest.file("port")).unwrap();
    let port = String::from_utf8_lossy(&port).replace('\r', "");
    let lines = port.split_inclusive('\n');
    let flood = lines.filter(|line| line.contains(" of a flood"));
    // trace-cmd's flood may follow.
    let flood: Vec<_> = flood.take(LINES as usize).collect();
    assert_eq!(flood.len() as u64, LINES);
    let bytes: usize = flood.iter().map(|line| line.len()).sum();
    assert_eq!(path(&live, console)["bytes"], bytes);

    let reads: u64 = guest.text("pci").trim().parse().unwrap();
    assert!(reads > 100, "{reads}");
    assert_eq!(path(&live, "pci_ports")["count"], reads);
    assert_eq!(path(&graph, "pci_ports")["count"], reads);

    // The recording gives the figures of the measurement.
    let paths = |report: &Value| report["paths"].as_array().unwrap().clone();
    for (live, dat) in paths(&live).iter().zip(paths(&dat)) {
        for figure in [
            "count",
            "total_ns",
            "median_ns",
            "p99_ns",
            "bytes",
            "longest",
            "cpus",
        ] {
            assert_eq!(live[figure], dat[figure], "{} {figure}", live["path"]);
        }
    }
    // The same calls, measured twice: each method's cost is a part of the other's time. So is a pause
    // of the machine between their stamps, which makes some calls much longer, but not the median.
    let median = |report: &Value| path(report, console)["median_ns"].as_f64().unwrap();
    let ratio = median(&live) / median(&graph);
    assert!((0.5..2.0).contains(&ratio), "{ratio}");

    let expected = "\
after Ctrl-C: 0 probes, 0 instances
nostall: another run of `nostall stalls` measures on this machine: wait for its end
after SIGKILL and another run: 1 probes, 1 instances
nostall: the probes and the instance of an earlier run are removed
after --clean: 1 probes, 1 instances
switched tracing off
with a CPU switched off: status 0
nostall: /mnt/dat: No space left on device (os error 28)
on a full disk: status 1, 0 files
at the end: 1 probes, 1 instances
after a recorded boot: 0 probes, 0 instances
";
    let left = guest.text("left");
    for (line, expected) in left.lines().zip(expected.lines()) {
        assert!(line.contains(expected), "{left}");
    }
    assert_eq!(left.lines().count(), expected.lines().count(), "{left}");
    let report = guest.text("report");
    assert!(report.contains("in task "), "{report}");
    assert!(
        !report.contains("init/") && !report.contains("cat/"),
        "{report}"
    );
}

/// Checks the recording of a boot. The last lines of the port are those of the recorded calls.
fn check_boot(guest: &Guest, console: &str) {
    let boot: Value = serde_json::from_str(&guest.text("boot")).unwrap();
    let driver = path(&boot, console);
    let calls = driver["count"].as_u64().unwrap();
    assert!(calls > 3, "{boot}");
    let port = fs::read(guest.file("again")).unwrap();
    let port = String::from_utf8_lossy(&port).replace('\r', "");
    let lines = port.split_inclusive('\n').rev();
    let lines = lines.filter(|line| !line.contains("reboot: Power down"));
    let bytes: usize = lines.take(calls as usize).map(str::len).sum();
    assert_eq!(driver["bytes"], bytes, "{port}");
    let notes = boot["notes"].to_string();
    for part in ["first event was at", "at 115,200 baud", "tasks printed for"] {
        assert!(notes.contains(part), "{notes}");
    }
}

#[test]
fn a_task_that_prints_is_held_as_linux_says() {
    let options = match has_trace_cmd() {
        true => &["--trace-cmd"][..],
        false => &[],
    };
    let test = "a_task_that_prints_is_held_as_linux_says";
    if let Some(guest) = guest(test, "6.1-amd64", options) {
        check(&guest, "console_8250");
        check_boot(&guest, "console_8250");
        if !options.is_empty() {
            let report: Value = serde_json::from_str(&guest.text("cmd")).unwrap();
            assert_eq!(path(&report, "console_8250")["count"], LINES, "{report}");
            assert_eq!(report["losses_of_unknown_size"], 0);
        }
    }
}

#[test]
fn a_printing_thread_is_seen_and_no_task_is_held() {
    let test = "a_printing_thread_is_seen_and_no_task_is_held";
    if let Some(guest) = guest(test, "newest-amd64", &[]) {
        check(&guest, "console_8250_thread");
    }
}
