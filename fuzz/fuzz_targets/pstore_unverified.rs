//! Decodes a zone with changed bytes: every byte that differs from the written one must be
//! marked, in the records and in Linux's files.

#![no_main]

use std::ops::Range;
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nostall_postmortem::{Content, Decoded, Geometry, Packing, Text, Unpack};
use nostall_pstore::{
    ByteOrder, Code, Division, DumpHeader, ZoneKind, LinuxVersion, Place, CorrectionPolicy, Ram, Reader,
    RecordFormat, Trace, TraceRecord, Trust, Writer, Zone, compress,
};

const LINUX: LinuxVersion = LinuxVersion::new(6, 1, 192);

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    kind: u8,
    compression: u8,
    data_first: bool,
    times: u8,
    /// Positions of changed bytes, and the changes.
    changes: Vec<(u16, u8)>,
    text: &'a [u8],
}

/// Code with 16 parity bytes. A code with fewer may correct noise to another codeword.
static CODE: LazyLock<Code> = LazyLock::new(|| Code::new(16).unwrap());

fuzz_target!(|input: Input<'_>| {
    let kinds = [ZoneKind::Dmesg, ZoneKind::Console, ZoneKind::Ftrace, ZoneKind::Pmsg];
    let kind = kinds[usize::from(input.kind) % kinds.len()];
    let division = Division::new(4096, CODE.parity()).unwrap();
    let place = Place {
        kind,
        index: 0,
        offset: 0,
        division,
    };
    let geometry = Geometry {
        zones: vec![place],
        parity: CODE.parity(),
        order: ByteOrder::NATIVE,
        record_format: RecordFormat::Bits64,
        traces_per_cpu: true,
    };
    let writer = if input.data_first {
        Writer::DataFirst
    } else {
        Writer::HeaderFirst
    };
    let mut region = vec![0; 4096];
    write(&mut region, kind, &input);
    let reader = |policy| Reader {
        code: Some(&*CODE),
        order: ByteOrder::NATIVE,
        policy,
        writer,
    };
    let stored = contents(reader(CorrectionPolicy::Careful), &region, place);
    let right = Decoded::new(&region, &geometry, writer, Unpack::ByTrying);
    let right = right
        .records()
        .next()
        .map(|record| written(&record.content));
    let Some(right) = right else { return };

    let mut damaged = region.clone();
    for (at, change) in &input.changes {
        damaged[usize::from(*at) % 4096] ^= change;
    }
    // A header that is consistent with a cut behind it is evidence for data, because a writer
    // stores the data first.
    let old = reader(CorrectionPolicy::Careful).open(&damaged[..], place);
    if old.header_trust() == Trust::Unverified && input.data_first {
        return;
    }
    // Enough changes produce another codeword, which no code detects.
    if is_another_codeword(&region, &damaged, &reader(CorrectionPolicy::Careful), place) {
        return;
    }
    let decoded = Decoded::new(&damaged, &geometry, writer, Unpack::ByTrying);
    for record in decoded.records() {
        match &record.content {
            Content::Ftrace(calls) => are_marked(&calls.iter().collect::<Vec<_>>(), &right),
            Content::Dmesg(dmesg) => {
                let whole = &right.text;
                let right = match dmesg.packing {
                    Packing::Unpacked(_) | Packing::Cut(_) => &whole[..],
                    _ => end_of(&stored, dmesg.text.bytes.len()),
                };
                is_marked(&dmesg.text, right);
                if dmesg.header != right_header(&stored) {
                    assert_eq!(dmesg.header_trust, Trust::Unverified);
                }
            }
            Content::Console(text) | Content::Pmsg(text) => is_marked(text, &stored),
        }
    }
    for file in decoded.linux_files(None) {
        if kind == ZoneKind::Ftrace {
            // With a notice of another length, the lines consist of other bytes.
            continue;
        }
        let mut bytes = Vec::new();
        let worth = file.write_to(&mut bytes).unwrap();
        let notice = bytes
            .windows(6)
            .rposition(|part| part == b"\nECC: ")
            .unwrap();
        bytes.truncate(notice);
        let is_text = kind == ZoneKind::Dmesg && !file.name.ends_with(".enc.z") && right.is_packed;
        let right = if is_text {
            &right.text[..]
        } else {
            end_of(&stored, bytes.len())
        };
        let text = Text {
            bytes,
            unverified: worth.unverified,
        };
        is_marked(&text, right);
    }
});

