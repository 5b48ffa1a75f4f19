//! Regions found in dumps without any further knowledge of them.
use crate::recordings as common;

use common::{FIXTURES, noise};
use nostall_postmortem::Geometry;
use nostall_postmortem::detect::{FoundRegion, Grade, detect, detect_runs};
use nostall_pstore::{
    ByteOrder, Code, Layout, LinuxVersion, Params, RecordFormat, SIGNATURE, ZoneHeader, ZoneKind,
};
use proptest::prelude::*;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Ends a search that takes far too long.
const HANG_LIMIT: Duration = Duration::from_secs(300);

/// A recorded image, and its properties that must be detected.
struct Fixture {
    image: Vec<u8>,
    params: Params,
    geometry: Geometry,
}

fn fixture(name: &'static str) -> Fixture {
    let recorded = common::Fixture::load(name);
    Fixture {
        image: recorded.image,
        params: *recorded.layout.params(),
        geometry: Geometry::of(&recorded.layout, ByteOrder::Little, recorded.record_format),
    }
}

/// Asserts that the first region of `found` is at `start` and equals the fixture's.
#[track_caller]
fn assert_found(found: &[FoundRegion], start: usize, fixture: &Fixture, what: &str) {
    let Some(first) = found.first() else {
        panic!("{what}: nothing found");
    };
    assert_eq!(first.start, start as u64, "{what}: {first:#x?}");
    assert_eq!(first.grade, Grade::Convincing, "{what}: {first:#x?}");
    assert_eq!(first.geometry, fixture.geometry, "{what}: {first:#x?}");
    assert_eq!(first.params, fixture.params, "{what}: {first:#x?}");
}

fn text(len: usize) -> Vec<u8> {
    let lines = b"[    1.234567] CONFIG_CGROUPS: Command line: COLD CACHE DBGC CALL\n";
    lines.iter().copied().cycle().take(len).collect()
}

#[test]
fn a_region_is_found_with_the_parameters_that_linux_had() {
    for name in FIXTURES {
        let fixture = fixture(name);
        let found = detect(&fixture.image).found;
        assert_found(&found, 0, &fixture, name);
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!(found[0].len, fixture.image.len(), "{name}");
        assert!(found[0].version.is_some(), "{name}");
    }
}

#[test]
fn a_region_is_found_at_any_offset_in_any_data() {
    const DUMP: usize = 8 << 20;
    let kinds = [
        ("zeros", vec![0; DUMP]),
        ("ones", vec![0xff; DUMP]),
        ("noise", noise(DUMP, 7)),
        ("text", text(DUMP)),
    ];
    for (kind, empty) in kinds {
        assert_eq!(detect(&empty).found, [], "{kind}");
        for (name, at) in FIXTURES.into_iter().zip([
            0, 1, 0x1000, 0x12_3456, 0x20_0003, 0x33_3332, 0x7b_ffff, 0x7c_0000,
        ]) {
            let fixture = fixture(name);
            let mut dump = empty.clone();
            dump[at..at + fixture.image.len()].copy_from_slice(&fixture.image);
            assert_found(
                &detect(&dump).found,
                at,
                &fixture,
                &format!("{name} in {kind}"),
            );
        }
    }
}

#[test]
fn only_the_region_at_an_odd_offset_is_found() {
    for name in FIXTURES {
        let fixture = fixture(name);
        for (at, around) in [(0x1_2345, 0), (1, 0), (0x777, 0xff)] {
            let mut dump = vec![around; at];
            dump.extend(&fixture.image);
            dump.extend(vec![around; 12_345]);
            let detection = detect(&dump);
            assert_found(&detection.found, at, &fixture, name);
            assert_eq!(detection.found.len(), 1, "{name}: {detection:#x?}");
        }
    }
}

#[test]
fn two_regions_in_a_dump_are_both_found_even_if_equal() {
    let (plain, ecc) = (fixture("wrap"), fixture("ecc16"));
    for (first, second, gap) in [(&plain, &ecc, 0), (&ecc, &ecc, 0), (&plain, &plain, 4096)] {
        let mut dump = vec![0; 4096];
        dump.extend(&first.image);
        dump.extend(vec![0; gap]);
        let next = dump.len();
        dump.extend(&second.image);
        dump.extend(noise(10_000, 3));
        let mut found = detect(&dump).found;
        found.sort_by_key(|found| found.start);
        assert_eq!(found.len(), 2, "{found:#x?}");
        assert_found(&found[..1], 4096, first, "the first");
        assert_found(&found[1..], next, second, "the second");
    }
}

