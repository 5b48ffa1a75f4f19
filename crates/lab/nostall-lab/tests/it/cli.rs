//! The command as its user sees it.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::pauses::pause_until;
use crate::common::qemu;
use assert_cmd::cargo::cargo_bin;
use tempfile::TempDir;

const BOOT_LOG: &[u8] = include_bytes!("../../fixtures/console/linux-boot.log");
const STRATEGIES: [&str; 4] = ["byte-polled", "fifo-polled", "fifo-burst", "fifo-paced"];

fn nostall(args: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("nostall-lab"));
    command.args(args).stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    nostall(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the one line on stderr of a command that failed.
fn error(output: &Output) -> String {
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr.trim().to_owned()
}

fn succeed(args: &[&str]) -> String {
    let output = run(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    assert_eq!(stderr, "", "nothing but the answer");
    stdout(&output)
}

fn crlf(text: &[u8]) -> Vec<u8> {
    let mut line = Vec::new();
    for &byte in text {
        if byte == b'\n' {
            line.push(b'\r');
        }
        line.push(byte);
    }
    line
}

/// Reads the figures of a document, by strategy and metric.
fn figures(file: &Path, on: &str) -> HashMap<(String, String), f64> {
    let text = fs::read_to_string(file).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], 2);
    assert!(document["host"].is_object());
    let results = document["results"].as_array().unwrap();
    let mut figures = HashMap::new();
    for result in results {
        assert_eq!(result["path"], "uart");
        assert_eq!(result["on"], on);
        assert!(result["unit"].is_string() && result["n"].as_u64() >= Some(1));
        let key = |name: &str| result[name].as_str().unwrap().to_owned();
        let case = result["case"].as_str();
        let metric = case.map_or(key("metric"), |case| format!("{} {case}", key("metric")));
        let known = figures.insert((key("strategy"), metric), result["value"].as_f64().unwrap());
        assert_eq!(known, None, "one figure a name");
    }
    figures
}

/// Checks the expected figures: the boot log in one write, with CRs counted as bytes.
fn check_figures(figures: &HashMap<(String, String), f64>) {
    let figure = |strategy: &str, metric: &str| figures[&(strategy.into(), metric.into())];
    for strategy in STRATEGIES {
        assert_eq!(figure(strategy, "bytes"), 22_454.0);
        assert!(figure(strategy, "ns_per_byte") > 0.0);
    }
    // One access per write, in addition to two per byte.
    let byte_polled = figure("byte-polled", "bus_accesses_per_byte");
    assert_eq!(byte_polled, (2.0 * 22_454.0 + 1.0) / 22_454.0);
    assert!(figure("fifo-polled", "bus_accesses_per_byte") <= 1.07);
    assert!(figure("fifo-burst", "bus_accesses_per_byte") <= 1.07);
    assert!(figure("fifo-burst", "register_instructions_per_byte") <= 0.13);
}

#[test]
fn the_model_gives_the_figures() {
    let dir = TempDir::new().unwrap();
    let json = dir.path().join("figures.json");
    let out = succeed(&[
        "run",
        "uart",
        "--on",
        "model",
        "--json",
        json.to_str().unwrap(),
    ]);
    assert!(out.starts_with("uart on model, profile vm"));
    assert!(out.contains("Every byte arrived: 8 sendings of 22454 bytes."));
    check_figures(&figures(&json, "model"));
}

#[test]
fn qemu_gives_the_figures() {
    if qemu("qemu_gives_the_figures").is_none() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let json = dir.path().join("figures.json");
    let out = succeed(&[
        "run",
        "uart",
        "--on",
        "qemu",
        "--json",
        json.to_str().unwrap(),
    ]);
    assert!(out.starts_with("uart on qemu "), "{out}");
    assert!(out.contains("Every byte arrived: 40 sendings of 22454 bytes."));
    check_figures(&figures(&json, "qemu"));
}

#[test]
fn on_a_real_line_the_model_takes_its_time() {
    let out = succeed(&["run", "uart", "--on", "model", "--profile", "pc-16550a"]);
    let row = out.lines().find(|l| l.starts_with("fifo-burst   whole"));
    assert!(row.unwrap().contains("86.8 us"), "{out}");
}

#[test]
fn the_peer_driver_is_measured_on_a_line_of_the_same_rate() {
    let out = succeed(&["run", "uart", "--on", "model", "--profile", "pc-16550a"]);
    let row = out.lines().find(|line| line.starts_with("uart_16550"));
    assert!(row.unwrap().ends_with(" 86.8 us"), "{out}");
}

