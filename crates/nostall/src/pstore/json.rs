//! Records for programs: one object a line, stable words (`--help` has them).

use std::io::{self, Write};

use nostall_pstore::{Content, Packing, Record, Shape, Text, Trace, Trust};
use serde::Serialize;

use super::files;
use super::names::Names;
use crate::escape::escape_json;

#[derive(Serialize)]
struct Object<'a> {
    schema: u32,
    kind: &'a str,
    index: usize,
    name: String,
    stored_bytes: usize,
    overwritten: bool,
    trust: &'a str,
    ecc: Option<Ecc>,
    #[serde(flatten)]
    content: Contents<'a>,
}

#[derive(Serialize)]
struct Ecc {
    blocks: usize,
    corrected_bytes: usize,
    bad_blocks: usize,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Contents<'a> {
    Dmesg {
        time: Option<Time>,
        compression: String,
        #[serde(flatten)]
        text: Words<'a>,
    },
    Text(Words<'a>),
    Ftrace {
        records: Vec<Call>,
    },
}

#[derive(Serialize)]
struct Time {
    seconds: i64,
    micros: u64,
}

#[derive(Serialize)]
struct Words<'a> {
    text: std::borrow::Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_hex: Option<String>,
    unverified: Vec<[usize; 2]>,
}

#[derive(Serialize)]
struct Call {
    cpu: u8,
    stamp: u64,
    ip: String,
    parent: String,
    function: Option<String>,
    caller: Option<String>,
    suspect: bool,
    unverified: bool,
}

/// One record, and a line's end.
pub fn write(
    record: &Record,
    names: &Names,
    shape: Shape,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    let object = Object {
        schema: 1,
        kind: record.kind().name(),
        index: record.index,
        name: files::name(record),
        stored_bytes: record.stored,
        overwritten: record.full,
        trust: match record.trust {
            Trust::Verified => "verified",
            Trust::Unchecked => "unchecked",
            Trust::Corrected(_) => "corrected",
            Trust::Unverified => "unverified",
        },
        ecc: record.ecc.map(|ecc| Ecc {
            blocks: ecc.blocks,
            corrected_bytes: ecc.corrected_bytes,
            bad_blocks: ecc.bad_blocks,
        }),
        content: match &record.content {
            Content::Dmesg(dmesg) => Contents::Dmesg {
                time: dmesg.header.map(|header| Time {
                    seconds: header.seconds,
                    micros: header.micros,
                }),
                compression: match &dmesg.packing {
                    Packing::Plain => "none".into(),
                    Packing::Unpacked(method) => method.to_string(),
                    Packing::Packed => "unknown".into(),
                },
                text: words(&dmesg.text),
            },
            Content::Console(text) | Content::Pmsg(text) => Contents::Text(words(text)),
            Content::Ftrace(traces) => Contents::Ftrace {
                records: traces
                    .iter()
                    .map(|trace| call(trace, names, shape))
                    .collect(),
            },
        },
    };
    let json = serde_json::to_string(&object)?;
    out.write_all(escape_json(&json).as_bytes())?;
    out.write_all(b"\n")
}

fn words(text: &Text) -> Words<'_> {
    let bytes = &text.bytes;
    let is_text = std::str::from_utf8(bytes).is_ok();
    Words {
        text: String::from_utf8_lossy(bytes),
        data_hex: (!is_text).then(|| hex(bytes)),
        unverified: text
            .unverified
            .iter()
            .map(|range| [range.start, range.end])
            .collect(),
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

fn call(trace: &Trace, names: &Names, shape: Shape) -> Call {
    let record = trace.record;
    let width = if shape == Shape::Bits64 { 18 } else { 10 };
    Call {
        cpu: record.cpu,
        stamp: record.stamp,
        ip: format!("{:#0width$x}", record.ip),
        parent: format!("{:#0width$x}", record.parent),
        function: names.function(record.ip),
        caller: names.place(record.parent),
        suspect: trace.suspect,
        unverified: trace.trust == Trust::Unverified,
    }
}
