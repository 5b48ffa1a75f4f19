//! Bytes that were never written are marked, whatever they are decoded from.

#![cfg(feature = "std")]

mod common;

use std::ops::Range;

use common::{Fixture, noise};
use nostall_pstore::compress;
use nostall_pstore::decompress::Compression;
use nostall_pstore::{
    BLOCK, ByteOrder, Code, Content, Decoded, Dmesg, Geometry, HEADER, Kind, LastWords, Layout,
    LinuxVersion, Packing, Params, Ram, Shape, Trust, Unpack, Writer, Zone,
};

/// Trials for each compression.
const TRIALS: u64 = 300;

/// A region with one dmesg record, each of whose blocks has 16 parity bytes.
struct Sample {
    region: Vec<u8>,
    geometry: Geometry,
    text: Vec<u8>,
    stored: usize,
}

impl Sample {
    fn recorded() -> Self {
        let fixture = Fixture::load("ecc16");
        let geometry = Geometry::of(&fixture.layout, ByteOrder::Little, fixture.shape);
        Self::new(fixture.image, geometry)
    }

    fn made(pack: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        let log = Fixture::load("plain").files.remove("dmesg-ramoops-0");
        let params = Params {
            mem_size: 0x1_0000,
            record_size: 0x1_0000,
            console_size: 0,
            ftrace_size: 0,
            pmsg_size: 0,
            ecc: 16,
            cpus: 1,
            flags: 0,
        };
        let layout = Layout::new(&params).unwrap();
        let mut region = vec![0; params.mem_size];
        let code = Code::new(16).unwrap();
        {
            let (place, memory) = layout.split(Ram::of(&mut region)).next().unwrap();
            let (mut zone, _) =
                Zone::attach(memory, place.kind, LinuxVersion(0), Some(&code)).unwrap();
            let body = pack(&log.unwrap());
            zone.write_dmesg_packed(&LastWords::PANIC, &body).unwrap();
        }
        Self::new(
            region,
            Geometry::of(&layout, ByteOrder::Little, Shape::Bits64),
        )
    }

    fn new(region: Vec<u8>, geometry: Geometry) -> Self {
        let decoded = Decoded::new(&region, &geometry, Writer::HeaderFirst, Unpack::ByTrying);
        let record = decoded.records().next().unwrap();
        let stored = record.stored;
        let Content::Dmesg(dmesg) = record.content else {
            panic!();
        };
        assert!(matches!(dmesg.packing, Packing::Unpacked(_)));
        assert_eq!(dmesg.text.unverified, []);
        Self {
            region,
            geometry,
            text: dmesg.text.bytes,
            stored,
        }
    }

    /// The region with up to 40 bytes wrong in one block, more than 16 parity bytes mend; and
    /// that block. Every second time only lowest bits are wrong, so that the body is more
    /// often still a valid one.
    fn damaged(&self, seed: u64) -> (Vec<u8>, usize) {
        let dice = noise(2 + 80, seed + 1);
        let block =
            usize::from(u16::from_le_bytes([dice[0], dice[1]])) % self.stored.div_ceil(BLOCK);
        let start = self.geometry.zones_of(Kind::Dmesg).next().unwrap().offset + HEADER;
        let mut region = self.region.clone();
        let mask = if seed % 2 == 0 { 0xff } else { 1 };
        for pair in dice[2..].chunks(2).take(9 + seed as usize % 32) {
            let at = usize::from(pair[0]) % BLOCK;
            region[start + block * BLOCK + at] ^= (pair[1] | 1) & mask;
        }
        (region, block)
    }

    fn dmesg(&self, region: &[u8], unpack: Unpack) -> (Dmesg, Trust) {
        let decoded = Decoded::new(region, &self.geometry, Writer::HeaderFirst, unpack);
        let record = decoded.records().next().unwrap();
        let trust = record.trust;
        let Content::Dmesg(dmesg) = record.content else {
            panic!();
        };
        (dmesg, trust)
    }
}

fn is_marked(ranges: &[Range<usize>], at: usize) -> bool {
    ranges.iter().any(|range| range.contains(&at))
}

/// Bytes that differ from the text that was written and are not marked.
fn invented(text: &[u8], written: &[u8], unverified: &[Range<usize>]) -> usize {
    let is_wrong = |at: &usize| written.get(*at) != text.get(*at) && !is_marked(unverified, *at);
    (0..text.len()).filter(is_wrong).count()
}

fn no_wrong_byte_is_unmarked(sample: &Sample, unpack: Unpack) -> usize {
    let (mut wrong, mut unpacked) = (0, 0);
    for seed in 0..TRIALS {
        let (region, _) = sample.damaged(seed);
        let (dmesg, trust) = sample.dmesg(&region, unpack);
        if let Packing::Unpacked(_) = dmesg.packing {
            unpacked += 1;
            let unmarked = invented(&dmesg.text.bytes, &sample.text, &dmesg.text.unverified);
            wrong += usize::from(unmarked > 0);
            assert!(trust == Trust::Unverified || dmesg.text.bytes == sample.text);
        }
    }
    assert_eq!(
        wrong, 0,
        "trials with invented text that is not marked, of {TRIALS}"
    );
    unpacked
}

#[test]
fn text_inflated_from_a_block_that_failed_error_correction_is_unverified() {
    let sample = Sample::recorded();
    let unpacked = no_wrong_byte_is_unmarked(&sample, Unpack::ByTrying)
        + no_wrong_byte_is_unmarked(&sample, Unpack::As(Compression::Deflate));
    assert!(unpacked > 200, "{unpacked}");
}

