//! `nostall-lab run trace`: the kernel's own calls while it sends, and before it crashes.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use crate::common::kvm as common_kvm;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{is_of, qemu_for, root};
use assert_cmd::cargo::cargo_bin;
use nostall_postmortem::symbols::Symbols;
use nostall_trace::recover;
use nostall_tracefile::ZoneEvents;
use nostall_tracefile::graph::{Match, Step, walk};
use nostall_tracefile::model::{EventKind, ReadError};
use nostall_vm::qemu::QemuBoard;
use serde_json::Value;
use tempfile::TempDir;

fn run(args: &[&str], dir: &Path) -> Output {
    Command::new(cargo_bin("nostall-lab"))
        .arg("run")
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Figures of a run that succeeds, and its text.
struct Answer {
    dir: TempDir,
    text: String,
    figures: Vec<Value>,
}

impl Answer {
    fn of(args: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        let options = ["--json", "figures", "--capture", "traces"];
        let output = run(&[&["trace"], args, &options].concat(), dir.path());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {stderr}");
        let figures = fs::read_to_string(dir.path().join("figures")).unwrap();
        let figures: Value = serde_json::from_str(&figures).unwrap();
        Self {
            figures: figures["results"].as_array().unwrap().clone(),
            text: String::from_utf8(output.stdout).unwrap(),
            dir,
        }
    }

    fn figure(&self, strategy: &str, metric: &str) -> f64 {
        let is_it = |one: &&Value| one["strategy"] == strategy && is_of(one, metric);
        let found = self.figures.iter().find(is_it);
        found.unwrap_or_else(|| panic!("{strategy} {metric}"))["value"]
            .as_f64()
            .unwrap()
    }

    /// The names of the scopes that the crash ended, the outermost first, and of the calls
    /// before it.
    fn crash(&self) -> (Vec<String>, Vec<String>) {
        let trace = fs::read(self.dir.path().join("traces/crash.bin")).unwrap();
        let mut events = ZoneEvents::new(recover(&trace[..]).unwrap(), Box::new(|_| None));
        let (mut open, mut over) = (Vec::new(), Vec::new());
        walk::<ReadError>(&mut events, |catalog, step| {
            if let Step::Leave(slice) = step {
                let name = slice.function.map_or("", |name| catalog.text(name));
                match slice.matched {
                    Match::Open => open.insert(0, name.to_owned()),
                    _ => over.push(name.to_owned()),
                }
            }
            Ok(())
        })
        .unwrap();
        (open, over)
    }
}

const AGREED: &str = "RAM, and a second boot read the same.";

/// Checks a run in a guest whose kernel records the accesses to the port.
fn check_guest(answer: &Answer) {
    assert!(answer.text.trim_end().ends_with(AGREED), "{}", answer.text);
    assert!(
        answer.text.contains("send_byte_polled(0x1) {"),
        "{}",
        answer.text
    );
    assert!(
        answer.text.contains("crash: the trace ends in it"),
        "{}",
        answer.text
    );
    assert!(answer.figure("crash", "records_recovered") > 64.0);
    for bytes in [1, 2_500] {
        for strategy in ["byte-polled", "fifo-polled", "fifo-burst", "fifo-paced"] {
            let written = answer.figure(strategy, &format!("bytes {bytes}-byte-write"));
            assert_eq!(written, f64::from(bytes));
            assert!(answer.figure(strategy, &format!("traced_polls {bytes}-byte-write")) > 0.0);
        }
    }
    let (open, over) = answer.crash();
    assert!(open.contains(&"crash".to_owned()), "{open:?}");
    assert!(
        over.iter().any(|name| name == "send_fifo_polled"),
        "{over:?}"
    );
}

#[test]
fn the_model_shows_the_articles_picture_to_the_nanosecond() {
    let answer = Answer::of(&["--on", "model"]);
    // The article measured 411 us.
    assert_eq!(
        answer.figure("byte-polled", "traced_ns 1-byte-write"),
        399_600.0
    );
    assert_eq!(
        answer.figure("byte-polled", "traced_polls 1-byte-write"),
        144.0
    );
    // A write of one byte ends when the byte has left, or with pacing when it is in the FIFO.
    for polled in ["byte-polled", "fifo-polled", "fifo-burst"] {
        assert_eq!(
            answer.figure(polled, "traced_write_ns 1-byte-write"),
            399_600.0
        );
    }
    assert_eq!(
        answer.figure("fifo-paced", "traced_write_ns 1-byte-write"),
        3_400.0
    );
    assert_eq!(
        answer.figure("fifo-paced", "traced_polls 2500-byte-write"),
        490.0
    );
    assert_eq!(
        answer.figure("byte-polled", "records_overwritten 2500-byte-write"),
        0.0
    );
    let last = " 0) ! 399.600 us  |  }                         0) ! 402.856 us  |  }";
    assert!(
        answer.text.lines().any(|line| line == last),
        "{}",
        answer.text
    );
    for line in ["   1.700 us    |      read_lsr();", "   3.400 us    |    }"] {
        assert!(answer.text.contains(line), "{line}: {}", answer.text);
    }
}

#[test]
fn a_crashed_pcs_last_calls_are_read_from_its_ram_and_by_the_next_boot() {
    if qemu_for("trace_on_q35", QemuBoard::Q35).is_some() {
        check_guest(&Answer::of(&["--on", "qemu"]));
    }
}

#[test]
fn a_crashed_riscv_machines_last_calls_are_read_alike() {
    if qemu_for("trace_on_virt", QemuBoard::Virt).is_some() {
        check_guest(&Answer::of(&["--machine", "virt", "--cpus", "2"]));
    }
}

#[test]
fn a_crashed_arm_machines_last_calls_are_read_alike() {
    if qemu_for("trace_on_arm_virt", QemuBoard::ArmVirt).is_some() {
        check_guest(&Answer::of(&["--machine", "arm-virt", "--cpus", "2"]));
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn a_crashed_kvm_guests_last_calls_are_read_alike() {
    use nostall_vm::kvm::Options;
    if common_kvm::kvm_with("trace_on_kvm", Options::default()).is_some() {
        check_guest(&Answer::of(&["--on", "kvm"]));
    }
}

#[test]
fn a_port_that_fails_is_reported_and_ends_with_a_status() {
    let dir = TempDir::new().unwrap();
    let output = run(
        &["trace", "--on", "model", "--fault", "stuck-lsr:200"],
        dir.path(),
    );
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("Not as it should be:\n  byte-polled, 2500 bytes: only "),
        "{text}"
    );
    let output = run(&["trace", "--on", "qemu", "--fault", "no-cts"], dir.path());
    let stderr = String::from_utf8_lossy(&output.stderr);
    let refused = "nostall: --fault no-cts has no meaning with --on qemu: it goes with --on model";
    assert!(stderr.starts_with(refused), "{stderr}");
}

/// Builds the kernel whose every function can be recorded. Without the pinned nightly the test
/// prints that it is skipped, and fails if `NOSTALL_REQUIRE_TOOLS` is set.
fn traced_kernel(test: &str, target: &str) -> Option<PathBuf> {
    let root = root();
    let nightly = Command::new(root.join("scripts/setup"))
        .arg("print-nightly")
        .output()
        .unwrap();
    let nightly = String::from_utf8(nightly.stdout).unwrap();
    let libdir = Command::new("rustup")
        .args([
            "run",
            nightly.trim(),
            "rustc",
            "--print",
            "target-libdir",
            "--target",
            target,
        ])
        .output();
    let libdir = libdir.map(|found| String::from_utf8_lossy(&found.stdout).trim().to_owned());
    if !libdir.is_ok_and(|libdir| !libdir.is_empty() && Path::new(&libdir).is_dir()) {
        let missing = format!("no {target} for the pinned nightly: scripts/setup traced-kernel");
        assert!(
            std::env::var_os("NOSTALL_REQUIRE_TOOLS").is_none(),
            "{test}: {missing}"
        );
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {missing}");
        return None;
    }
    let built = Command::new(root.join("scripts/traced-kernel"))
        .arg(target)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{stderr}");
    Some(root.join(String::from_utf8(built.stdout).unwrap().trim()))
}

/// The symbols of the calls in a kernel's trace, and the conditions that its CPUs waited for.
fn calls_and_stalls(trace: &Path, kernel: &Path) -> (Vec<String>, Vec<String>) {
    let trace = fs::read(trace).unwrap();
    let symbols = Symbols::parse(&fs::read(kernel).unwrap()).unwrap();
    let name = |address| Some(symbols.lookup(address)?.name.to_owned());
    let mut events = ZoneEvents::new(recover(&trace[..]).unwrap(), Box::new(name));
    let (mut names, mut waits) = (Vec::new(), Vec::new());
    walk::<ReadError>(&mut events, |catalog, step| {
        match step {
            Step::Leave(slice) => {
                names.extend(slice.function.map(|name| catalog.text(name).to_owned()));
            }
            Step::Event(event) => {
                if let EventKind::Stall { condition, .. } = event.kind {
                    waits.push(catalog.text(condition).to_owned());
                }
            }
            Step::Enter(_) => {}
        }
        Ok(())
    })
    .unwrap();
    (names, waits)
}

/// Runs on a kernel whose every function is recorded.
fn check_functions(test: &str, board: QemuBoard, args: &[&str]) {
    if qemu_for(test, board).is_none() {
        return;
    }
    let Some(kernel) = traced_kernel(test, board.architecture().target()) else {
        return;
    };
    // A quarter of the file is symbols, which are not loaded.
    assert!(fs::metadata(&kernel).unwrap().len() < 5 << 18);
    let answer = Answer::of(&[args, &["--kernel", kernel.to_str().unwrap()]].concat());
    assert!(answer.text.trim_end().ends_with(AGREED), "{}", answer.text);
    let functions = answer.text.lines().nth(1).unwrap();
    let functions = functions
        .strip_suffix(" functions")
        .unwrap()
        .rsplit(' ')
        .next()
        .unwrap();
    assert!(functions.parse::<u32>().unwrap() > 300, "{functions}");
    // Functions and scopes are nested in one another.
    for name in ["Console::enter() {", "Console::check_power();"] {
        assert!(answer.text.contains(name), "{name}: {}", answer.text);
    }
    assert!(!answer.text.contains("Recorder::"), "{}", answer.text);
    let traces = answer.dir.path().join("traces");
    let (names, _) = calls_and_stalls(&traces.join("fifo-paced-1.bin"), &kernel);
    assert!(names.iter().any(|name| name.contains("Throttle")));
    assert!(
        !names.iter().any(|name| name.contains("Stalls")),
        "{names:?}"
    );
    // A wait for each byte: a host that pauses QEMU for the time of one byte hides only one wait.
    let (_, waits) = calls_and_stalls(&traces.join("byte-polled-2500.bin"), &kernel);
    assert!(waits.contains(&"transmitter".to_owned()), "{waits:?}");
    assert!(
        !answer.text.contains("is not in the trace"),
        "{}",
        answer.text
    );
    assert!(
        answer
            .text
            .contains("rust_begin_unwind: the trace ends in it"),
        "{}",
        answer.text
    );
    let (calls, accesses) = (
        "traced_calls 1-byte-write",
        "register_instructions 1-byte-write",
    );
    for strategy in ["byte-polled", "fifo-paced"] {
        assert!(answer.figure(strategy, calls) > 2.0 * answer.figure(strategy, accesses));
    }
}

#[test]
fn every_function_of_a_pcs_kernel_is_recorded_in_a_kernel_that_is_built_for_it() {
    check_functions(
        "functions_on_q35",
        QemuBoard::Q35,
        &["--on", "qemu", "--cpus", "2"],
    );
}

#[test]
fn every_function_of_a_riscv_kernel_is_recorded_alike() {
    check_functions(
        "functions_on_virt",
        QemuBoard::Virt,
        &["--machine", "virt", "--cpus", "2"],
    );
}

#[test]
fn every_function_of_an_arm_kernel_is_recorded_alike() {
    check_functions(
        "functions_on_arm_virt",
        QemuBoard::ArmVirt,
        &["--machine", "arm-virt", "--cpus", "2"],
    );
}

#[test]
fn places_for_calls_that_are_off_cost_at_most_5_percent_more_instructions() {
    let test = "places_for_calls";
    if qemu_for(test, QemuBoard::Q35).is_none() {
        return;
    }
    let Some(kernel) = traced_kernel(test, "x86_64-unknown-none") else {
        return;
    };
    // One instruction takes one nanosecond there.
    let args = "uart --on qemu --bytes 2500 --qemu-arg=-icount --qemu-arg=shift=0,sleep=off \
                --json figures";
    let args: Vec<_> = args.split_whitespace().collect();
    let instructions = |more: &[&str]| {
        let dir = TempDir::new().unwrap();
        let output = run(&[&args, more].concat(), dir.path());
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let figures = fs::read_to_string(dir.path().join("figures")).unwrap();
        let figures: Value = serde_json::from_str(&figures).unwrap();
        let figures = figures["results"].as_array().unwrap().iter();
        let of_text = figures.filter(|figure| is_of(figure, "ns_per_byte"));
        let pairs = of_text.map(|figure| (figure["strategy"].clone(), figure["value"].as_f64()));
        pairs.collect::<Vec<_>>()
    };
    let plain = instructions(&[]);
    let with_places = instructions(&["--kernel", kernel.to_str().unwrap()]);
    assert_eq!(plain.len(), 4);
    for ((strategy, plain), (_, more)) in plain.into_iter().zip(with_places) {
        let ratio = more.unwrap() / plain.unwrap();
        // That kernel also records stalls, and their code changes the drivers' a little.
        assert!((0.95..=1.05).contains(&ratio), "{strategy}: {ratio}");
    }
}
