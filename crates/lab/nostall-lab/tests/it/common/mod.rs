//! Helpers that the tests with QEMU share.

pub mod accesses;
pub mod flood;
pub mod frozen;
pub mod kvm;
pub mod linux;
pub mod monitor;
pub mod pauses;
pub mod spi_linux;
pub mod tiny;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use nostall_vm::qemu::{Architecture, Qemu, QemuBoard};
use serde_json::Value;

/// The root of the repository.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    root.canonicalize().unwrap()
}

/// The folders of the crates: those below `crates/`, and those one folder lower.
pub fn crate_folders() -> Vec<PathBuf> {
    let below = |folder: PathBuf| {
        fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    let (crates, groups): (Vec<_>, Vec<_>) = below(root().join("crates"))
        .filter(|path| path.is_dir())
        .partition(|folder| folder.join("Cargo.toml").exists());
    let others = groups.into_iter().flat_map(below);
    let others = others.filter(|folder| folder.join("Cargo.toml").exists());
    crates.into_iter().chain(others).collect()
}

/// The folder of the crate with this name, which may lack the `nostall-` before it.
pub fn crate_folder(name: &str) -> Option<PathBuf> {
    let short = name.strip_prefix("nostall-").unwrap_or(name);
    let mut folders = crate_folders().into_iter();
    folders.find(|folder| {
        let last = folder.file_name().unwrap().to_str().unwrap();
        last.strip_prefix("nostall-").unwrap_or(last) == short
    })
}

/// Returns whether a figure is one of `name`: a metric, and behind a blank the case if it has one.
pub fn is_of(figure: &Value, name: &str) -> bool {
    let mut words = name.split(' ');
    figure["metric"].as_str() == words.next() && figure["case"].as_str() == words.next()
}

/// Returns the system's QEMU. Without it the test prints that it is skipped, and fails if
/// `NOSTALL_REQUIRE_QEMU` is set.
pub fn qemu(test: &str) -> Option<Qemu> {
    qemu_for(test, QemuBoard::Q35)
}

/// Returns QEMU for any machine. The command must have been built with that machine's kernel.
pub fn qemu_for(test: &str, machine: QemuBoard) -> Option<Qemu> {
    let kernel: &[u8] = match machine.architecture() {
        Architecture::X86_64 => include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL")),
        Architecture::Riscv64 => include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_RISCV64")),
        Architecture::Aarch64 => include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_AARCH64")),
    };
    let error = match Qemu::find(machine) {
        Ok(_) if kernel.is_empty() => format!("no kernel for {machine} was built: make setup"),
        Ok(qemu) => return Some(qemu),
        Err(error) => error.to_string(),
    };
    assert!(
        std::env::var_os("NOSTALL_REQUIRE_QEMU").is_none(),
        "{test}: {error}"
    );
    // The test harness captures the output of std's macros, so they are not used here.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {error}");
    None
}
