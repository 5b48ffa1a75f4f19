//! `nostall-lab run --machine virt`, `sifive_u` and `arm-virt` as their user sees them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{qemu, qemu_for};
use assert_cmd::cargo::cargo_bin;
use nostall_vm::qemu::QemuBoard;
use serde_json::Value;
use tempfile::TempDir;

const BOOT_LOG: &[u8] = include_bytes!("../../fixtures/console/linux-boot.log");

fn nostall(args: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(cargo_bin("nostall-lab"));
    command
        .arg("run")
        .args(args)
        .current_dir(dir)
        .env("TMPDIR", dir)
        .stdin(Stdio::null());
    command
}

/// Returns the output of a command that succeeds, and the figures that it writes.
fn succeed(args: &[&str], dir: &TempDir) -> (String, Value) {
    let args = [args, &["--json", "figures"]].concat();
    let output = nostall(&args, dir.path()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    assert_eq!(stderr, "", "nothing but the answer");
    let out = String::from_utf8(output.stdout).unwrap();
    for line in out.lines() {
        assert!(line.len() <= 80 && line == line.trim_end(), "{line}");
    }
    let document = fs::read_to_string(dir.path().join("figures")).unwrap();
    (out, serde_json::from_str(&document).unwrap())
}

/// Returns the one line on stderr of a command that failed.
fn error(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

fn refused(args: &[&str]) -> String {
    let dir = TempDir::new().unwrap();
    let output = nostall(args, dir.path()).output().unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    error(&output)
}

/// Returns the bus accesses of each strategy, by its name and the figure's case.
fn bus_accesses(document: &Value) -> BTreeMap<(&str, &str), f64> {
    let results = document["results"].as_array().unwrap().iter();
    results
        .filter(|result| result["metric"] == "bus_accesses_per_byte")
        .map(|result| {
            let case = result["case"].as_str().unwrap_or_default();
            let value = result["value"].as_f64().unwrap();
            ((result["strategy"].as_str().unwrap(), case), value)
        })
        .collect()
}

/// Returns those of the boards with PCI that the system's QEMU has, apart from the PC.
fn boards(test: &str) -> impl Iterator<Item = &'static str> {
    let boards = [QemuBoard::Virt, QemuBoard::ArmVirt].into_iter();
    boards.filter_map(move |board| qemu_for(test, board).map(|_| board.name()))
}

#[test]
fn the_boot_log_arrives_by_as_many_bus_accesses_as_on_a_pc() {
    let test = "the_boot_log_arrives";
    if qemu(test).is_some() {
        boards(test).for_each(the_boot_log_arrives);
    }
}

fn the_boot_log_arrives(board: &str) {
    let dir = TempDir::new().unwrap();
    let (out, virt) = succeed(&["uart", "--machine", board, "--capture", "arrived"], &dir);
    let version = virt["host"]["qemu"].as_str().unwrap();
    let headline = format!("uart on qemu {version}, {board}, 1 CPU; up after ");
    assert!(out.starts_with(&headline), "{out}");
    assert!(out.contains("\nEvery byte arrived: 40 sendings of 22454 bytes.\n"));
    assert_eq!(virt["host"]["machine"], board);
    let arrived = fs::read(dir.path().join("arrived/fifo-paced.bin")).unwrap();
    let text = String::from_utf8(BOOT_LOG.to_vec()).unwrap();
    assert!(arrived == text.replace('\n', "\r\n").as_bytes());

    let (_, q35) = succeed(&["uart", "--on", "qemu"], &dir);
    assert_eq!(q35["host"]["machine"], "q35");
    let (on_virt, on_q35) = (bus_accesses(&virt), bus_accesses(&q35));
    assert_eq!(on_virt.len(), 2 * 4 + 6 * 5, "{on_virt:?}");
    for (way, accesses) in &on_virt {
        // The accesses of pacing depend on time.
        if way.0 != "fifo-paced" {
            assert_eq!(accesses, &on_q35[way], "{way:?}");
        }
    }
    let whole = |strategy| on_virt[&(strategy, "")];
    assert!((2.0..2.001).contains(&whole("byte-polled")));
    assert!((1.0625..1.063).contains(&whole("fifo-polled")));
    assert!((1.0625..1.063).contains(&whole("fifo-burst")));
    assert!(whole("fifo-paced") < 1.07);
}

#[test]
fn records_of_a_dead_guest_are_read_by_the_host_and_by_the_next_boot() {
    boards("records_of_a_dead_guest").for_each(records_of_a_dead_guest);
}

fn records_of_a_dead_guest(board: &str) {
    let dir = TempDir::new().unwrap();
    let args = ["pstore", "--machine", board, "--capture", "."];
    let (out, document) = succeed(&args, &dir);
    assert!(out.starts_with("pstore on qemu "), "{out}");
    assert!(out.contains(&format!(", {board}, 4 CPUs on ")), "{out}");
    assert!(out.contains("a second boot recovered are the same."));
    assert_eq!(document["host"]["machine"], board);
    // The region alone is enough to decode it.
    let decoded = Command::new(cargo_bin("nostall"))
        .arg("postmortem")
        .arg(dir.path().join("pstore.bin"))
        .output()
        .unwrap();
    let decoded = String::from_utf8_lossy(&decoded.stdout).into_owned();
    assert!(decoded.contains("Panic#1 Part1"), "{decoded}");
}

#[test]
fn pci_devices_are_listed_and_measured_by_ecam_alone() {
    boards("pci_devices_are_listed").for_each(pci_devices_are_listed);
}

fn pci_devices_are_listed(board: &str) {
    // The host bridge and the given device. The serial port of Arm's board is one more.
    let functions = if board == "virt" { 2 } else { 3 };
    let dir = TempDir::new().unwrap();
    let device = ["--qemu-arg=-device", "--qemu-arg=virtio-rng-pci"];
    let args = [&["pci", "--machine", board], &device[..]].concat();
    let (out, document) = succeed(&args, &dir);
    assert!(
        out.contains(&format!(", {board}, 1 CPU; up after ")),
        "{out}"
    );
    assert!(
        out.contains("\nchosen: ECAM: there are no ports\n"),
        "{out}"
    );
    let says = format!("\nThere are no ports to compare: ECAM shows {functions} functions; the\n");
    assert!(out.contains(&says), "{out}");
    let results = document["results"].as_array().unwrap();
    let strategies = results.iter().map(|result| &result["strategy"]);
    let mut strategies: Vec<_> = strategies.map(|name| name.as_str().unwrap()).collect();
    strategies.sort_unstable();
    strategies.dedup();
    assert_eq!(strategies, ["auto", "ecam", "ram"]);
    assert!(out.contains("\n  0000:00:01.0 "), "{out}");
}

#[test]
fn options_that_a_machine_lacks_are_refused_in_one_line() {
    for (args, says) in [
        (
            &["pstore", "--machine", "sifive_u", "--cpus", "5"][..],
            "--cpus 5: sifive_u has 4 at most that run a kernel",
        ),
        (
            &["uart", "--machine", "virt", "--on", "model"],
            "--machine virt has no meaning with --on model",
        ),
        (
            &["uart", "--machine", "virt", "--profile", "pc-16550a"],
            "--profile pc-16550a has no meaning with --on qemu: it goes with --on model",
        ),
        (
            &["uart", "--machine", "virt", "--fault", "no-cts"],
            "--fault no-cts has no meaning with --on qemu: it goes with --on model",
        ),
    ] {
        let error = refused(args);
        assert!(error.contains(says), "{args:?}: {error}");
    }
    let dir = TempDir::new().unwrap();
    let error = String::from_utf8_lossy(
        &nostall(&["spi", "--machine", "arm-virt"], dir.path())
            .output()
            .unwrap()
            .stderr,
    )
    .into_owned();
    assert!(error.contains("[possible values: sifive_u]"), "{error}");
    for (path, boards) in [
        ("uart", "q35, virt, arm-virt, arm-virt-pl011"),
        ("pci", "q35, virt, arm-virt, arm-virt-pl011"),
        ("console", "q35, virt, arm-virt"),
    ] {
        let mut command = nostall(&[path, "--machine", "sifive_u"], dir.path());
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let says = format!("[possible values: {boards}]");
        assert!(stderr.contains(&says), "{stderr}");
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn kvm_is_no_other_machine() {
    let error = refused(&["uart", "--machine", "virt", "--on", "kvm"]);
    assert!(error.contains("--machine virt has no meaning with --on kvm"));
    let error = refused(&["uart", "--machine", "virt", "--uart-mode", "ports"]);
    assert!(error.contains("has no meaning with --on"));
}

#[test]
fn a_kernel_for_other_cpus_is_refused() {
    let dir = TempDir::new().unwrap();
    // The header of an ELF file (64 bits, little-endian) for x86-64 (62).
    let mut header = [0; 64];
    header[..6].copy_from_slice(b"\x7fELF\x02\x01");
    header[18] = 62;
    fs::write(dir.path().join("x86-64"), header).unwrap();
    let args = ["uart", "--machine", "virt", "--kernel", "x86-64"];
    let error = error(&nostall(&args, dir.path()).output().unwrap());
    assert!(
        error.contains("and this machine's CPUs are riscv64"),
        "{error}"
    );
}

#[test]
fn without_qemu_for_a_machine_it_says_what_to_install() {
    for (board, program, packages) in [
        (
            "virt",
            "qemu-system-riscv64",
            "qemu-system-misc and opensbi",
        ),
        ("arm-virt", "qemu-system-aarch64", "qemu-system-arm"),
    ] {
        let dir = TempDir::new().unwrap();
        let output = nostall(&["uart", "--machine", board], dir.path())
            .env("PATH", dir.path())
            .output()
            .unwrap();
        let error = error(&output);
        // A build without the kernel reports that first.
        if !error.contains("built without its guest kernel") {
            assert!(
                error.contains(&format!("{program} is not installed")),
                "{error}"
            );
            assert!(error.contains(packages), "{error}");
        }
    }
}
