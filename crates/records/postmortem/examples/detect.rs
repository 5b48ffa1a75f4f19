//! Searches files of raw memory for regions: `detect FILE...`. Without a file it measures the
//! speed of the search, and of a plain read for comparison.

use nostall_postmortem::detect::{FoundRegion, detect};
use std::time::Instant;

fn main() -> std::io::Result<()> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    for file in &files {
        let bytes = std::fs::read(file)?;
        for found in detect(&bytes).found {
            print(file, &found);
        }
    }
    if files.is_empty() {
        race();
    }
    Ok(())
}

fn print(file: &str, found: &FoundRegion) {
    println!(
        "{file}: {} at {:#x}: {:x?}",
        found.grade, found.start, found.params
    );
    for line in &found.why {
        println!("  {line}");
    }
    for line in &found.doubts {
        println!("  ? {line}");
    }
}

fn race() {
    let log =
        include_bytes!("../../../drivers/pstore/tests/fixtures/plain/pstore/console-ramoops-0");
    let worst = b"[    1.234567] CONFIG_CGROUPS: Command line: COLD CACHE DBGC CALL\n";
    let mut state = 1u64;
    let noise = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    const LEN: usize = 256 << 20;
    let dumps = [
        ("zeros", vec![0; LEN]),
        ("noise", (0..LEN / 8).flat_map(noise).collect()),
        ("log", log.iter().copied().cycle().take(LEN).collect()),
        ("worst", worst.iter().copied().cycle().take(LEN).collect()),
    ];
    for (name, dump) in &dumps {
        let mut best = [0f64; 2];
        for _ in 0..5 {
            // A plain read, as fast as the compiler makes it.
            let read = Instant::now();
            let (words, _) = dump.as_chunks::<8>();
            let sum = |sum: u64, word: &[u8; 8]| sum ^ u64::from_le_bytes(*word);
            std::hint::black_box(words.iter().fold(0, sum));
            let read = read.elapsed();
            let search = Instant::now();
            std::hint::black_box(detect(dump));
            let search = search.elapsed();
            for (best, time) in best.iter_mut().zip([read, search]) {
                *best = best.max(LEN as f64 / time.as_secs_f64() / 1e9);
            }
        }
        let [read, search] = best;
        println!("{name}: reading {read:.1} GB/s, detecting {search:.1} GB/s");
    }
}
