//! The figures of every experiment keep their names, order, units and exact counts. Each file
//! below `fixtures/figures` was recorded once.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use crate::common::kvm as common_kvm;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::qemu_for;
use assert_cmd::cargo::cargo_bin;
use nostall_vm::qemu::QemuBoard;
use serde_json::Value;
use tempfile::TempDir;

/// A placeholder for values that differ from run to run, such as times.
const ANY: &str = "*";

/// Returns a short log for the experiment console.
fn log() -> String {
    let line = |n: usize| {
        let (ms, x) = (n * 3, "x".repeat(n % 50));
        format!("[    0.{ms:03}000] line {n} of a log {x}\n")
    };
    (0..60).map(line).collect()
}

/// Returns the metric's name of schema 1, in which the recorded files are. It contained the case.
fn schema_1(path: &str, metric: &str, case: Option<&str>) -> String {
    let bytes = case.and_then(|case| case.strip_suffix("-byte-write"));
    match (path, case, bytes) {
        (_, None, _) => metric.to_owned(),
        ("uart", Some("by-line"), _) => format!("{metric}_by_line"),
        ("uart", _, Some(bytes)) => format!("{metric}_of_a_{bytes}_byte_write"),
        ("trace", _, Some(bytes)) => format!("{metric}_of_{bytes}"),
        case => panic!("{case:?}"),
    }
}

/// Returns a figure as a line of words.
fn words(figure: &Value) -> Vec<String> {
    let word = |name: &str| figure[name].as_str().unwrap_or("-").to_owned();
    let mut words = ["path", "strategy", "on", "profile", "metric", "unit"]
        .map(word)
        .to_vec();
    words[4] = schema_1(&words[0], &words[4], figure["case"].as_str());
    words.extend(["n", "value"].map(|name| figure[name].to_string()));
    words
}

/// Runs `nostall-lab run` with `args`, and compares its figures with the recorded ones.
fn figures_stay(name: &str, args: &[&str]) {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("log"), log()).unwrap();
    let output = Command::new(cargo_bin("nostall-lab"))
        .arg("run")
        .args(args)
        .args(["--json", "figures"])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    let document = fs::read_to_string(dir.path().join("figures")).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let found: Vec<_> = document["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(words)
        .collect();
    // The host decides whether KVM counts light exits, and how many rounds it gets.
    let found: Vec<_> = match document["host"]["kvm"].is_null() {
        true => found,
        false => found
            .into_iter()
            .filter(|words| !words[4].starts_with("light_exits_"))
            .map(|mut words| {
                words[6] = ANY.to_owned();
                words
            })
            .collect(),
    };
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/figures")
        .join(name);
    let recorded = fs::read_to_string(fixture).unwrap();
    let all: Vec<_> = found.iter().map(|words| words.join(" ")).collect();
    let all = all.join("\n");
    assert_eq!(found.len(), recorded.lines().count(), "{name}:\n{all}");
    for (found, recorded) in found.iter().zip(recorded.lines()) {
        let is_same = |(found, recorded): (&String, &str)| {
            // The parser rounds the recorded number in the same way.
            let number = serde_json::from_str::<Value>(recorded).map(|value| value.to_string());
            recorded == ANY || found == recorded || number.is_ok_and(|number| *found == number)
        };
        let same = found.iter().zip(recorded.split(' ')).all(is_same);
        assert!(
            same,
            "{name}: {} where there was {recorded}",
            found.join(" ")
        );
    }
}

#[test]
fn figures_of_every_experiment_on_the_model_stay() {
    figures_stay("uart-model", &["uart", "--on", "model", "--bytes", "1000"]);
    figures_stay("pci-model", &["pci", "--on", "model"]);
    figures_stay("pstore-model", &["pstore", "--on", "model"]);
    figures_stay("spi-model", &["spi", "--on", "model", "--frames", "1000"]);
    figures_stay("trace-model", &["trace", "--on", "model"]);
    let console = ["console", "--input", "log", "--profile", "pc-16550a"];
    figures_stay("console-model", &console);
}

#[test]
fn figures_of_every_experiment_in_qemu_stay() {
    if qemu_for("figures_in_qemu", QemuBoard::Q35).is_none() {
        return;
    }
    figures_stay("uart-qemu", &["uart", "--on", "qemu", "--bytes", "1000"]);
    figures_stay("pci-qemu", &["pci", "--on", "qemu"]);
    figures_stay("pstore-qemu", &["pstore", "--on", "qemu"]);
    figures_stay(
        "console-qemu",
        &["console", "--on", "qemu", "--input", "log"],
    );
}

#[test]
fn figures_of_every_experiment_on_riscv_stay() {
    if qemu_for("figures_on_riscv", QemuBoard::Virt).is_none() {
        return;
    }
    figures_stay(
        "uart-virt",
        &["uart", "--machine", "virt", "--bytes", "1000"],
    );
    figures_stay("pci-virt", &["pci", "--machine", "virt"]);
    figures_stay("spi-qemu", &["spi", "--on", "qemu", "--frames", "1000"]);
}

#[test]
fn figures_of_every_experiment_on_arm_stay() {
    if qemu_for("figures_on_arm", QemuBoard::ArmVirt).is_none() {
        return;
    }
    figures_stay(
        "uart-virt",
        &["uart", "--machine", "arm-virt", "--bytes", "1000"],
    );
    figures_stay(
        "uart-arm-virt-pl011",
        &["uart", "--machine", "arm-virt-pl011", "--bytes", "1000"],
    );
    figures_stay("pci-arm-virt", &["pci", "--machine", "arm-virt"]);
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn figures_of_every_experiment_on_kvm_stay() {
    use nostall_vm::kvm::{Options, PciMode, UartMode};
    let best = Options {
        uart: UartMode::MmioReadonly,
        pci: PciMode::EcamShadow,
    };
    if common_kvm::kvm_with("figures_on_kvm", best).is_none() {
        return;
    }
    figures_stay("uart-kvm", &["uart", "--on", "kvm", "--bytes", "1000"]);
    let mapped = [
        "uart",
        "--on",
        "kvm",
        "--uart-mode",
        "mmio-readonly",
        "--bytes",
        "1000",
    ];
    figures_stay("uart-kvm-mmio", &mapped);
    figures_stay("pci-kvm", &["pci", "--on", "kvm"]);
}
