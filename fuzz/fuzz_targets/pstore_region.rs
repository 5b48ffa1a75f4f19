//! Reads a crashed machine's memory, with detected or arbitrary divisions into zones: no panic,
//! no hang, and no text larger than its zone.

#![no_main]

use std::cmp::Reverse;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nostall_postmortem::decompress::Compression;
use nostall_postmortem::detect::{FoundRegion, Grade, detect};
use nostall_postmortem::{Content, Decoded, Geometry, Record, Text, Unpack};
use nostall_pstore::{
    ByteOrder, Code, Division, ZoneKind, Layout, Place, CorrectionPolicy, PreviousBootZone, Reader, RecordFormat,
    Writer, ZoneState,
};

/// Recordings of Linux from which inputs are made, because random bytes contain no region.
const RECORDED: [&[u8]; 8] = [
    include_bytes!("../../crates/drivers/pstore/tests/fixtures/plain/image.bin"),
    include_bytes!("../../crates/drivers/pstore/tests/fixtures/ecc16/image.bin"),
    include_bytes!("../../crates/drivers/pstore/tests/fixtures/zstd/image.bin"),
    include_bytes!("../../crates/drivers/pstore/tests/fixtures/lz4/image.bin"),
    include_bytes!("../../crates/drivers/pstore/tests/fixtures/nocompress/image.bin"),
    include_bytes!("../../crates/drivers/pstore/tests/fixtures/armv7/image.bin"),
    include_bytes!("../../crates/drivers/pstore/tests/fixtures/armv7-ecc/image.bin"),
    include_bytes!("../../crates/drivers/pstore/tests/fixtures/wrap/image.bin"),
];

#[derive(Arbitrary, Debug)]
struct Input {
    memory: Memory,
    headers: Vec<AnyHeader>,
    patches: Vec<(u32, Vec<u8>)>,
    how: How,
    /// The zones of a region that was not detected.
    zones: Vec<AnyZone>,
    parity: u8,
}

#[derive(Arbitrary, Debug)]
enum Memory {
    /// A part of a region, for speed: at most 64 of its 256 KiB.
    Recorded {
        which: u8,
        from: u32,
        len: u16,
    },
    Zeroes(u16),
}

/// A header at the start of a zone.
#[derive(Arbitrary, Debug)]
struct AnyHeader {
    at: u32,
    version: Option<u32>,
    start: u32,
    size: u32,
    big: bool,
}

