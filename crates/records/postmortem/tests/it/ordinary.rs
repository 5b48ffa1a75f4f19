//! Data without any kernel's records: no region convinces, and a similar place is reported as
//! doubtful, with reasons.
use crate::recordings as common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Fixture, noise};
use nostall_postmortem::detect::{Detection, Grade, detect, detect_runs};
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::memory::Memory;
use nostall_pstore::{
    ByteOrder, FTRACE_PER_CPU, HEADER, Layout, Params, SIGNATURE, ZoneHeader, ZoneKind,
};
use proptest::prelude::*;

#[track_caller]
fn assert_none(detection: &Detection, what: &str) {
    assert_eq!(detection.convincing(), [], "{what}");
    for found in detection.doubtful() {
        assert!(
            found.doubts[0].contains("bits of evidence"),
            "{what}: {found:#x?}"
        );
        assert!(!found.why.is_empty(), "{what}");
    }
}

/// Adds the regular files in a folder and below, in order of their names, without links.
fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
    entries.sort_by_key(|entry| entry.path());
    for entry in entries {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path(), into),
            Ok(kind) if kind.is_file() => into.push(entry.path()),
            _ => {}
        }
    }
}

/// Programs, libraries, tables and documents of the system and of the compiler that builds this
/// test. (This build's own tests contain regions, so they are left out.)
#[test]
fn no_region_is_found_in_the_files_of_a_system() {
    const MOST: usize = 1 << 30;
    let compiler = std::env::var_os("CARGO").map(PathBuf::from);
    let compiler = compiler.and_then(|cargo| Some(cargo.parent()?.parent()?.join("lib")));
    let folders = ["/usr/bin", "/usr/lib", "/usr/share", "/etc"].map(PathBuf::from);
    let mut all = vec![];
    for folder in folders.into_iter().chain(compiler) {
        let mut here = vec![];
        files(&folder, &mut here);
        all.push(here);
    }
    // Some files of each folder.
    let longest = all.iter().map(Vec::len).max().unwrap();
    let in_turn = (0..longest).flat_map(|nth| all.iter().filter_map(move |here| here.get(nth)));
    let (mut images, mut total) = (vec![], 0);
    for path in in_turn {
        if let Ok(image) = Memory::open_raw(path) {
            let len: usize = image.data().map(|(_, bytes)| bytes.len()).sum();
            if total + len <= MOST && images.len() < 10_000 {
                let discovery = Discovery::new(&image);
                assert_none(&discovery.detection, &path.display().to_string());
                let traces = discovery.traces(&[]);
                assert!(traces.is_empty(), "{}: {traces:?}", path.display());
                total += len;
                images.push(image);
            }
        }
    }
    println!("{} files, {} MiB", images.len(), total >> 20);
    assert!(total > 64 << 20, "the compiler's library alone has more");

    // Then all of them side by side, as in the page cache of a machine's memory.
    let mut at = 0;
    let parts = images.iter().flat_map(Memory::data).map(|(_, bytes)| {
        let start = at;
        at += bytes.len() as u64;
        (start, bytes)
    });
    let parts: Vec<_> = parts.collect();
    let detection = detect_runs(parts.iter().map(|(start, bytes)| (*start, &**bytes)));
    assert_none(&detection, "all");
    assert_eq!(detection.searched, total as u64);
    assert!(detection.is_complete);
}

#[test]
fn two_texts_of_four_letters_in_zeros_are_doubtful_with_reasons() {
    for (word, gap) in [("CCCC", 0x2000), ("CMAC", 0x1000), ("CANC", 0x800)] {
        let mut zeros = vec![0; 1 << 20];
        for at in [0x1000, 0x1000 + gap] {
            zeros[at..at + 4].copy_from_slice(word.as_bytes());
        }
        let detection = detect(&zeros);
        assert_none(&detection, word);
        let said = detection.found[0].doubts.join("\n");
        for reason in [
            "0 bits of evidence",
            "no zone holds contents",
            "four letters",
        ] {
            assert!(said.contains(reason), "{word}: {said}");
        }
    }
}

