//! The JSON document that holds the figures of an experiment.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use nostall_vm::qemu::Qemu;
use serde::Serialize;

use super::figure::Figure;
use super::on::On;
use super::table::host_cpus;
use crate::escape::json_document;

#[derive(Serialize)]
struct Document<'a, F> {
    schema: u32,
    host: Host<'a>,
    results: &'a [Figure],
    /// Further lists of the experiment.
    #[serde(flatten)]
    found: &'a F,
}

#[derive(Serialize)]
struct Host<'a> {
    nostall: &'a str,
    os: &'a str,
    arch: &'a str,
    cpus: usize,
    cpu: Option<String>,
    qemu: Option<&'a str>,
    /// The machine that QEMU emulates.
    machine: Option<&'a str>,
    kvm: Option<Kvm>,
}

/// Times on a KVM that interprets guest code tell of it alone.
#[derive(Serialize)]
struct Kvm {
    ns_per_instruction: u64,
    interprets: bool,
    uart: &'static str,
}

/// Fails if the file of `--json` cannot be written, before a run takes its time. Leaves no new
/// file, and opens no pipe.
pub fn probe(path: &Path) -> Result<()> {
    let is_new = !path.exists();
    if !is_new && !path.is_file() && !path.is_dir() {
        return Ok(());
    }
    let name = || option(path);
    File::options()
        .append(true)
        .create(true)
        .open(path)
        .with_context(name)?;
    if is_new {
        fs::remove_file(path).with_context(name)?;
    }
    Ok(())
}

/// Writes the document of results from these machines to the file of `--json`.
pub fn write(path: &Path, on: &[&On], results: &[Figure], found: &impl Serialize) -> Result<()> {
    fs::write(path, document(on, results, found)?).with_context(|| option(path))
}

fn option(path: &Path) -> String {
    format!("--json {}", path.display())
}

/// Returns the document of results from these machines, with a line's end.
fn document(on: &[&On], results: &[Figure], found: &impl Serialize) -> Result<String> {
    let qemus = on.iter().filter_map(|on| match on {
        On::Qemu { qemu, .. } => Some(qemu),
        _ => None,
    });
    let qemu = qemus.clone().next();
    let board = qemu.map(|qemu| qemu.board().name());
    let is_only = qemus.clone().all(|qemu| Some(qemu.board().name()) == board);
    let document = Document {
        schema: 1,
        host: Host {
            nostall: env!("CARGO_PKG_VERSION"),
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            cpus: host_cpus(),
            cpu: cpu_name(),
            qemu: qemu.map(Qemu::version),
            machine: board.filter(|_| is_only),
            kvm: on.iter().find_map(|on| kvm(on)),
        },
        results,
        found,
    };
    Ok(json_document(&document)?)
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn kvm(on: &On) -> Option<Kvm> {
    let On::Kvm(on) = on else { return None };
    Some(Kvm {
        ns_per_instruction: on.speed.per_instruction().0,
        interprets: on.speed.is_interpreted(),
        uart: on.kvm.options().uart.name(),
    })
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
const fn kvm(_: &On) -> Option<Kvm> {
    None
}

fn cpu_name() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