#[test]
fn runs_that_are_not_adjacent_are_searched_separately() {
    let (plain, ecc) = (fixture("plain"), fixture("armv7-ecc"));
    let before = noise(100, 1);
    let later = [&noise(0x1000, 1)[..], &ecc.image].concat();
    let runs = [
        (0, &before[..]),
        (0x1000_0000, &plain.image[..]),
        (0x2_0000_0000, &later[..]),
    ];
    let mut found = detect_runs(runs).found;
    assert!(found[0].bits >= found[1].bits);
    found.sort_by_key(|found| found.start);
    assert_eq!(found.len(), 2);
    assert_found(&found, 0x1000_0000, &plain, "the first run");
    assert_found(&found[1..], 0x2_0000_1000, &ecc, "the second run");
}

#[test]
fn adjacent_and_overlapping_runs_are_joined_in_any_order() {
    for name in FIXTURES {
        let fixture = fixture(name);
        let part = |from: usize, to: usize| (0x5000 + from as u64, &fixture.image[from..to]);
        let end = fixture.image.len();
        let runs = [part(0x9000, end), part(0, 0x8001), part(0x8000, 0x9001)];
        let detection = detect_runs(runs);
        assert_found(&detection.found, 0x5000, &fixture, name);
        assert_eq!(detection.searched, end as u64);
    }
}

#[test]
fn a_region_whose_end_is_cut_off_is_found_and_the_cut_is_reported() {
    for name in FIXTURES {
        let fixture = fixture(name);
        // The cut is in the last zone's data. The zone's end is then a guess; its start is not.
        let last = fixture.geometry.zones.last().unwrap().offset;
        let mut dump = noise(0x1234, 9);
        dump.extend(&fixture.image[..last + 1000]);
        let found = detect(&dump).found;
        assert_eq!(found[0].start, 0x1234, "{name}: {found:#x?}");
        let before = |zones: &Geometry| zones.zones[..fixture.geometry.zones.len() - 1].to_vec();
        assert_eq!(
            before(&found[0].geometry),
            before(&fixture.geometry),
            "{name}"
        );
        let doubts = found[0].doubts.iter();
        assert!(
            doubts.clone().any(|doubt| doubt.contains("ends")),
            "{name}: {found:#x?}"
        );
    }
}

#[test]
fn a_region_is_found_despite_a_header_that_parity_or_neighbours_restore() {
    for name in FIXTURES {
        let fixture = fixture(name);
        let zones = &fixture.geometry.zones;
        for (i, zone) in zones.iter().enumerate() {
            // Without parity, nothing reveals a first or last zone without a header, or a single trace
            // zone.
            let only = zone.kind == ZoneKind::Ftrace && fixture.params.cpus == 1;
            let edge = i == 0 || i + 1 == zones.len() || only;
            if fixture.params.ecc == 0 && edge {
                continue;
            }
            for (from, to) in [(0, 8), (4, 12), (2, 3), (0, 4)] {
                let mut dump = noise(0x2000, i as u64);
                let start = dump.len();
                dump.extend(&fixture.image);
                dump.extend(noise(0x2000, i as u64 + 9));
                for byte in &mut dump[start + zone.offset..][from..to] {
                    *byte ^= 0xa5;
                }
                assert_found(
                    &detect(&dump).found,
                    start,
                    &fixture,
                    &format!("{name}, zone {i}, {from}"),
                );
            }
        }
    }
}