/// Any bytes at all, newlines at awkward places among them.
fn strange_log() -> Vec<u8> {
    let mut log: Vec<u8> = (0..=255).collect();
    log.extend(b"\n\n\r\n\n123456789012345\n1234567890123456\n\n");
    for n in 0..200usize {
        log.extend(std::iter::repeat_n(b'a' + (n % 26) as u8, n % 37));
        log.push(b'\n');
    }
    log.extend(b"no newline at the end");
    log
}

fn arrives_whole(on: &str) {
    let dir = TempDir::new().unwrap();
    let input = dir.path().join("log");
    let captures = dir.path().join("new/captures");
    fs::write(&input, strange_log()).unwrap();
    let out = succeed(&[
        "run",
        "uart",
        "--on",
        on,
        "--input",
        input.to_str().unwrap(),
        "--capture",
        captures.to_str().unwrap(),
    ]);
    assert!(out.contains("Every byte arrived"), "{out}");
    for strategy in STRATEGIES {
        let captured = fs::read(captures.join(format!("{strategy}.bin"))).unwrap();
        assert!(captured == crlf(&strange_log()), "{strategy}");
    }
    assert_eq!(fs::read_dir(&captures).unwrap().count(), 4);
}

#[test]
fn any_input_arrives_whole_on_the_model() {
    arrives_whole("model");
}

#[test]
fn any_input_arrives_whole_in_qemu() {
    if qemu("any_input_arrives_whole_in_qemu").is_some() {
        arrives_whole("qemu");
    }
}

#[test]
fn bytes_are_a_repeating_alphabet() {
    let dir = TempDir::new().unwrap();
    let captures = dir.path().to_str().unwrap();
    succeed(&[
        "run",
        "uart",
        "--on",
        "model",
        "--bytes",
        "30",
        "--capture",
        captures,
    ]);
    let captured = fs::read(dir.path().join("fifo-burst.bin")).unwrap();
    assert_eq!(captured, b"abcdefghijklmnopqrstuvwxyzabcd");
}

#[test]
fn bytes_that_do_not_arrive_are_a_failure() {
    if qemu("bytes_that_do_not_arrive").is_none() {
        return;
    }
    let output = run(&[
        "run",
        "uart",
        "--on",
        "qemu",
        "--bytes",
        "100",
        "--qemu-arg=-set",
        "--qemu-arg=chardev.serial.path=/dev/null",
    ]);
    let error = error(&output);
    let first = "38 of 38 ways lost bytes: byte-polled, whole: only 0 of 100 bytes arrived";
    assert!(error.contains(first), "{error}");
    assert!(stdout(&output).contains("fifo-burst, lines: only 0 of 100 bytes arrived"));
    assert!(!stdout(&output).contains("Every byte arrived"));
}

#[test]
fn every_fault_ends_in_bounded_time_with_a_report_that_says_what_to_do() {
    for (fault, says) in [
        ("stuck-lsr", "stuck or held off"),
        ("all-ones", "check its power and address"),
        ("no-cts", "check the other end's flow control"),
        ("short-fifo", "try a smaller transmit load"),
        ("power-loss", "bytes given up"),
    ] {
        let args = [
            "run",
            "uart",
            "--on",
            "model",
            "--profile",
            "pc-16550a",
            "--fault",
            fault,
        ];
        let output = run(&[&args[..], &["--bytes", "2000"]].concat());
        let error = error(&output);
        assert!(error.contains(says), "{fault}: {error}");
        assert!(
            stdout(&output).contains("Not every byte arrived:"),
            "{fault}"
        );
    }
    let slow = succeed(&[
        "run",
        "uart",
        "--on",
        "model",
        "--fault",
        "slow-reads",
        "--bytes",
        "2000",
    ]);
    assert!(slow.contains("slow-reads after 1000 accesses"));
    assert!(slow.contains("Every byte arrived"));
    let absent = run(&["run", "uart", "--on", "model", "--fault", "all-ones:0"]);
    assert!(error(&absent).contains("no serial port answers there"));
}

