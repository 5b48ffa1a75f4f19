//! Dumps by AVML, made by its own crate: whole, damaged and cut off.
use crate::recordings as common;

use std::collections::BTreeMap;
use std::io::Cursor;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use avml::Format;
use common::{Fixture, noise};
use nostall_postmortem::detect::detect;
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::memory::{DumpFormat, Error, Memory, PhysicalRange};
use proptest::prelude::*;

/// Returns a dump of these ranges.
fn avml(ranges: &[(u64, &[u8])]) -> Vec<u8> {
    let ranges = ranges.iter().flat_map(|(start, bytes)| {
        let source = Cursor::new(bytes.to_vec());
        let mut dump = avml::image::Image::from_streams(Format::AvmlCompressed, source, Vec::new());
        dump.copy_block(*start..*start + bytes.len() as u64)
            .unwrap();
        dump.dst
    });
    ranges.collect()
}

fn open(dump: Vec<u8>) -> Memory {
    let memory = Memory::from_bytes(dump).unwrap();
    assert_eq!(memory.format(), DumpFormat::AVML);
    memory
}

#[test]
fn every_region_is_found_at_its_physical_address_as_in_a_raw_dump() {
    for fixture in Fixture::all() {
        let region = &fixture.image;
        let before = noise(200_000, 1);
        let dump = avml(&[(0x1000, &before), (0x8000_0000, region)]);
        let memory = open(dump);
        assert_eq!((memory.missing(), memory.unknown()), (0, 0));
        let detection = Discovery::new(&memory).detection;
        assert_eq!(detection.convincing().len(), 1);
        let found = &detection.convincing()[0];
        let alone = &detect(region).found[0];
        assert_eq!((found.start, found.len), (0x8000_0000, region.len()));
        assert_eq!(found.geometry, alone.geometry);
        assert_eq!(
            memory.read(found.start, found.len).as_deref(),
            Some(&**region)
        );
        assert_eq!(detection.searched, (before.len() + region.len()) as u64);
        assert_eq!(
            memory.read(0x1001, 150_000).as_deref(),
            Some(&before[1..150_001])
        );
        assert_eq!(memory.doubt(), None);
    }
}

#[test]
fn any_part_of_a_dump_is_readable_and_adjacent_blocks_are_joined() {
    let bytes = noise(300_001, 2);
    let (first, second) = bytes.split_at(100_000);
    let memory = open(avml(&[(0x10_0000 + 100_000, second), (0x10_0000, first)]));
    let whole = PhysicalRange {
        start: 0x10_0000,
        len: 300_001,
    };
    assert_eq!(memory.segments(), [whole]);
    for (at, len) in [
        (0, 300_001),
        (65_535, 2),
        (99_990, 20),
        (300_000, 1),
        (5, 0),
        (1, 299_999),
    ] {
        let read = memory.read(0x10_0000 + at as u64, len);
        assert_eq!(read.as_deref(), Some(&bytes[at..at + len]));
    }
    assert_eq!(memory.read(0x10_0000 + 300_000, 2), None);
    assert_eq!(memory.read(0xf_ffff, 1), None);
}

#[test]
fn zeros_that_avml_omits_are_missing() {
    const BLOCK: usize = 16 << 20;
    let mut bytes = vec![0; 3 * BLOCK];
    bytes[0] = 1;
    bytes[2 * BLOCK] = 2;
    let memory = open(avml(&[(0, &bytes)]));
    assert_eq!(memory.segments().len(), 2);
    assert_eq!(memory.read(BLOCK as u64 - 1, 1).as_deref(), Some(&[0][..]));
    assert_eq!(memory.read(BLOCK as u64, 1), None);
    assert_eq!(memory.read(2 * BLOCK as u64, 1).as_deref(), Some(&[2][..]));
    assert_eq!(
        memory.data_ranges().map(|range| range.len).sum::<u64>(),
        2 << 24
    );
}

#[test]
fn a_damaged_chunk_is_missing_and_no_other() {
    const CHUNK: usize = 64 << 10;
    let bytes = noise(4 * CHUNK, 3);
    let mut dump = avml(&[(0, &bytes)]);
    // Noise is not compressed, so this is in the second chunk.
    dump[CHUNK + 1000] ^= 1;
    let memory = open(dump);
    assert_eq!(memory.doubt(), None);
    assert_eq!(memory.read(CHUNK as u64 + 5, 1), None);
    assert_eq!(memory.read(0, CHUNK).as_deref(), Some(&bytes[..CHUNK]));
    assert_eq!(memory.read(0, CHUNK + 1), None);
    assert_eq!(
        memory.read(2 * CHUNK as u64, 9).as_deref(),
        Some(&bytes[2 * CHUNK..][..9])
    );
    let doubt = memory.doubt().unwrap();
    assert!(
        doubt.contains("65536 bytes are missing, because their compressed"),
        "{doubt}"
    );
    assert_eq!(Discovery::new(&memory).detection.searched, 3 * CHUNK as u64);
}

