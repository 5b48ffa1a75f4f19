//! printk's ring in memory without VMCOREINFO: it is found by its structure, or nothing is shown.

use std::io::Write;
use std::process::Output;

use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::kernel_log::KernelMessage;
use nostall_postmortem::memory::Memory;
use nostall_postmortem::vmcoreinfo::InfoSource;
use proptest::prelude::*;
use tempfile::NamedTempFile;

use crate::kernel_logs::{Recorded, command, unpack};
use crate::made_printk::{MadeLog, MadeState};

/// Destroys each VMCOREINFO.
fn destroy(bytes: &mut [u8]) {
    const START: &[u8] = b"OSRELEASE=";
    while let Some(at) = memchr::memmem::find(bytes, START) {
        bytes[at] = b'o';
    }
}

/// Returns the records of all logs, with their sources.
fn logs(memory: &Memory) -> Vec<(InfoSource, Vec<KernelMessage>)> {
    let discovery = Discovery::new(memory);
    let logs = discovery.kernel_logs(&[]);
    let logs = logs
        .iter()
        .map(|log| (log.source, log.messages().collect()));
    logs.collect()
}

/// Returns the records of the only log, with the size of a record's data. It is found by its
/// structure.
fn by_structure(memory: &Memory) -> (usize, Vec<KernelMessage>) {
    let mut logs = logs(memory);
    assert_eq!(logs.len(), 1);
    match logs.remove(0) {
        (InfoSource::Structure(size), messages) => (size, messages),
        (source, _) => panic!("{source}"),
    }
}

/// Returns a ring with so many records.
fn made(records: usize) -> MadeLog {
    let mut log = MadeLog::new(7, 12);
    let texts = (0..records).map(|nth| format!("record {nth}"));
    texts.for_each(|text| log.add(text.as_bytes(), MadeState::Finalized));
    log
}

/// Returns the ring's memory without VMCOREINFO.
fn open(log: &MadeLog) -> Memory {
    let mut bytes = log.lime();
    destroy(&mut bytes);
    Memory::from_bytes(bytes).unwrap()
}

#[test]
fn every_recording_is_read_as_with_vmcoreinfo() {
    for name in [
        "6.1",
        "6.1-arm64",
        "6.12-wrapped",
        "6.1-reopened",
        "6.1-full",
    ] {
        let mut bytes = unpack(&format!("{name}.lime.gz"));
        let wanted = logs(&Memory::from_bytes(bytes.clone()).unwrap());
        destroy(&mut bytes);
        let (size, messages) = by_structure(&Memory::from_bytes(bytes).unwrap());
        assert_eq!(size, 88);
        assert!(messages == wanted[0].1, "{name}");
    }
}

