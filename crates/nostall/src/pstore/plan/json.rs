//! The plan for a program.

use anyhow::Result;
use nostall_pstore::{RecordFormat, ZoneKind, longest_deflated};
use serde::Serialize;

use super::boot;
use super::region::{LINE, Plan, Row};
use crate::escape::json_document;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    size: usize,
    cpus: usize,
    address: Option<u64>,
    record_size: usize,
    console_size: usize,
    ftrace_size: usize,
    pmsg_size: usize,
    ecc: usize,
    flags: u32,
    suggested: &'a [&'a str],
    zones: Vec<Zones>,
    command_line: Option<String>,
    device_tree: Option<String>,
    notes: &'a [String],
}

/// Zones of one kind: the nth lies at offset + n * size.
#[derive(Serialize)]
struct Zones {
    kind: &'static str,
    count: usize,
    offset: usize,
    size: usize,
    data_bytes: usize,
    ecc_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    deflated_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls_32_bit: Option<usize>,
}

/// One object, and a newline.
pub fn document(plan: &Plan) -> Result<String> {
    let params = plan.params();
    let document = Document {
        schema: 1,
        size: params.mem_size,
        cpus: params.cpus,
        address: plan.address,
        record_size: params.record_size,
        console_size: params.console_size,
        ftrace_size: params.ftrace_size,
        pmsg_size: params.pmsg_size,
        ecc: params.ecc,
        flags: params.flags,
        suggested: &plan.suggested,
        zones: plan.rows().map(|row| zones(&row)).collect(),
        command_line: boot::command_line(plan),
        device_tree: boot::device_tree(plan),
        notes: &plan.notes,
    };
    Ok(json_document(&document)?)
}

fn zones(row: &Row) -> Zones {
    let (kind, division) = (row.first.kind, row.first.division);
    let data = division.data();
    let only = |of: ZoneKind, number: usize| (kind == of).then_some(number);
    Zones {
        kind: kind.name(),
        count: row.count,
        offset: row.first.offset,
        size: division.zone(),
        data_bytes: data,
        ecc_bytes: row.parity(),
        deflated_bytes: only(ZoneKind::Dmesg, longest_deflated(data)),
        lines: only(ZoneKind::Console, data / LINE),
        calls: only(ZoneKind::Ftrace, data / RecordFormat::Bits64.len()),
        calls_32_bit: only(ZoneKind::Ftrace, data / RecordFormat::Bits32.len()),
    }
}
