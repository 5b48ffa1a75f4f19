//! Linux's persistent ring buffers as JSON lines.

use std::io::{self, Write};

use nostall_pstore::Trust;
use serde::Serialize;

use super::json::{About, SCHEMA, escaped};
use crate::ftrace_ring::{
    Common, Entry, Kernel, Merge, MergeBy, PageState, RingBuffer, RingRecord, TraceText,
};
use crate::memory::Memory;

#[derive(Serialize)]
struct BufferLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    image: &'a About<'a>,
    index: usize,
    name: String,
    start: &'a str,
    size: u64,
    layout: &'static str,
    layout_compared: bool,
    subbuffer_bytes: usize,
    subbuffers: usize,
    trust: &'static str,
    records: u64,
    boots: u32,
    kernel_offset: Option<String>,
    cpus: Vec<CpuObject<'a>>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct CpuObject<'a> {
    cpu: usize,
    start: String,
    records: u64,
    used_subbuffers: usize,
    shown_by_linux: bool,
    problems: &'a [String],
    damaged: Vec<PageObject>,
}

#[derive(Serialize)]
struct PageObject {
    subbuffer: u32,
    state: &'static str,
    records: u32,
    offset: Option<usize>,
    unread_bytes: Option<usize>,
}

#[derive(Serialize)]
struct EntryLine<'a> {
    r#type: &'static str,
    schema: u32,
    buffer: &'a str,
    cpu: usize,
    boot: u32,
    time_ns: u64,
    pid: i32,
    flags: String,
    id: u16,
    event: Option<&'a str>,
    trust: &'static str,
    lost_before: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    return_value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// Writes a buffer's line, followed by a line for each record.
pub fn buffer(
    about: &About<'_>,
    name: &str,
    image: &Memory,
    buffer: &RingBuffer,
    kernel: &Kernel,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    let start = format!("{:#x}", buffer.address);
    let line = BufferLine {
        r#type: "buffer",
        image: about,
        index: buffer.index,
        name: name.to_owned(),
        start: &start,
        size: buffer.size,
        layout: buffer.version.name(),
        layout_compared: buffer.version.is_compared(),
        subbuffer_bytes: buffer.subbuf,
        subbuffers: buffer.subbufs,
        trust: Trust::Unchecked.name(),
        records: buffer.records(),
        boots: buffer.boots(),
        kernel_offset: kernel
            .offset()
            .map(|offset| format!("{:#x}", offset.value())),
        cpus: cpus(buffer),
        notes: buffer.notes(),
    };
    escaped(&line, out)?;
    let mut text = TraceText::new(kernel, buffer);
    let mut merge = Merge::new(image, buffer, MergeBy::Boot);
    while let Some(record) = merge.next(image, buffer) {
        escaped(&entry(&start, &record, kernel, &mut text), out)?;
    }
    Ok(())
}

fn cpus(buffer: &RingBuffer) -> Vec<CpuObject<'_>> {
    let cpus = buffer.cpus.iter().map(|cpu| CpuObject {
        cpu: cpu.number,
        start: format!("{:#x}", cpu.meta),
        records: cpu.records(),
        used_subbuffers: cpu.pages.len(),
        shown_by_linux: cpu.is_shown_by_linux(),
        problems: &cpu.problems,
        damaged: cpu
            .damaged()
            .map(|page| {
                let (offset, unread_bytes) = match page.state {
                    PageState::Cut { offset, unread } => (Some(offset), Some(unread)),
                    _ => (None, None),
                };
                PageObject {
                    subbuffer: page.index,
                    state: page.state.name(),
                    records: page.records,
                    offset,
                    unread_bytes,
                }
            })
            .collect(),
    });
    cpus.collect()
}

fn entry<'a>(
    buffer: &'a str,
    record: &RingRecord<'_>,
    kernel: &'a Kernel,
    text: &mut TraceText<'_>,
) -> EntryLine<'a> {
    let common = Common::of(&record.payload);
    let hex = |number: u64| Some(format!("{number:#x}"));
    let name = |address: u64| kernel.function(address).map(|symbol| symbol.name);
    let mut line = EntryLine {
        r#type: "entry",
        schema: SCHEMA,
        buffer,
        cpu: record.cpu,
        boot: record.boot,
        time_ns: record.time,
        pid: common.pid,
        flags: common.latency(),
        id: common.id,
        event: kernel.event_name(common.id),
        trust: record.trust.name(),
        lost_before: record.lost,
        ip: None,
        parent: None,
        function: None,
        caller: None,
        depth: None,
        duration_ns: None,
        return_value: None,
        text: None,
    };
    match kernel.entry(&record.payload) {
        Entry::Call { ip, parent } | Entry::Repeats { ip, parent, .. } => {
            (line.ip, line.function) = (hex(ip), name(ip));
            (line.parent, line.caller) = (hex(parent), name(parent));
        }
        Entry::Enter { function, depth } => {
            (line.ip, line.function, line.depth) = (hex(function), name(function), Some(depth));
        }
        Entry::Exit {
            function,
            depth,
            duration,
            returned,
        } => {
            (line.ip, line.function, line.depth) = (hex(function), name(function), Some(depth));
            line.duration_ns = Some(duration);
            line.return_value = returned.and_then(hex);
        }
        _ => {
            let mut bytes = Vec::new();
            text.body(record, None, &mut bytes);
            let shown = String::from_utf8_lossy(&bytes);
            line.text = Some(shown.trim_end_matches('\n').to_owned());
        }
    }
    line
}