/// Damages the checksum of the compressed chunk with this index in a dump of one range.
fn damage_chunk(dump: &mut [u8], index: usize) {
    // AVML's header, then the chunks of snappy's framing: a type, three bytes of length, a checksum.
    let mut starts = Vec::new();
    let mut at = 32;
    while let Some(head) = dump[at..].first_chunk() {
        if dump[at] <= 1 {
            starts.push(at);
        }
        at += 4 + (u32::from_le_bytes(*head) >> 8) as usize;
        if starts.len() > index {
            break;
        }
    }
    dump[starts[index] + 4] ^= 0xff;
}

#[test]
fn a_region_that_lacks_a_chunk_is_decoded_zone_by_zone() {
    const GIVEN: &str = "--offset 0x80000000 --size 0x40000 --record-size 0x8000 --console-size \
                         0x8000 --ftrace-size 0x8000 --pmsg-size 0x2000 --ecc 0 --cpus 2";
    let fixture = Fixture::load("plain");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.avml");
    let decode = |dump: &[u8], options: &str| {
        std::fs::write(&path, dump).unwrap();
        let mut command = Command::new(cargo_bin("nostall-postmortem"));
        let output = command
            .arg(&path)
            .args(["-v", "--format", "json"])
            .args(options.split(' '))
            .output();
        let output = output.unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        let records: BTreeMap<_, _> = lines
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .filter(|line| line["type"] == "record")
            .map(|line| (line["name"].as_str().unwrap().to_owned(), line))
            .collect();
        (
            records,
            String::from_utf8(output.stderr).unwrap(),
            output.status.code(),
        )
    };
    let dump = avml(&[(0x8000_0000, &fixture.image)]);
    let (whole, _, status) = decode(&dump, "--all");
    assert_eq!((whole.len(), status), (4, Some(0)));
    let (dmesg, console) = ("dmesg-ramoops-0", "console-ramoops-0");
    let (ftrace, pmsg) = ("ftrace-ramoops-0", "pmsg-ramoops-0");
    // Each chunk has 64 KiB. The first has the dmesg record, the third the head of the console.
    for (chunk, there) in [
        (0, &[console, ftrace, pmsg][..]),
        (1, &[console, dmesg, ftrace, pmsg]),
        (2, &[dmesg, ftrace, pmsg]),
        (3, &[dmesg]),
    ] {
        let mut dump = dump.clone();
        damage_chunk(&mut dump, chunk);
        for options in ["--all", GIVEN] {
            let (partly, said, status) = decode(&dump, options);
            assert_eq!(status, Some(0), "{chunk}: {said}");
            let there = there.iter().map(|name| name.to_string());
            assert!(partly.keys().cloned().eq(there), "{chunk}: {said}");
            assert!(partly.iter().all(|(name, record)| *record == whole[name]));
            assert!(said.contains("65536 bytes are missing"), "{said}");
        }
    }
}

#[test]
fn a_dump_that_is_cut_off_has_the_chunks_before_the_cut() {
    let bytes = noise(200_000, 4);
    let mut dump = avml(&[(0x1000, &bytes)]);
    dump.truncate(140_000);
    let memory = open(dump.clone());
    assert_eq!(memory.missing(), 200_000 - 2 * 65_536);
    assert_eq!(
        memory.read(0x1000, 131_072).as_deref(),
        Some(&bytes[..131_072])
    );
    dump.truncate(100);
    assert!(matches!(
        Memory::from_bytes(dump),
        Err(Error::Damaged { .. })
    ));
}

#[test]
fn bytes_after_the_last_block_are_counted() {
    let dump = [avml(&[(0, b"memory")]), b"garbage".to_vec()].concat();
    assert_eq!(open(dump).unknown(), 7);
}

proptest! {
    #[test]
    fn any_dump_is_handled(
        len in 1..140_000usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        at in 0..150_000u64,
        most in 0..100usize,
    ) {
        let mut dump = avml(&[(64, &vec![7; len]), (1 << 20, &noise(5_000, 5))]);
        for (place, byte) in edits {
            let place = place.index(dump.len());
            dump[place] = byte;
        }
        dump.truncate(cut.index(dump.len()) + 1);
        let Ok(memory) = Memory::from_bytes(dump) else {
            return Ok(());
        };
        let mut end = 0;
        for range in memory.segments() {
            prop_assert!(range.len > 0 && range.start >= end);
            end = range.start.saturating_add(range.len);
        }
        for (start, bytes) in memory.data() {
            let read = memory.read(start, bytes.len());
            prop_assert_eq!(read.as_deref(), Some(&*bytes));
        }
        if let Some(read) = memory.read(at, most) {
            prop_assert_eq!(read.len(), most);
        }
        Discovery::new(&memory);
    }
}
