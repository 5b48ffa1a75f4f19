//! Regions found in dumps of which nothing is known.
#![cfg(feature = "std")]

use nostall_pstore::detect::{Found, detect, detect_runs};
use nostall_pstore::{ByteOrder, Geometry, Layout, Params, Shape};
use std::path::PathBuf;

const FIXTURES: [&str; 8] = [
    "plain",
    "ecc16",
    "zstd",
    "lz4",
    "nocompress",
    "armv7",
    "armv7-ecc",
    "wrap",
];

/// A recorded image, and what is to be found out about it.
struct Fixture {
    image: Vec<u8>,
    params: Params,
    geometry: Geometry,
}

fn fixture(name: &str) -> Fixture {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let image = std::fs::read(folder.join(name).join("image.bin")).unwrap();
    let text = std::fs::read_to_string(folder.join(name).join("params.txt")).unwrap();
    let value = |name: &str| {
        let words = text.split_whitespace();
        let value = words.filter_map(|word| word.trim_start_matches("ramoops.").split_once('='));
        let (_, value) = value.into_iter().find(|(key, _)| *key == name)?;
        Some(match value.strip_prefix("0x") {
            Some(hex) => usize::from_str_radix(hex, 16).unwrap(),
            None => value.parse().unwrap_or(0),
        })
    };
    let params = Params {
        record_size: value("record_size").unwrap(),
        console_size: value("console_size").unwrap(),
        ftrace_size: value("ftrace_size").unwrap(),
        pmsg_size: value("pmsg_size").unwrap(),
        ecc: Params::command_line_ecc(value("ecc").unwrap()),
        ..Params::command_line(value("mem_size").unwrap(), value("smp").unwrap())
    };
    let shape = if text.contains("arm32") {
        Shape::Arm32
    } else {
        Shape::Bits64
    };
    let layout = Layout::new(&params).unwrap();
    Fixture {
        image,
        params,
        geometry: Geometry::of(&layout, ByteOrder::Little, shape),
    }
}

/// Found first, there, and as it is.
#[track_caller]
fn assert_found(found: &[Found], start: usize, fixture: &Fixture, what: &str) {
    let Some(first) = found.first() else {
        panic!("{what}: nothing found");
    };
    assert_eq!(first.start, start, "{what}: {first:#x?}");
    assert_eq!(first.geometry, fixture.geometry, "{what}: {first:#x?}");
    assert_eq!(first.params, fixture.params, "{what}: {first:#x?}");
}

/// Bytes that are the same in every run of the tests.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(next).collect()
}

fn text(len: usize) -> Vec<u8> {
    let lines = b"[    1.234567] CONFIG_CGROUPS: Command line: COLD CACHE DBGC CALL\n";
    lines.iter().copied().cycle().take(len).collect()
}

#[test]
fn what_linux_wrote_is_found_as_linux_was_told_to_divide_it() {
    for name in FIXTURES {
        let fixture = fixture(name);
        let found = detect(&fixture.image);
        assert_found(&found, 0, &fixture, name);
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!(found[0].len, fixture.image.len(), "{name}");
        assert_eq!(found[0].version.is_some(), true, "{name}");
    }
}

#[test]
fn it_is_found_wherever_it_lies_in_whatever() {
    const DUMP: usize = 8 << 20;
    let kinds: [(&str, fn(usize) -> Vec<u8>); 4] = [
        ("zeros", |len| vec![0; len]),
        ("ones", |len| vec![0xff; len]),
        ("noise", |len| noise(len, 7)),
        ("text", text),
    ];
    for (kind, dump) in kinds {
        let empty = dump(DUMP);
        assert_eq!(detect(&empty), [], "{kind}");
        for (name, at) in FIXTURES.into_iter().zip([
            0, 2, 0x1000, 0x12_3456, 0x20_0000, 0x33_3332, 0x7b_fffe, 0x7c_0000,
        ]) {
            let fixture = fixture(name);
            let mut dump = empty.clone();
            dump[at..at + fixture.image.len()].copy_from_slice(&fixture.image);
            assert_found(&detect(&dump), at, &fixture, &format!("{name} in {kind}"));
        }
    }
}
