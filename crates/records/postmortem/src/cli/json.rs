//! Records as JSON lines with stable words, which the crate's JSON.md lists.

use std::fmt;
use std::io::{self, Write};

use nostall_pstore::{RecordFormat, Trace as Call, Trust, ZoneState};
use serde::{Serialize, Serializer};

use super::escape::escape_json;
use super::files;
use super::names::Names;
use super::outcome::Status;
use super::region::{Other, Region};
use super::swap::Swap;
use super::text::CallSequence;
use crate::detect::FoundRegion;
use crate::memory::Memory;
use crate::{Content, Decoded, Packing, Record, Text, ZoneReport};

/// Version of the lines' format.
pub const SCHEMA: u32 = 2;

/// Number of bytes of a text that are escaped at once.
const PIECE: usize = 4096;

/// A line; its `type` selects the variant.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line<'a> {
    Region(RegionLine<'a>),
    Candidate(CandidateLine<'a>),
    Record(RecordLine<'a>),
    Call(CallLine),
    End(EndLine<'a>),
}

#[derive(Serialize)]
struct RegionLine<'a> {
    #[serde(flatten)]
    image: &'a About<'a>,
    start: String,
    size: usize,
    present_bytes: usize,
    found: bool,
    version: Option<String>,
    grade: Option<String>,
    evidence_bits: Option<i32>,
    reasons: &'a [String],
    doubts: &'a [String],
    notes: &'a [String],
    options: String,
    record_size: usize,
    console_size: usize,
    ftrace_size: usize,
    pmsg_size: usize,
    ecc: usize,
    cpus: usize,
    flags: u32,
    shape: &'a str,
    order: String,
    zones: Vec<ZoneObject>,
}

#[derive(Serialize)]
struct ZoneObject {
    kind: &'static str,
    index: usize,
    offset: usize,
    size: usize,
    data_bytes: usize,
    state: &'static str,
    problem: Option<String>,
    stored_bytes: usize,
    overwritten: bool,
    header_trust: &'static str,
    ecc: Option<Ecc>,
}

#[derive(Serialize)]
struct CandidateLine<'a> {
    schema: u32,
    file: &'a str,
    start: String,
    size: usize,
    version: Option<String>,
    grade: String,
    evidence_bits: i32,
    reasons: &'a [String],
    doubts: &'a [String],
    options: String,
}

#[derive(Serialize)]
struct RecordLine<'a> {
    schema: u32,
    kind: &'a str,
    index: usize,
    name: String,
    stored_bytes: usize,
    overwritten: bool,
    trust: &'a str,
    header_trust: &'a str,
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
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        cut: bool,
        #[serde(flatten)]
        text: Words<'a>,
    },
    Text(Words<'a>),
    Ftrace {
        calls: usize,
        unverified_calls: usize,
        cpus: usize,
    },
}

#[derive(Serialize)]
struct Time {
    seconds: i64,
    micros: u64,
    unverified: bool,
}

#[derive(Serialize)]
struct Words<'a> {
    /// `None` for bytes that are still compressed.
    text: Option<Lossy<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_hex: Option<Hex<'a>>,
    unverified: Vec<[usize; 2]>,
}

#[derive(Serialize)]
struct CallLine {
    cpu: u8,
    stamp: u64,
    ip: String,
    parent: String,
    function: Option<String>,
    caller: Option<String>,
    suspect: bool,
    trust: &'static str,
}

/// Properties of the image, at the start of each line about one of its parts.
#[derive(Serialize)]
pub struct About<'a> {
    schema: u32,
    file: &'a str,
    format: String,
    missing_bytes: u64,
    swap: Option<usize>,
}

impl<'a> About<'a> {
    /// Creates the properties of the image in `file`, whose bytes were swapped as in `swap`.
    pub fn new(file: &'a str, image: &Memory, swap: Option<Swap>) -> Self {
        Self {
            schema: SCHEMA,
            file,
            format: image.format().to_string(),
            missing_bytes: image.missing(),
            swap: swap.map(Swap::bytes),
        }
    }
}

#[derive(Serialize)]
struct EndLine<'a> {
    schema: u32,
    file: &'a str,
    status: &'a str,
    records: usize,
    message: Option<&'a str>,
}

/// Writes the region, its evidence and the state of its zones.
pub fn region(
    image: &About<'_>,
    region: &Region<'_>,
    decoded: &Decoded<'_>,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    let (found, params) = (region.found.as_ref(), &region.params);
    let line = Line::Region(RegionLine {
        image,
        start: format!("{:#x}", region.start),
        size: params.mem_size,
        present_bytes: region.bytes.len() - region.bytes.missing_bytes(),
        found: found.is_some(),
        version: found.and_then(version),
        grade: found.map(|found| found.grade.to_string()),
        evidence_bits: found.map(|found| found.bits),
        reasons: found.map_or(&[], |found| &found.why),
        doubts: found.map_or(&[], |found| &found.doubts),
        notes: &region.notes,
        options: region.options(),
        record_size: params.record_size,
        console_size: params.console_size,
        ftrace_size: params.ftrace_size,
        pmsg_size: params.pmsg_size,
        ecc: params.ecc,
        cpus: params.cpus,
        flags: params.flags,
        shape: region.geometry.record_format.name(),
        order: region.geometry.order.to_string(),
        zones: decoded.zones().map(zone).collect(),
    });
    write(&line, out)
}

fn version(found: &FoundRegion) -> Option<String> {
    Some(found.version?.to_string())
}