/// Returns the region as Linux leaves it without any text.
fn empty(params: &Params) -> Vec<u8> {
    let mut bytes = vec![0; params.mem_size];
    for zone in Layout::new(params).unwrap().zones() {
        let header = ZoneHeader {
            signature: zone.kind.signature(params.zone_order.since()),
            start: 0,
            size: 0,
        };
        bytes[zone.offset..][..HEADER].copy_from_slice(&header.encode(ByteOrder::Little));
    }
    bytes
}

#[test]
fn an_empty_region_is_convincing_with_three_plain_zones_and_doubtful_otherwise() {
    let whole = Params::command_line(0x1_0000, 2);
    let mut dump = noise(0x3000, 1);
    dump.extend(empty(&whole));
    dump.extend(noise(0x3000, 2));
    let detection = detect(&dump);
    assert_eq!(detection.convincing().len(), 1, "{detection:#x?}");
    assert_eq!(detection.found[0].start, 0x3000);
    assert_eq!(detection.found[0].params, whole);

    let none = Params {
        record_size: 0,
        console_size: 0,
        ftrace_size: 0,
        pmsg_size: 0,
        flags: FTRACE_PER_CPU,
        ..whole
    };
    let traces = Params {
        ftrace_size: 0x1_0000,
        cpus: 4,
        ..none
    };
    let console = Params {
        console_size: 0x1_0000,
        ..none
    };
    let both = Params {
        mem_size: 0x2_0000,
        pmsg_size: 0x1_0000,
        ..console
    };
    for params in [traces, console, both] {
        let detection = detect(&[vec![0; 0x3000], empty(&params), vec![0; 0x3000]].concat());
        assert_none(&detection, &format!("{params:x?}"));
        let doubtful = &detection.doubtful()[0];
        assert_eq!(doubtful.start, 0x3000, "{doubtful:#x?}");
        assert_eq!(doubtful.grade, Grade::Doubtful);
        let kinds: Vec<_> = doubtful
            .geometry
            .zones
            .iter()
            .map(|zone| zone.kind)
            .collect();
        let expected: Vec<_> = Layout::new(&params)
            .unwrap()
            .zones()
            .map(|zone| zone.kind)
            .collect();
        if params.console_size == 0 || params.pmsg_size > 0 {
            assert_eq!(kinds.len(), expected.len(), "{doubtful:#x?}");
        }
        assert_eq!(
            kinds.contains(&ZoneKind::Ftrace),
            expected.contains(&ZoneKind::Ftrace)
        );
    }
}

#[test]
fn a_region_among_thousands_of_decoys_comes_first_and_whole() {
    let header = |signature, size| {
        let header = ZoneHeader {
            signature,
            start: size,
            size,
        };
        header.encode(ByteOrder::Little).to_vec()
    };
    let with = |signature, byte: &[u8]| {
        let contents = byte.repeat(100 / byte.len());
        [header(signature, contents.len() as u32), contents].concat()
    };
    const TRACE: u32 = 0x4343_4343;
    let decoys = [
        ("empty traces", vec![header(TRACE, 0)], 300),
        ("many empty traces", vec![header(TRACE, 0)], 30_000),
        ("traces", vec![with(TRACE, b"CCCC")], 5_000),
        ("empty zones", vec![header(SIGNATURE, 0)], 300),
        ("many empty zones", vec![header(SIGNATURE, 0)], 5_000),
        ("texts", vec![with(SIGNATURE, b"hello world ")], 2_000),
        (
            "all of them",
            vec![header(TRACE, 0), with(TRACE, b"CCCC"), header(SIGNATURE, 0)],
            6_000,
        ),
    ];
    const LEN: usize = 8 << 20;
    for (nth, (name, decoys, count)) in decoys.into_iter().enumerate() {
        let random = noise(count * 4, nth as u64 + 1);
        let mut dump = vec![0; LEN];
        for (word, decoy) in random.chunks_exact(4).zip(decoys.iter().cycle()) {
            let at = u32::from_le_bytes(*word.first_chunk().unwrap()) as usize % (LEN - 200);
            dump[at..at + decoy.len()].copy_from_slice(decoy);
        }
        for fixture in ["wrap", "ecc16", "armv7"].map(Fixture::load) {
            let alone = &detect(&fixture.image).found[0];
            let start = dump.len() as u64;
            let detection = detect(&[&dump[..], &fixture.image, &[0; 4096]].concat());
            let first = &detection.found[0];
            assert_eq!(first.start, start, "{} among {name}", fixture.name);
            assert_eq!(
                first.geometry, alone.geometry,
                "{} among {name}",
                fixture.name
            );
            let is_best = |found: &[_]| {
                found.is_sorted_by_key(|it: &nostall_postmortem::detect::FoundRegion| {
                    std::cmp::Reverse((it.grade, it.bits))
                })
            };
            assert!(is_best(&detection.found));
        }
    }
}