#[test]
fn text_decompressed_with_lz4_from_a_failed_block_is_unverified() {
    let sample = Sample::made(compress::lz4);
    let unpacked = no_wrong_byte_is_unmarked(&sample, Unpack::ByTrying);
    assert!(unpacked > 20, "{unpacked}");
    no_wrong_byte_is_unmarked(&sample, Unpack::As(Compression::Lz4));
}

#[test]
fn text_decompressed_with_lzo_from_a_failed_block_is_unverified() {
    let sample = Sample::made(|text| lzokay::compress::compress(text).unwrap());
    no_wrong_byte_is_unmarked(&sample, Unpack::ByTrying);
    let unpacked = no_wrong_byte_is_unmarked(&sample, Unpack::As(Compression::Lzo));
    assert!(unpacked > 20, "{unpacked}");
}

#[test]
fn text_decompressed_with_zstd_from_a_failed_block_is_unverified() {
    // Linux's own, which has no checksum.
    let image = Fixture::load("zstd").image;
    let sample = Sample::made(|_| {
        let size = u32::from_le_bytes(*image[8..].first_chunk().unwrap()) as usize;
        let record = &image[HEADER..][..size];
        let line = record.iter().position(|&byte| byte == b'\n').unwrap();
        record[line + 1..].to_vec()
    });
    let unpacked = no_wrong_byte_is_unmarked(&sample, Unpack::ByTrying)
        + no_wrong_byte_is_unmarked(&sample, Unpack::As(Compression::Zstd));
    assert!(unpacked > 0, "{unpacked}");
}

/// Text before the failed block keeps its worth where the format says how far it reaches.
#[test]
fn text_before_the_failed_block_stays_verified() {
    for sample in [Sample::recorded(), Sample::made(compress::lz4)] {
        let mut kept = 0;
        for seed in 0..TRIALS {
            let (region, block) = sample.damaged(seed);
            let (dmesg, _) = sample.dmesg(&region, Unpack::ByTrying);
            if let (Packing::Unpacked(_), [range]) = (dmesg.packing, &dmesg.text.unverified[..]) {
                assert_eq!(range.end, dmesg.text.bytes.len());
                // Of each compressed byte comes at least one, in a log.
                assert!(
                    range.start + BLOCK >= block * BLOCK || block < 2,
                    "{block} {range:?}"
                );
                kept += usize::from(range.start > 0);
            }
        }
        assert!(kept > 10, "{kept}");
    }
}

#[test]
fn a_header_in_a_failed_block_makes_all_that_it_describes_unverified() {
    let sample = Sample::recorded();
    let start = sample.geometry.zones_of(Kind::Dmesg).next().unwrap().offset + HEADER;
    let mut region = sample.region.clone();
    // Behind the header line, in its block.
    for at in 60..80 {
        region[start + at] ^= 0x55;
    }
    let decoded = Decoded::new(&region, &sample.geometry, Writer::HeaderFirst, Unpack::Not);
    let record = decoded.records().next().unwrap();
    let Content::Dmesg(dmesg) = record.content else {
        panic!();
    };
    assert!(dmesg.header.is_some());
    assert_eq!(dmesg.header_trust, Trust::Unverified);
}

/// Linux's own files cannot be marked inside, so the decoder reports their ranges.
#[test]
fn linuxs_files_report_the_bytes_that_nothing_verifies() {
    let sample = Sample::recorded();
    let fixture = Fixture::load("ecc16");
    let mut garbled = 0;
    for seed in 0..TRIALS {
        let (region, _) = sample.damaged(seed);
        let decoded = Decoded::new(
            &region,
            &sample.geometry,
            Writer::HeaderFirst,
            Unpack::ByTrying,
        );
        for file in decoded.linux_files(None) {
            if file.name != "dmesg-ramoops-0" {
                continue;
            }
            let mut bytes = Vec::new();
            let worth = file.write_to(&mut bytes).unwrap();
            // Without Linux's notice of the damage.
            let end = bytes
                .windows(6)
                .rposition(|part| part == b"\nECC: ")
                .unwrap();
            let written = &fixture.files[&file.name];
            let wrong = invented(&bytes[..end], written, &worth.unverified);
            assert_eq!(wrong, 0, "{seed}");
            garbled += usize::from(bytes[..end] != written[..end.min(written.len())]);
        }
    }
    assert!(garbled > 100, "{garbled}");
}

/// A zone of records in one piece is the same as its records one by one.
#[test]
fn calls_of_one_cpu_follow_those_of_another_in_the_order_of_writing() {
    for name in ["plain", "ecc16", "wrap", "armv7"] {
        let fixture = Fixture::load(name);
        let geometry = Geometry::of(&fixture.layout, ByteOrder::Little, fixture.shape);
        let decoded = Decoded::new(
            &fixture.image,
            &geometry,
            Writer::HeaderFirst,
            Unpack::ByTrying,
        );
        let mut records = decoded.records();
        let record = records
            .find(|record| record.kind() == Kind::Ftrace)
            .unwrap();
        let Content::Ftrace(calls) = record.content else {
            panic!();
        };
        let mut sorted: Vec<_> = calls.iter().collect();
        assert_eq!(sorted.len(), calls.len());
        sorted.sort_by_key(|trace| trace.record.cpu);
        assert_eq!(calls.by_cpu().collect::<Vec<_>>(), sorted);
    }
}