fn write(region: &mut [u8], kind: ZoneKind, input: &Input<'_>) {
    let (mut zone, _) = Zone::attach(Ram::of(region), kind, LINUX, Some(&CODE)).unwrap();
    match kind {
        ZoneKind::Dmesg => {
            let text = input.text.repeat(usize::from(input.times));
            let log = [b"Panic#1 Part1\n", &text[..]].concat();
            let body = match input.compression % 4 {
                0 => compress::deflate_raw(&log),
                1 => compress::lz4(&log),
                2 => compress::zstd(&log),
                _ => return zone.write_dmesg(&DumpHeader::PANIC, &text),
            };
            if zone.write_dmesg_packed(&DumpHeader::PANIC, &body).is_err() {
                zone.write_dmesg(&DumpHeader::PANIC, &text);
            }
        }
        ZoneKind::Ftrace => {
            for (nth, bytes) in input.text.chunks(4).enumerate() {
                let record = TraceRecord {
                    ip: bytes
                        .iter()
                        .fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
                    parent: nth as u64,
                    stamp: nth as u64,
                    cpu: bytes[0],
                };
                zone.append(&RecordFormat::Bits64.encode(&record, ByteOrder::NATIVE));
            }
        }
        _ => zone.append(input.text),
    }
}

/// A record as it was written.
struct Written {
    text: Vec<u8>,
    is_packed: bool,
    traces: Vec<TraceRecord>,
}

fn written(content: &Content<'_>) -> Written {
    let (text, is_packed, traces) = match content {
        Content::Dmesg(dmesg) => {
            let is_packed = matches!(dmesg.packing, Packing::Unpacked(_));
            (dmesg.text.bytes.clone(), is_packed, vec![])
        }
        Content::Console(text) | Content::Pmsg(text) => (text.bytes.clone(), false, vec![]),
        Content::Ftrace(calls) => {
            let traces = calls.iter().map(|trace| trace.record);
            (vec![], false, traces.collect())
        }
    };
    Written {
        text,
        is_packed,
        traces,
    }
}

fn contents(reader: Reader<'_>, region: &[u8], place: Place) -> Vec<u8> {
    let mut zone = reader.open(region, place);
    let mut contents = vec![0; zone.len()];
    zone.read(0, &mut contents);
    contents
}

fn right_header(stored: &[u8]) -> Option<nostall_pstore::DmesgHeader> {
    Some(nostall_pstore::DmesgHeader::decode(stored)?.0)
}

fn end_of(stored: &[u8], len: usize) -> &[u8] {
    &stored[stored.len().saturating_sub(len)..]
}

/// Returns whether a block or the header agrees with its parity, or is corrected, and differs
/// from the written one.
fn is_another_codeword(region: &[u8], damaged: &[u8], reader: &Reader<'_>, place: Place) -> bool {
    let mut old = reader.open(damaged, place);
    let right = reader.open(region, place);
    if old.header_trust() < Trust::Unverified {
        if old.header() != right.header() {
            return true;
        }
        let stored = contents(*reader, region, place);
        let mut at = 0;
        while let Some((bytes, trust)) = old.chunk(at) {
            if trust < Trust::Unverified && !stored[at..].starts_with(bytes) {
                return true;
            }
            at += bytes.len();
        }
    }
    false
}

fn is_in(ranges: &[Range<usize>], at: usize) -> bool {
    ranges.iter().any(|range| range.contains(&at))
}

fn is_marked(text: &Text, right: &[u8]) {
    for (at, byte) in text.bytes.iter().enumerate() {
        let is_right = right.get(at) == Some(byte);
        assert!(is_right || is_in(&text.unverified, at), "{at} of {text:?}");
    }
}

fn are_marked(traces: &[Trace], right: &Written) {
    for trace in traces {
        let is_right = right.traces.contains(&trace.record);
        let is_told = trace.suspect || trace.trust == Trust::Unverified;
        assert!(is_right || is_told, "{trace:?}");
    }
}