/// Texts at equal distances have the form of dmesg zones. Linux starts each record with its
/// line.
#[test]
fn equally_spaced_texts_without_a_records_first_line_come_after_a_region() {
    const SPACE: usize = 0x800;
    let text = b"hello world, this is no log\n".repeat(3);
    let header = ZoneHeader {
        signature: SIGNATURE,
        start: text.len() as u32,
        size: text.len() as u32,
    };
    let mut zone = [&header.encode(ByteOrder::Little)[..], &text].concat();
    zone.resize(SPACE, 0);
    for fixture in ["plain", "ecc16", "armv7"].map(Fixture::load) {
        let mut dump = zone.repeat(300);
        dump.resize(dump.len() + 0x1_0000, 0);
        let start = dump.len() as u64;
        dump.extend(&fixture.image);
        let detection = detect(&dump);
        assert_eq!(detection.found[0].start, start, "{}", fixture.name);
    }
}

/// Generates a fragment of ordinary data.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let letters = prop::collection::vec(prop::sample::select(&b"ABCDGHKMNO@"[..]), 4);
    // Four letters are the signature itself.
    let letters = letters.prop_filter("is a zone", |word| word != b"DBGC" && word != b"CGBD");
    let words = prop_oneof![
        Just(b"CCCC".to_vec()),
        Just(b"HMAC".to_vec()),
        Just(b"CMAC".to_vec()),
        Just(b"COMM".to_vec()),
        letters,
    ];
    let zeros = prop_oneof![Just(8usize), 0..64usize, Just(0x1000 - 4)];
    // A word, as in a table of names or numbers of equal size.
    let table = (words.clone(), zeros, 1..40usize)
        .prop_map(|(word, zeros, count)| [word, vec![0; zeros]].concat().repeat(count));
    // A word before two equal small numbers, followed by as many bytes.
    let counted = (words, 1..200u32, any::<u8>(), any::<bool>()).prop_map(
        |(word, count, byte, is_counting)| {
            let numbers = [count.to_le_bytes(), count.to_le_bytes()].concat();
            let bytes = (0..count).map(|nth| if is_counting { nth as u8 } else { byte });
            [word, numbers, bytes.collect()].concat()
        },
    );
    // Addresses of a kernel, in order or not, as in its tables.
    let pointers = (1..200u64, any::<bool>()).prop_map(|(count, is_sorted)| {
        let pointer = |nth: u64| {
            let nth = if is_sorted { nth } else { nth * 7919 % 1000 };
            (0xffff_ffff_8100_0000 + nth * 0x40).to_le_bytes()
        };
        (0..count).flat_map(pointer).collect()
    });
    // The signature as an instruction's operand.
    let code = Just(
        [
            &SIGNATURE.to_le_bytes()[..],
            b"\x75\x08\x48\x89\xc7\xe8\x10\x20\xff\xff",
        ]
        .concat(),
    );
    prop_oneof![
        4 => table,
        4 => counted,
        2 => pointers,
        1 => code,
        2 => (0usize..5000).prop_map(|len| vec![0; len]),
        1 => (0usize..500).prop_map(|len| vec![0xff; len]),
        2 => (1usize..2000, any::<u64>()).prop_map(|(len, seed)| noise(len, seed)),
        2 => (0usize..500).prop_map(|len| b"a line of text, as in a log\n".iter().copied().cycle().take(len).collect()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_region_is_found_in_tables_texts_numbers_and_addresses(
        fragments in prop::collection::vec(fragment(), 1..40),
    ) {
        let detection = detect(&fragments.concat());
        prop_assert!(detection.convincing().is_empty(), "{:#x?}", detection.convincing());
    }
}