#[derive(Arbitrary, Debug)]
struct AnyZone {
    kind: u8,
    index: usize,
    offset: AnySize,
    size: AnySize,
    parity: Option<u8>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum AnySize {
    Small(u16),
    Any(usize),
}

#[derive(Arbitrary, Debug)]
struct How {
    big: bool,
    record_format: u8,
    traces_per_cpu: bool,
    data_first: bool,
    unpack: Option<u8>,
}

fuzz_target!(|input: Input| {
    let memory = input.memory();
    let detection = detect(&memory);
    let regions = &detection.found;
    assert_eq!(detection.searched, memory.len() as u64);
    are_in_order(&memory, regions);
    for found in regions {
        let Ok(layout) = Layout::new(&found.params) else {
            panic!("{:?}", found.params);
        };
        let zones: Vec<_> = layout.zones().collect();
        assert_eq!(found.geometry.zones, zones);
        let region = &memory[found.start as usize..][..found.len];
        read(region, &found.geometry, &input.how);
    }
    read(&memory, &input.geometry(), &input.how);
});

fn are_in_order(memory: &[u8], regions: &[FoundRegion]) {
    assert!(regions.len() <= 1024);
    assert!(regions.is_sorted_by_key(|found| Reverse((found.grade, found.bits))));
    let end = |found: &FoundRegion| found.start + found.geometry.len() as u64;
    for (i, found) in regions.iter().enumerate() {
        let start = found.start as usize;
        assert!(found.len <= memory.len() - start, "{found:?}");
        let overlaps = regions[..i]
            .iter()
            .filter(|other| found.start < end(other) && other.start < end(found));
        // Only a convincing one may overlap a likelier one.
        let most = usize::from(found.grade == Grade::Convincing);
        assert!(overlaps.count() <= most, "{regions:?}");
    }
}

/// Reads a region with every function, and checks the bounds of each.
fn read(region: &[u8], geometry: &Geometry, how: &How) {
    let decoded = Decoded::new(region, geometry, how.writer(), how.unpack());
    assert_eq!(decoded.zones().count(), geometry.zones.len());
    let largest = geometry.zones.iter().map(|zone| zone.division.zone());
    let largest = largest.max().unwrap_or(0).min(region.len());
    for record in decoded.records() {
        is_bounded(&record, largest, geometry);
    }

    let files = decoded.linux_files(None);
    assert!(files.len() <= geometry.zones.len());
    let dmesg = files.iter().filter(|file| file.name.starts_with("dmesg"));
    for file in dmesg {
        let mut bytes = Vec::new();
        let worth = file.write_to(&mut bytes).unwrap();
        assert!(
            bytes.len() <= largest.saturating_mul(16) + 1_000,
            "{}",
            file.name
        );
        let unverified = worth.unverified;
        is_marked(&Text { bytes, unverified }, usize::MAX);
    }

    let code = Code::new(geometry.parity).map(Box::new);
    for policy in [CorrectionPolicy::Careful, CorrectionPolicy::Faithful] {
        let reader = Reader {
            code: code.as_deref(),
            order: geometry.order,
            policy,
            writer: how.writer(),
        };
        for place in &geometry.zones {
            is_all_there(reader.open(region, *place));
        }
    }
}

fn is_bounded(record: &Record<'_>, largest: usize, geometry: &Geometry) {
    match &record.content {
        Content::Dmesg(dmesg) => is_marked(&dmesg.text, largest * 16),
        Content::Console(text) | Content::Pmsg(text) => is_marked(text, largest),
        Content::Ftrace(traces) => {
            assert!(traces.len() * geometry.record_format.len() <= record.stored);
        }
    }
}

/// Checks the text's length, and that the unverified ranges lie within it in order.
fn is_marked(text: &Text, most: usize) {
    assert!(text.bytes.len() <= most);
    assert!(text.unverified.iter().all(|range| range.start < range.end));
    assert!(text.unverified.is_sorted_by(|a, b| a.end < b.start));
    let end = text.unverified.last().map_or(0, |range| range.end);
    assert!(end <= text.bytes.len());
}

/// Checks that chunks give the same text as a whole read, with the reported length.
fn is_all_there(mut zone: PreviousBootZone<'_, [u8]>) {
    let mut chunks = Vec::new();
    let mut worst = None;
    while let Some((bytes, trust)) = zone.chunk(chunks.len()) {
        assert!(!bytes.is_empty());
        chunks.extend_from_slice(bytes);
        worst = worst.max(Some(trust));
    }
    assert_eq!(chunks.len(), zone.len());
    assert_eq!(zone.is_empty(), zone.state() != ZoneState::Valid);
    let mut whole = vec![0; zone.len()];
    let trust = zone.read(0, &mut whole);
    assert!(worst.is_none() || trust == worst);
    assert_eq!(whole, chunks);
}

impl Input {
    fn memory(&self) -> Vec<u8> {
        let mut memory = match self.memory {
            Memory::Recorded { which, from, len } => {
                let image = RECORDED[usize::from(which) % RECORDED.len()];
                let rest = &image[from as usize % image.len()..];
                rest[..rest.len().min(len.into())].to_vec()
            }
            Memory::Zeroes(len) => vec![0; len.into()],
        };
        for (at, bytes) in &self.patches {
            put(&mut memory, *at, bytes);
        }
        for header in &self.headers {
            header.put(&mut memory);
        }
        memory
    }

    fn geometry(&self) -> Geometry {
        let parity = self.parity.into();
        Geometry {
            zones: self
                .zones
                .iter()
                .filter_map(|zone| zone.place(parity))
                .collect(),
            parity,
            order: order(self.how.big),
            record_format: RecordFormat::ALL
                [usize::from(self.how.record_format) % RecordFormat::ALL.len()],
            traces_per_cpu: self.how.traces_per_cpu,
        }
    }
}

fn put(memory: &mut [u8], at: u32, bytes: &[u8]) {
    let at = at as usize % memory.len().max(1);
    memory[at..]
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from);
}

fn order(big: bool) -> ByteOrder {
    if big {
        ByteOrder::Big
    } else {
        ByteOrder::Little
    }
}

impl AnyHeader {
    fn put(&self, memory: &mut [u8]) {
        let header = nostall_pstore::ZoneHeader {
            signature: nostall_pstore::SIGNATURE ^ self.version.unwrap_or(0),
            start: self.start,
            size: self.size,
        };
        put(memory, self.at, &header.encode(order(self.big)));
    }
}

impl AnyZone {
    fn place(&self, parity: usize) -> Option<Place> {
        let kinds = [ZoneKind::Dmesg, ZoneKind::Console, ZoneKind::Ftrace, ZoneKind::Pmsg];
        let parity = self.parity.map_or(parity, usize::from);
        Some(Place {
            kind: kinds[usize::from(self.kind) % kinds.len()],
            index: self.index,
            offset: self.offset.into(),
            division: Division::new(self.size.into(), parity)?,
        })
    }
}

impl From<AnySize> for usize {
    fn from(size: AnySize) -> Self {
        match size {
            AnySize::Small(size) => size.into(),
            AnySize::Any(size) => size,
        }
    }
}

impl How {
    fn writer(&self) -> Writer {
        if self.data_first {
            Writer::DataFirst
        } else {
            Writer::HeaderFirst
        }
    }

    fn unpack(&self) -> Unpack {
        let all = Compression::ALL;
        match self.unpack {
            None => Unpack::ByTrying,
            Some(which) => all
                .get(usize::from(which))
                .map_or(Unpack::Not, |it| Unpack::As(*it)),
        }
    }
}
