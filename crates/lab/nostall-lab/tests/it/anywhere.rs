//! The command on a machine that has nothing for it: an empty folder and an empty environment.
//!
//! `make dist-check` runs this on the command of the packages, which is linked statically. Its path
//! is in `NOSTALL_STATIC`.

use std::env;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;

use crate::common::is_of;
use serde_json::Value;

/// Returns the path of the static command, if there is one to test.
fn linked_statically() -> Option<PathBuf> {
    env::var_os("NOSTALL_STATIC").map(PathBuf::from)
}

/// Runs the command in an empty folder without any environment variable, and returns its figures.
fn figures(args: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(linked_statically().unwrap_or_else(|| cargo_bin("nostall-lab")))
        .args(args)
        .args(["--json", "-"])
        .env_clear()
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    // Standard output has the document alone. The tables are on stderr.
    assert!(stderr.contains("bus"), "{stderr}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["schema"], 2);
    answer["results"].as_array().unwrap().clone()
}

/// Returns whether `all` has such a figure of `strategy`, above zero.
fn has(all: &[Value], strategy: &str, metric: &str) -> bool {
    all.iter().any(|figure| {
        figure["strategy"] == strategy
            && is_of(figure, metric)
            && figure["value"].as_f64().is_some_and(|value| value > 0.0)
    })
}

#[test]
fn run_uart_needs_neither_files_nor_an_environment() {
    let figures = figures(&["run", "uart", "--bytes", "1000"]);
    assert!(has(
        &figures,
        "fifo-burst",
        "register_instructions_per_byte"
    ));
    assert!(has(
        &figures,
        "uart_16550",
        "bus_accesses_per_byte 16-byte-write"
    ));
}

#[test]
fn run_pci_needs_neither_files_nor_an_environment() {
    let figures = figures(&["run", "pci"]);
    assert!(has(&figures, "ports", "bus_accesses_per_read"));
    assert!(has(&figures, "ecam", "bus_accesses_per_read"));
}

#[test]
fn the_static_command_asks_for_no_dynamic_linker() {
    use object::elf::{FileHeader64, PT_INTERP};
    use object::read::elf::{FileHeader, ProgramHeader};

    let Some(command) = linked_statically() else {
        // The test harness captures the output of std's macros.
        let missing = "`make dist-check` builds the static command, and sets NOSTALL_STATIC";
        writeln!(std::io::stderr(), "SKIPPED anywhere: {missing}").unwrap();
        return;
    };
    let file = fs::read(command).unwrap();
    let file = file.as_slice();
    let header = FileHeader64::<object::Endianness>::parse(file).unwrap();
    let endian = header.endian().unwrap();
    let segments = header.program_headers(endian, file).unwrap();
    assert!(!segments.is_empty());
    let mut kinds = segments.iter().map(|segment| segment.p_type(endian));
    assert!(kinds.all(|kind| kind != PT_INTERP));
}