#[test]
fn a_header_with_one_bad_size_word_hides_no_zone_and_is_a_doubt() {
    for name in FIXTURES {
        let fixture = fixture(name);
        let zones = &fixture.geometry.zones;
        for (nth, zone) in zones.iter().enumerate() {
            let data = zone.division.data() as u32;
            let header = fixture.image[zone.offset..][..12].first_chunk().unwrap();
            let right = ZoneHeader::decode(*header, ByteOrder::Little);
            let sizes = [data + 1, data + 0x1003, u32::MAX, right.size | 1 << 27];
            let bad = sizes.map(|size| ZoneHeader { size, ..right });
            for bad in bad.into_iter().chain([ZoneHeader {
                start: data + 9,
                ..right
            }]) {
                // Nothing reveals a single trace zone with an impossible header.
                let is_only = zone.kind == ZoneKind::Ftrace && fixture.params.cpus == 1;
                let is_none = bad.size > 128 << 20 || bad.start > bad.size;
                if is_only && is_none && fixture.params.ecc == 0 {
                    continue;
                }
                let mut dump = vec![0; 0x3000];
                dump.extend(&fixture.image);
                dump.extend(vec![0; 0x5000]);
                let at = 0x3000 + zone.offset;
                dump[at..at + 12].copy_from_slice(&bad.encode(ByteOrder::Little));
                let detection = detect(&dump);
                let what = format!("{name}, zone {nth}: {bad:x?}");
                let first = &detection.found[0];
                assert_eq!(first.start, 0x3000, "{what}: {first:#x?}");
                // Without parity, the size of a last zone is unknown.
                let all_but = |zones: &Geometry| match nth + 1 == zones.zones.len() {
                    true if fixture.params.ecc == 0 => zones.zones[..nth].to_vec(),
                    _ => zones.zones.clone(),
                };
                assert_eq!(
                    all_but(&first.geometry),
                    all_but(&fixture.geometry),
                    "{what}: {first:#x?}"
                );
                assert!(
                    first
                        .doubts
                        .iter()
                        .any(|doubt| doubt.contains("no sound header")
                            || doubt.contains("sizes that cannot be")
                            || doubt.contains("nothing shows")),
                    "{what}: {first:#x?}"
                );
            }
        }
    }
}

#[test]
fn no_region_is_found_in_empty_data() {
    for len in [0, 1, 11, 12, 13, 4096] {
        assert_eq!(detect(&vec![0; len]).found, []);
        assert_eq!(detect(&vec![0xff; len]).found, []);
        assert_eq!(detect(&noise(len, 5)).found, []);
    }
}

/// Returns 64 KiB of headers that cost time: each is as `header` returns it, `gap` bytes after
/// the previous one.
fn hostile(header: impl Fn(usize) -> ZoneHeader, gap: impl Fn(usize) -> usize) -> Vec<u8> {
    let mut bytes = vec![0; 64 << 10];
    let (mut at, mut i) = (0, 0);
    while at + 12 <= bytes.len() {
        bytes[at..at + 12].copy_from_slice(&header(i).encode(ByteOrder::Little));
        at += gap(i).max(2);
        i += 1;
    }
    bytes
}

#[test]
fn the_search_of_hostile_dumps_ends() {
    let empty = |signature| ZoneHeader {
        signature,
        start: 0,
        size: 0,
    };
    let plain = |_| empty(SIGNATURE);
    let trace = |_| empty(SIGNATURE ^ 0x0601c0);
    let mixed = |i: usize| match i % 7 {
        0..3 => empty(SIGNATURE),
        3 => empty(SIGNATURE ^ 0x0601c0),
        i => ZoneHeader {
            signature: SIGNATURE,
            start: 1 << i,
            size: (1 << (i + 2)) - 12,
        },
    };
    let versions = |i: usize| empty(SIGNATURE ^ (0x03_0000 + i as u32 % 0x1f00));
    let scattered = noise(1 << 16, 11);
    let scattered = |i: usize| 12 + usize::from(scattered[i]) / 16 * 2;
    let dumps = [
        ("back to back", hostile(plain, |_| 12)),
        ("alternating", hostile(plain, |i| 12 + i % 2 * 2)),
        ("overlapping", hostile(plain, |_| 4)),
        ("scattered", hostile(plain, scattered)),
        ("powers of two", hostile(plain, |i| 16 << (i % 5))),
        ("traces", hostile(trace, |_| 12)),
        ("scattered traces", hostile(trace, scattered)),
        ("traces of powers of two", hostile(trace, |i| 16 << (i % 3))),
        ("mixed", hostile(mixed, |_| 16)),
        ("mixed and scattered", hostile(mixed, scattered)),
        ("mixed powers of two", hostile(mixed, |i| 16 << (i % 4))),
        ("versions", hostile(versions, |_| 12)),
        ("far apart", hostile(plain, |_| 16).repeat(16)),
    ];
    for (name, dump) in dumps {
        let len = dump.len();
        let (done, is_done) = channel();
        thread::spawn(move || done.send(detect(&dump).found));
        let found = is_done.recv_timeout(HANG_LIMIT).expect(name);
        for (i, one) in found.iter().enumerate() {
            assert!(one.start as usize + one.len <= len);
            assert!(one.geometry.len() <= one.params.mem_size);
            let end = one.start + one.geometry.len() as u64;
            let overlaps = found[..i].iter().filter(|other| {
                one.start < other.start + other.geometry.len() as u64 && other.start < end
            });
            // Only a convincing one may overlap a likelier one.
            assert!(overlaps.count() <= usize::from(one.grade == Grade::Convincing));
        }
    }
}