fn zone(zone: ZoneReport) -> ZoneObject {
    let (state, problem, stored_bytes) = match zone.state {
        ZoneState::Valid => {
            let problem = zone.misaligned.map(|misaligned| misaligned.to_string());
            ("valid", problem, zone.header.size as usize)
        }
        ZoneState::Empty => ("empty", None, 0),
        ZoneState::Damaged(why) => ("damaged", Some(why.to_string()), 0),
    };
    ZoneObject {
        kind: zone.place.kind.name(),
        index: zone.place.index,
        offset: zone.place.offset,
        size: zone.place.division.zone(),
        data_bytes: zone.place.division.data(),
        state,
        problem,
        stored_bytes,
        overwritten: zone.full,
        header_trust: zone.header_trust.name(),
        ecc: zone.ecc.map(ecc),
    }
}

/// Writes another region, which is not decoded.
pub fn candidate(file: &str, other: &Other, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let found = &other.0;
    let line = Line::Candidate(CandidateLine {
        schema: SCHEMA,
        file,
        start: format!("{:#x}", found.start),
        size: found.params.mem_size,
        version: version(found),
        grade: found.grade.to_string(),
        evidence_bits: found.bits,
        reasons: &found.why,
        doubts: &found.doubts,
        options: other.options(),
    });
    write(&line, out)
}

/// Writes the end of a file, with the status of this file alone.
pub fn end(
    file: &str,
    status: Status,
    records: usize,
    message: Option<&str>,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    let line = Line::End(EndLine {
        schema: SCHEMA,
        file,
        status: status.into(),
        records,
        message,
    });
    write(&line, out)
}

/// Writes one record; a trace is followed by a line for each call.
pub fn record(
    record: &Record<'_>,
    order: CallSequence,
    names: &Names,
    record_format: RecordFormat,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    let line = Line::Record(RecordLine {
        schema: SCHEMA,
        kind: record.kind().name(),
        index: record.index,
        name: files::name(record),
        stored_bytes: record.stored,
        overwritten: record.full,
        trust: record.trust.name(),
        header_trust: record.header_trust.name(),
        ecc: record.ecc.map(ecc),
        content: match &record.content {
            Content::Dmesg(dmesg) => Contents::Dmesg {
                time: dmesg.header.map(|header| Time {
                    seconds: header.seconds,
                    micros: header.micros,
                    unverified: dmesg.header_trust == Trust::Unverified,
                }),
                compression: match &dmesg.packing {
                    Packing::Plain => "none".into(),
                    Packing::Unpacked(method) | Packing::Cut(method) => method.to_string(),
                    Packing::Packed => "unknown".into(),
                },
                cut: matches!(dmesg.packing, Packing::Cut(_)),
                text: words(&dmesg.text, dmesg.packing != Packing::Packed),
            },
            Content::Console(text) | Content::Pmsg(text) => Contents::Text(words(text, true)),
            Content::Ftrace(calls) => Contents::Ftrace {
                calls: calls.len(),
                unverified_calls: calls.unverified(),
                cpus: calls.cpus(),
            },
        },
    });
    write(&line, out)?;
    match &record.content {
        Content::Ftrace(calls) => order(calls, &mut |trace| {
            write(&Line::Call(call(&trace, names, record_format)), out)
        }),
        _ => Ok(()),
    }
}

const fn ecc(ecc: nostall_pstore::Ecc) -> Ecc {
    Ecc {
        blocks: ecc.blocks,
        corrected_bytes: ecc.corrected_bytes,
        bad_blocks: ecc.bad_blocks,
    }
}

fn words(text: &Text, is_text: bool) -> Words<'_> {
    let is_utf8 = is_text && std::str::from_utf8(&text.bytes).is_ok();
    let ranges = text.unverified.iter();
    Words {
        text: is_text.then_some(Lossy(&text.bytes)),
        data_hex: (!is_utf8).then_some(Hex(&text.bytes)),
        unverified: ranges.map(|range| [range.start, range.end]).collect(),
    }
}

fn call(trace: &Call, names: &Names, record_format: RecordFormat) -> CallLine {
    let record = trace.record;
    let width = if record_format == RecordFormat::Bits64 {
        18
    } else {
        10
    };
    CallLine {
        cpu: record.cpu,
        stamp: record.stamp,
        ip: format!("{:#0width$x}", record.ip),
        parent: format!("{:#0width$x}", record.parent),
        function: names.function(record.ip),
        caller: names.place(record.parent),
        suspect: trace.suspect,
        trust: trace.trust.name(),
    }
}

fn write(line: &Line<'_>, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    escaped(line, out)
}

/// Writes a line of JSON without characters that control a terminal.
pub fn escaped(line: &impl Serialize, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, Escaping);
    line.serialize(&mut serializer)?;
    out.write_all(b"\n")
}

/// JSON formatter whose strings have no characters that control a terminal.
struct Escaping;

impl serde_json::ser::Formatter for Escaping {
    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        mut fragment: &str,
    ) -> io::Result<()> {
        while !fragment.is_empty() {
            let (now, later) = fragment.split_at(fragment.floor_char_boundary(PIECE));
            out.write_all(escape_json(now).as_bytes())?;
            fragment = later;
        }
        Ok(())
    }
}

/// Text with U+FFFD for each invalid UTF-8 sequence.
pub struct Lossy<'a>(pub &'a [u8]);

impl fmt::Display for Lossy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            f.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                f.write_str("\u{fffd}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for Lossy<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for Hex<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
