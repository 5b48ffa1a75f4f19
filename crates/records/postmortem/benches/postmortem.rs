//! The speed of searching memory dumps: `cargo bench -p nostall-postmortem`.
//!
//! Without `--bench`, which cargo passes, each row runs once and briefly.

use std::hint::black_box;
use std::io::{Seek, SeekFrom, Write};

use nostall_bench::{Effort, Limit, Table, Unit};
use nostall_postmortem::detect::detect;
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::memory::Memory;

fn main() {
    nostall_bench::main(&[("search", search), ("dumps", dumps)]);
}

/// Measures memory without a region: zeros, noise, or an endless log full of first and last bytes of
/// signatures.
fn search(effort: Effort) {
    let len = if effort.is_test() { 1 << 20 } else { 256 << 20 };
    let log = b"[    1.234567] CONFIG_CGROUPS: Command line: COLD CACHE DBGC CALL\n";
    let dumps = [
        // The copy has pages of its own. Pages that were never written all map the system's one
        // page of zeros, which stays in the cache.
        ("zeros", black_box(&vec![0; len]).to_vec()),
        ("noise", noise(len)),
        ("a log", log.iter().copied().cycle().take(len).collect()),
    ];
    for (name, dump) in &dumps {
        let title = format!("{} MiB of {name} searched for regions", len >> 20);
        let mut table = Table::new(title, Unit::MegabytesPerSecond(len));
        table.row("a plain loop that adds its words", None, |n| {
            for _ in 0..n {
                let (words, _) = black_box(dump).as_chunks();
                let add = |sum: u64, word: &[u8; 8]| sum.wrapping_add(u64::from_ne_bytes(*word));
                black_box(words.iter().fold(0, add));
            }
        });
        table.row("detect", Limit::RatioAtLeast(0.5), |n| {
            for _ in 0..n {
                black_box(detect(black_box(dump)));
            }
        });
        let memory = Memory::from_bytes(dump.clone()).unwrap();
        table.row(
            "Discovery: all kinds, one pass",
            Limit::RatioAtLeast(0.5),
            move |n| {
                for _ in 0..n {
                    black_box(Discovery::new(black_box(&memory)));
                }
            },
        );
        table.print(effort.rounds(11));
    }
}

/// Measures the detection of a region in a file.
fn dumps(effort: Effort) {
    let region = include_bytes!("../../../drivers/pstore/tests/fixtures/ecc16/image.bin");
    let folder = tempfile::tempdir().unwrap();
    let (sparse, full) = (folder.path().join("sparse"), folder.path().join("full"));
    const SPARSE: u64 = 4 << 30;
    let mut file = std::fs::File::create(&sparse).unwrap();
    file.set_len(SPARSE).unwrap();
    file.seek(SeekFrom::Start(SPARSE - (1 << 20))).unwrap();
    file.write_all(region).unwrap();

    let mut bytes = noise(if effort.is_test() { 1 << 20 } else { 1 << 30 });
    let end = bytes.len();
    bytes[end - region.len()..].copy_from_slice(region);
    std::fs::write(&full, bytes).unwrap();

    let mut table = Table::new("From Memory::open to the region's geometry", Unit::Seconds);
    let mut row = |name: String, path| {
        table.row(name, None, move |n| {
            for _ in 0..n {
                let image = Memory::open(&path).unwrap();
                let found = Discovery::new(&image).detection.found;
                assert_eq!(found[0].params.ecc, 16);
            }
        });
    };
    row("4 GiB, sparse, the region near the end".into(), sparse);
    row(
        format!(
            "{} MiB of noise in the page cache, the region at the end",
            end >> 20
        ),
        full,
    );
    table.print(effort.rounds(5));
}

/// Returns bytes that look random, and are the same in every run.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..len / 8).flat_map(next).collect()
}