/// Returns `count` headers of zones with contents at irregular distances, as any process can put
/// into memory.
fn fakes(count: usize) -> Vec<u8> {
    let random = noise(count * 2, 23);
    let mut bytes = Vec::new();
    for pair in random.chunks(2) {
        let size = 20 + u32::from(pair[0]) / 4;
        let header = ZoneHeader {
            signature: SIGNATURE,
            start: size,
            size,
        };
        bytes.extend(header.encode(ByteOrder::Little));
        bytes.extend(vec![b'x'; 40 + usize::from(pair[1]) / 2 * 2]);
    }
    bytes
}

#[test]
fn a_flood_of_headers_before_or_after_a_region_does_not_hide_it() {
    for (name, count) in [("plain", 5_000), ("ecc16", 60_000), ("armv7-ecc", 5_000)] {
        let fixture = fixture(name);
        let fakes = fakes(count);
        let before = [&fakes[..], &fixture.image].concat();
        let after = [&fixture.image[..], &fakes].concat();
        assert_found(&detect(&before).found, fakes.len(), &fixture, name);
        assert_found(&detect(&after).found, 0, &fixture, name);
    }
}

#[test]
fn thousands_of_zones_are_found() {
    let params = Params {
        record_size: 4096,
        console_size: 0x4_0000,
        ftrace_size: 0x10_0000,
        pmsg_size: 0x1_0000,
        ecc: 16,
        ..Params::command_line(8 << 20, 256)
    };
    let layout = Layout::new(&params).unwrap();
    let code = Code::new(16).unwrap();
    let mut dump = noise(0x10_0000, 4);
    let start = dump.len();
    dump.resize(start + params.mem_size, 0);
    for zone in layout.zones() {
        let bytes = &mut dump[start + zone.offset..][..zone.division.zone()];
        let header = ZoneHeader {
            signature: zone.kind.signature(LinuxVersion::new(6, 12, 3)),
            start: 0,
            size: 0,
        };
        let (data, parity) = bytes.split_at_mut(zone.division.header_parity());
        data[..12].copy_from_slice(&header.encode(ByteOrder::Big));
        code.encode(&data[..12], parity);
    }
    dump.extend(noise(0x10_0000, 5));
    let found = detect(&dump).found;
    assert_eq!(found[0].params, params);
    assert_eq!(found[0].start, start as u64);
    let geometry = Geometry::of(&layout, ByteOrder::Big, RecordFormat::Bits64);
    assert_eq!(found[0].geometry, geometry);
    assert!(
        found[0]
            .doubts
            .iter()
            .any(|doubt| doubt.contains("64 assumed"))
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_damage_never_panics_and_zones_stay_inside_the_region(
        name in prop::sample::select(&FIXTURES[..]),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<[u8; 6]>()), 0..40),
        headers in prop::collection::vec((any::<prop::sample::Index>(), 0u32..300_000, 0u32..300_000), 0..10),
        len in any::<prop::sample::Index>(),
    ) {
        let mut dump = fixture(name).image;
        for (at, bytes) in hits {
            let at = at.index(dump.len() - 6);
            dump[at..at + 6].copy_from_slice(&bytes);
        }
        for (at, start, size) in headers {
            let at = at.index(dump.len() - 12) & !1;
            let header = ZoneHeader { signature: SIGNATURE, start, size };
            dump[at..at + 12].copy_from_slice(&header.encode(ByteOrder::Little));
        }
        dump.truncate(len.index(2 * dump.len()).max(1));
        for found in detect(&dump).found {
            prop_assert!(found.start as usize + found.len <= dump.len());
            prop_assert!(found.geometry.len() <= found.params.mem_size);
        }
    }
}