#[test]
fn the_command_reads_a_raw_file_and_says_how() {
    for mut recorded in Recorded::all() {
        let wanted = command(recorded.raw().path(), &[]);
        recorded
            .pages
            .iter_mut()
            .for_each(|(_, page)| destroy(page));
        let image = recorded.raw();
        let output = command(image.path(), &["-v"]);
        // Behind the cause and the heading, which may lack the release.
        let body = |output: &Output| {
            let text = String::from_utf8(output.stdout.clone()).unwrap();
            text.splitn(3, '\n').nth(2).unwrap().to_owned()
        };
        assert!(body(&output) == body(&wanted), "{}", recorded.name);
        let error = String::from_utf8(output.stderr).unwrap();
        let found = "found by its structure, without VMCOREINFO; records of 88 bytes";
        assert!(
            error.contains(&format!("{found}; addresses are offsets in the file")),
            "{error}"
        );
        let output = command(image.path(), &["--format", "json"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let line = lines.find(|line| line["type"] == "kernel_log").unwrap();
        assert_eq!(line["found"], found["found by ".len()..]);
        // The banner of the wrapped one is overwritten, and the panic's report has the release.
        let release = match recorded.name {
            "6.1" => "6.1.0-56-cloud-amd64",
            "6.1-arm64" => "6.1.0-56-cloud-arm64",
            _ => "6.12.117+deb12-cloud-amd64",
        };
        assert_eq!(line["release"], release);
        assert!(line["build_id"].is_null() && line["kernel_offset"].is_null());
    }
}

#[test]
fn the_size_of_a_records_data_is_solved() {
    for size in [88, 96, 112, 256] {
        let mut log = made(300);
        log.info_size = size;
        let (solved, messages) = by_structure(&open(&log));
        assert_eq!(solved, size);
        let texts: Vec<_> = messages
            .iter()
            .map(|it| (it.sequence, it.text.clone()))
            .collect();
        assert_eq!(texts, log.wanted());
        // The place of the names is known for Linux's sizes.
        let subsystem = [88, 112].contains(&size).then_some("pci");
        assert!(
            messages
                .iter()
                .all(|it| it.subsystem.as_deref() == subsystem)
        );
    }
}

#[test]
fn a_ring_that_replaced_another_has_its_first_records() {
    const IMAGE: u64 = 0xffff_ffff_8000_0000;
    let mut larger = MadeLog::new(8, 14);
    (0..300).for_each(|nth| larger.add(format!("record {nth}").as_bytes(), MadeState::Finalized));
    let early = made(100).place((IMAGE, 0x20_0000), (IMAGE + 0x30_0000, 0x30_0000), 0);
    let direct = (0xffff_8880_0050_0000, 0x50_0000);
    let objects = [early, larger.place((IMAGE, 0x40_0000), direct, 0)].concat();
    let mut memory = vec![0; 6 << 20];
    for (at, bytes) in objects {
        memory[at as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
    destroy(&mut memory);
    // Linux has one pointer to its ring, in the image of the early one.
    memory[0x40_3000..][..8].fill(0);
    let of = |memory: &[u8]| logs(&Memory::from_bytes(memory.to_vec()).unwrap());
    assert_eq!(of(&memory).len(), 2);
    let prb = (IMAGE + 0x40_3100).to_le_bytes();
    memory[0x20_3000..][..8].copy_from_slice(&prb);
    let logs = of(&memory);
    assert_eq!(logs.len(), 1);
    let sequences: Vec<_> = logs[0].1.iter().map(|it| it.sequence).collect();
    assert!(sequences.into_iter().eq(0..300));
}

#[test]
fn fewer_than_eight_records_are_no_evidence() {
    assert!(logs(&open(&made(7))).is_empty());
    assert_eq!(by_structure(&open(&made(8))).1.len(), 8);
    assert_eq!(by_structure(&open(&made(9))).1.len(), 9);
    // Texts are needed, and most must be of their records.
    let mut empty = MadeLog::new(7, 12);
    (0..100).for_each(|_| empty.add(b"", MadeState::Empty));
    assert!(logs(&open(&empty)).is_empty());
    let mut contradicted = made(100);
    (0..50).for_each(|nth| contradicted.overwrite_block(nth));
    assert!(logs(&open(&contradicted)).is_empty());
}

#[test]
fn a_log_with_vmcoreinfo_is_the_only_one_that_is_looked_for() {
    let mut bytes = unpack("6.1.lime.gz");
    destroy(&mut bytes);
    let both = [bytes, made(100).lime()].concat();
    let logs = logs(&Memory::from_bytes(both).unwrap());
    let sources: Vec<_> = logs.iter().map(|(source, _)| *source).collect();
    assert!(
        matches!(sources[..], [InfoSource::Memory(_)]),
        "{sources:?}"
    );
}

/// Returns a header with arrays at this distance, and a number that makes it differ from others.
fn header(arrays: u64, number: u64) -> [u64; 11] {
    let (count_bits, direct) = (17, 0xffff_8880_0000_0000);
    let tail = (1 << 32) - (1 << count_bits);
    let head = tail + 100 + number % 1000;
    [
        count_bits,
        direct + arrays,
        direct + arrays,
        head,
        tail,
        0,
        22,
        direct,
        64,
        0,
        0,
    ]
}

#[test]
fn memory_full_of_headers_has_no_log() {
    const SIZE: usize = 4 << 20;
    let all: [&dyn Fn(u64) -> [u64; 11]; 3] = [
        &|_| header(0, 0),
        &|number| header(number * 4096 + number % 512 * 8, number),
        // Its arrays are the header.
        &|number| header(number * 88, number),
    ];
    for header in all {
        let words = (0..SIZE as u64 / 88).flat_map(header);
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        assert!(logs(&Memory::from_bytes(bytes).unwrap()).is_empty());
    }
    // Each word is the ID of the descriptor that is searched for.
    let ids = std::iter::repeat_n((1_u64 << 32) - (1 << 17) + 47, SIZE / 8);
    let words = header(0, 0).into_iter().chain(ids);
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    assert!(logs(&Memory::from_bytes(bytes).unwrap()).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damage_is_not_shown_as_genuine(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0_u32..8), 0..400),
        is_raw in any::<bool>(),
    ) {
        let log = made(100);
        let mut bytes = log.lime();
        destroy(&mut bytes);
        if is_raw {
            bytes.drain(..32);
        }
        for (at, bit) in flips {
            let at = 32 + at.index(bytes.len() - 32);
            bytes[at] ^= 1 << bit;
        }
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        for (_, messages) in logs(&Memory::open(file.path()).unwrap()) {
            prop_assert!(messages.iter().all(|it| it.sequence < 100));
        }
    }
}