#[test]
fn the_slow_machine_is_printed_beside_what_was_published_of_it() {
    let out = succeed(&[
        "run",
        "uart",
        "--on",
        "model",
        "--profile",
        "hp-dl380-gen9",
        "--bytes",
        "3000",
    ]);
    for figure in ["411 us", "997 ms", "112 ms", "3.14 s"] {
        assert!(out.contains(figure), "{figure}: {out}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_fault_and_loses_no_file() {
    let dir = TempDir::new().unwrap();
    let json = dir.path().join("figures.json");
    let mut command = nostall(&[
        "run",
        "uart",
        "--on",
        "model",
        "--json",
        json.to_str().unwrap(),
    ])
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    drop(command.stdout.take());
    assert!(command.wait().unwrap().success());
    assert!(!figures(&json, "model").is_empty());

    let mut command = nostall(&["run", "uart", "--on", "model"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(command.stdout.take());
    assert_eq!(command.wait().unwrap().code(), Some(128 + 13));

    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = nostall(&["run", "uart", "--on", "model"])
        .stdout(full)
        .output()
        .unwrap();
    assert!(error(&output).contains("standard output: No space left"));
}

#[test]
fn a_mistake_is_one_clear_line() {
    for (args, says) in [
        (
            &["--input", "/nonexistent"][..],
            "--input /nonexistent: No such file",
        ),
        (&["--input", "/"], "--input /: Is a directory"),
        (&["--input", "/dev/null"], "the file is empty"),
        (&["--input", "/dev/zero"], "the file is longer than"),
        (
            &["--kernel", "/nonexistent"],
            "kernel /nonexistent: No such file",
        ),
        (&["--kernel", "/etc/hostname"], "not an ELF file"),
        (
            &[
                "--on",
                "model",
                "--bytes",
                "1",
                "--capture",
                "/etc/hostname",
            ],
            "--capture /etc/hostname: a file, not a directory",
        ),
        (
            &["--on", "model", "--qemu-arg=-S"],
            "--qemu-arg has no meaning",
        ),
        (
            &["--on", "qemu", "--profile", "pc-16550a"],
            "--profile pc-16550a has no meaning with --on qemu: it goes with --on model",
        ),
        (
            &["--on", "model", "--machine", "q35"],
            "--machine q35 has no meaning with --on model: it goes with --on qemu",
        ),
        (
            &["--on", "model", "--json", "/nonexistent/f"],
            "--json /nonexistent/f: No such",
        ),
        (
            &["--on", "model", "--capture", "/dev/null"],
            "--capture /dev/null: ",
        ),
    ] {
        let error = error(&run(&[&["run", "uart"], args].concat()));
        assert!(
            error.starts_with("nostall: ") && error.contains(says),
            "{error}"
        );
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn options_that_a_machine_lacks_are_refused() {
    for (args, says) in [
        (
            &["--on", "kvm", "--cpus", "2"][..],
            "--cpus 2: kvm has 1 at most",
        ),
        (
            &["--on", "kvm", "--qemu-arg=-S"],
            "--qemu-arg has no meaning with --on kvm: it goes with --on qemu",
        ),
        (
            &["--on", "kvm", "--profile", "pc-16550a"],
            "--profile pc-16550a has no meaning with --on kvm: it goes with --on model",
        ),
        (
            &["--on", "kvm", "--profile", "vm"],
            "--profile vm has no meaning with --on kvm: it goes with --on model",
        ),
        (
            &["--on", "qemu", "--uart-mode", "ports"],
            "--uart-mode has no meaning with --on qemu: it goes with --on kvm",
        ),
        (
            &["--on", "model", "--uart-mode", "ports"],
            "--uart-mode has no meaning with --on model: it goes with --on kvm",
        ),
    ] {
        let error = error(&run(&[&["run", "uart"], args].concat()));
        assert!(error.contains(says), "{error}");
    }
    // KVM alone can do this, and it has one CPU.
    let both = ["run", "uart", "--uart-mode", "ports", "--cpus", "2"];
    assert!(error(&run(&both)).contains("has no meaning with"));
    for (args, says) in [
        (
            ["pstore", "--on", "kvm"],
            "[possible values: auto, qemu, model]",
        ),
        (
            ["pci", "--uart-mode", "ports"],
            "unexpected argument '--uart-mode'",
        ),
    ] {
        let output = run(&[&["run"], &args[..]].concat());
        assert_eq!(output.status.code(), Some(2));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(says), "{stderr}");
    }
    let output = run(&["run", "uart", "--uart-mode", "x"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    let modes = "the modes are ports, ports-coalesced, mmio-readonly";
    assert!(stderr.contains(modes), "{stderr}");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn a_pipe_without_a_writer_is_given_up() {
    let dir = TempDir::new().unwrap();
    let fifo = dir.path().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let fifo = fifo.to_str().unwrap();
    let commands = [
        &["run", "uart", "--on", "model", "--input", fifo][..],
        &["run", "console", "--on", "model", "--input", fifo],
        &["run", "uart", "--on", "qemu", "--kernel", fifo],
        &["run", "uart", "--on", "kvm", "--kernel", fifo],
    ];
    let run = |args: &&[&str]| {
        let mut command = Command::new("timeout");
        let command = command.arg("120").arg(env!("CARGO_BIN_EXE_nostall-lab"));
        let command = command.args(*args).stdin(Stdio::null());
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    // All at once: each waits for ten seconds.
    let waiting: Vec<_> = commands.iter().map(run).collect();
    for (child, args) in waiting.into_iter().zip(commands) {
        let error = error(&child.wait_with_output().unwrap());
        assert!(
            error.contains("no program writes to it"),
            "{args:?}: {error}"
        );
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn kvm_gives_exits_for_every_byte() {
    let options = nostall_vm::kvm::Options::default();
    if let Err(error) = nostall_vm::kvm::Kvm::find(options) {
        let _ = writeln!(std::io::stderr(), "SKIPPED kvm_gives_exits: {error}");
        return;
    }
    let dir = TempDir::new().unwrap();
    let json = dir.path().join("figures.json");
    let file = json.to_str().unwrap();
    let out = succeed(&[
        "run", "uart", "--on", "kvm", "--bytes", "1600", "--json", file,
    ]);
    assert!(
        out.starts_with("uart on kvm, ports, 1 CPU; up after "),
        "{out}"
    );
    assert!(out.lines().all(|line| line.len() <= 80), "{out}");
    assert!(out.contains("sendings of 1600 bytes."), "{out}");
    let figures = figures(&json, "kvm");
    let figure = |metric: &str| figures[&("fifo-burst".to_owned(), metric.to_owned())];
    // With ports, each access is an exit, and there are no other exits.
    assert_eq!(figure("exits_per_byte"), figure("bus_accesses_per_byte"));
    assert_eq!(figure("collected_writes_per_byte"), 0.0);
}

#[test]
fn arguments_out_of_range_are_refused_with_the_range() {
    for (args, says) in [
        (["--bytes", "0"], "1..=16777216"),
        (["--bytes", "16777217"], "1..=16777216"),
        (["--cpus", "0"], "1..=64"),
        (["--profile", "x"], "the profiles are vm, pc-16550a"),
        (["--on", "x"], "auto, "),
        (
            ["--machine", "sifive_u"],
            "[possible values: q35, virt, arm-virt, arm-virt-pl011]",
        ),
    ] {
        let output = run(&[&["run", "uart"], &args[..]].concat());
        assert_eq!(output.status.code(), Some(2));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(says), "{stderr}");
    }
}

/// Returns whether `auto` uses KVM here.
fn kvm_runs_guests() -> bool {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    if let Ok(kvm) = nostall_vm::kvm::Kvm::find(nostall_vm::kvm::Options::default()) {
        return kvm.speed().is_ok_and(|speed| !speed.is_interpreted());
    }
    false
}

#[test]
fn without_qemu_auto_says_so_and_goes_on_with_the_model() {
    if kvm_runs_guests() {
        let _ = writeln!(std::io::stderr(), "SKIPPED without_qemu_auto: there is KVM");
        return;
    }
    let output = nostall(&["run", "uart", "--bytes", "100"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(stdout(&output).starts_with("uart on model"));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("qemu-system-x86_64 is not installed"),
        "{stderr}"
    );
    assert!(stderr.contains("going on with --on model"), "{stderr}");
}

/// Runs as a user without permission for KVM.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn where_kvm_is_not_permitted_auto_says_so_in_a_line_and_goes_on() {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;

    const UNPRIVILEGED: u32 = 65_534;
    let skip = |why: &str| {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED where_kvm_is_not_permitted: {why}"
        );
    };
    let Ok(device) = std::fs::metadata("/dev/kvm") else {
        return skip("there is no KVM");
    };
    if device.mode() & 0o006 != 0 {
        return skip("every user may use it");
    }
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_nostall-lab"));
    command
        .args(["run", "uart", "--bytes", "100"])
        .env("PATH", "/nonexistent")
        .current_dir("/")
        .uid(UNPRIVILEGED)
        .gid(UNPRIVILEGED);
    let Ok(output) = command.output() else {
        return skip("not root, or no other user may run the command");
    };
    assert!(output.status.success());
    let out = stdout(&output);
    assert!(out.starts_with("uart on model"), "{out}");
    let line = "KVM not used: /dev/kvm: Permission denied (os error 13); --on kvm says more";
    assert_eq!(out.lines().filter(|said| *said == line).count(), 1, "{out}");
}

#[test]
fn without_qemu_what_was_asked_of_it_is_not_dropped_in_silence() {
    for args in [
        &["run", "uart", "--on", "qemu"][..],
        &["run", "uart", "--cpus", "2"],
    ] {
        let output = nostall(args).env("PATH", "/nonexistent").output().unwrap();
        assert!(error(&output).contains("qemu-system-x86_64 is not installed"));
    }
}

#[test]
fn piped_output_is_plain() {
    let output = run(&["run", "uart", "--on", "model"]);
    for stream in [&output.stdout, &output.stderr] {
        assert!(!stream.contains(&0x1b) && !stream.contains(&b'\r'));
    }
    assert!(
        stdout(&output)
            .lines()
            .all(|line| line.len() <= 80 && line == line.trim_end())
    );
}

/// Returns the processes whose command line contains `mark`.
fn processes(mark: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let names = entries.filter_map(|e| e.file_name().into_string().ok());
    names
        .filter(|name| name.bytes().all(|b| b.is_ascii_digit()))
        .filter(|pid| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            command.split(|&b| b == 0).any(|arg| arg == mark.as_bytes())
        })
        .collect()
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    assert!(pause_until(condition), "never: {what}");
}

#[test]
fn a_killed_command_leaves_no_qemu_and_no_file_behind() {
    if qemu("a_killed_command_leaves_no_qemu").is_none() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let mark = format!("nostall-test-{}", std::process::id());
    let mut command = nostall(&[
        "run",
        "uart",
        "--on",
        "qemu",
        "--qemu-arg=-S",
        "--qemu-arg=-name",
    ])
    .arg(format!("--qemu-arg={mark}"))
    .current_dir(dir.path())
    .env("TMPDIR", dir.path())
    .spawn()
    .unwrap();
    eventually("QEMU starts", || !processes(&mark).is_empty());
    command.kill().unwrap(); // SIGKILL: the command cannot clean up
    command.wait().unwrap();
    eventually("QEMU is gone", || processes(&mark).is_empty());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_run_leaves_nothing_behind() {
    if qemu("a_run_leaves_nothing_behind").is_none() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let output = nostall(&["run", "uart", "--on", "qemu", "--bytes", "100"])
        .current_dir(dir.path())
        .env("TMPDIR", dir.path())
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn help_shows_a_newcomer_the_way() {
    let help = succeed(&["--help"]);
    assert!(help.contains("run"));
    let list = succeed(&["run", "-h"]);
    let long = succeed(&["run", "--help"]);
    for help in [&list, &long] {
        assert!(help.contains("nostall-lab run EXPERIMENT --help"), "{help}");
    }
    for experiment in ["uart", "pstore", "pci", "spi", "console"] {
        let row = format!("  {experiment} ");
        assert!(list.lines().any(|line| line.starts_with(&row)), "{list}");
        assert!(long.lines().any(|line| line.starts_with(&row)), "{long}");
        let help = succeed(&["run", experiment, "--help"]);
        let (_, examples) = help.split_once("Examples:").unwrap();
        for line in examples.lines() {
            assert!(line.len() <= 80, "{line}");
        }
        for option in [
            "--on",
            "--machine",
            "--cpus",
            "--json",
            "--kernel",
            "--qemu-arg",
        ] {
            assert!(help.contains(option), "{experiment} {option}: {help}");
        }
    }
}

#[test]
fn an_option_of_one_experiment_appears_in_its_help_only() {
    for (option, experiments) in [
        ("--uart-mode", &["uart"][..]),
        ("--fault", &["uart"]),
        ("--bytes", &["uart"]),
        ("--profile", &["uart", "console"]),
        ("--input", &["uart", "console"]),
        ("--capture", &["uart", "pstore"]),
        ("--frames", &["spi"]),
        ("--baud", &["console"]),
        ("--panic-at", &["console"]),
        ("--svg", &["console"]),
    ] {
        for experiment in ["uart", "pstore", "pci", "spi", "console"] {
            let help = succeed(&["run", experiment, "--help"]);
            let has = help.contains(&format!(" {option} "));
            assert_eq!(
                has,
                experiments.contains(&experiment),
                "{experiment} {option}: {help}"
            );
        }
    }
}

#[test]
fn the_boot_log_is_linuxs() {
    assert_eq!(BOOT_LOG.len(), 22_127);
    assert!(BOOT_LOG.starts_with(b"[    0.000000] Linux version 6.1"));
}
