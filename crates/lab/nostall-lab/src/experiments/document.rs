//! The JSON document that holds the figures of an experiment.

use anyhow::Result;
use nostall_vm::qemu::Qemu;
use serde::Serialize;

use super::files::Files;
use super::on::On;
use super::peers::PeerStates;
use crate::escape::json_document;
use crate::host::{Host, Kvm};
use crate::report::file::{project, replace};
use crate::report::page::{Supplied, page};
use crate::report::source::{SCHEMA, Source};
use nostall_figures::figure::Figure;
use nostall_figures::table::host_cpus;

#[derive(Serialize)]
struct Document<'a, F> {
    schema: u32,
    host: Host,
    results: &'a [Figure],
    /// Further lists of the experiment.
    #[serde(flatten)]
    found: &'a F,
}

/// Results of a document.
pub struct Results<'a, F> {
    pub machines: Vec<&'a On>,
    pub beside: PeerStates,
    pub figures: Vec<Figure>,
    /// Further lists.
    pub found: F,
}

/// Writes the results to the files that are named. An old file is replaced as a whole.
pub fn write(
    files: &Files,
    results: &Results<'_, impl Serialize>,
    supplied: Supplied,
) -> Result<()> {
    if !files.are_named() {
        return Ok(());
    }
    let [json, report] = Files::OPTIONS;
    let text = document(results)?;
    if let Some(path) = &files.json {
        replace(json, path, &text)?;
    }
    if let Some(path) = &files.report {
        let source = Source::parse("this run".to_owned(), text)?;
        replace(report, path, &page(&[source], supplied, project(path)))?;
    }
    Ok(())
}

/// Returns the document of these results, with a line's end.
fn document(results: &Results<'_, impl Serialize>) -> Result<String> {
    let on = &results.machines;
    let qemus = on.iter().filter_map(|on| match on {
        On::Qemu { qemu, .. } => Some(qemu),
        _ => None,
    });
    let qemu = qemus.clone().next();
    let board = qemu.map(|qemu| qemu.board().name());
    let is_only = qemus.clone().all(|qemu| Some(qemu.board().name()) == board);
    let version = qemu.map(Qemu::version).or(results.beside.qemu.as_deref());
    let document = Document {
        schema: SCHEMA,
        host: Host {
            nostall: Some(env!("CARGO_PKG_VERSION").to_owned()),
            os: Some(std::env::consts::OS.to_owned()),
            arch: Some(std::env::consts::ARCH.to_owned()),
            cpus: Some(host_cpus()),
            cpu: cpu_name(),
            qemu: version.map(str::to_owned),
            machine: board.filter(|_| is_only).map(str::to_owned),
            kvm: on.iter().find_map(|on| kvm(on)),
            peers: results.beside.peers.clone(),
        },
        results: &results.figures,
        found: &results.found,
    };
    Ok(json_document(&document)?)
}

fn kvm(on: &On) -> Option<Kvm> {
    let On::Kvm(on) = on else { return None };
    Some(Kvm {
        ns_per_instruction: on.speed.per_instruction().0,
        interprets: on.speed.is_interpreted(),
        uart: on.kvm.options().uart.name().to_owned(),
    })
}

fn cpu_name() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
