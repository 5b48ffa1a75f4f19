//! Reading: parity checked, signatures searched, whole dumps.

#[cfg(feature = "std")]
use crate::record::noise;
use crate::record::{IP, PARENT};
use nostall_bench::{Effort, Limit, Table, Unit};
use nostall_pstore::{
    Code, Division, Ecc, Kind, LinuxVersion, OwnCounter, Place, Ram, Reader, Recorder, Zone,
};
use std::hint::black_box;

static CODE: Code = Code::new(16).unwrap();

pub fn tables(effort: Effort) {
    check(effort);
    #[cfg(feature = "std")]
    {
        search(effort);
        dumps(effort);
    }
}

fn check(effort: Effort) {
    const SIZE: usize = 1 << 20;
    let mut memory = vec![0; SIZE];
    let division = Division::new(SIZE, CODE.parity()).unwrap();
    let code = Some(&CODE);
    let zone = Zone::attach(Ram::of(&mut memory), Kind::Ftrace, LinuxVersion(0), code);
    let mut recorder = Recorder::new(zone.unwrap().0, 0, OwnCounter::new());
    for record in 0..division.data() as u64 / 24 + 1 {
        recorder.record(IP ^ record << 4, PARENT);
    }
    let place = Place {
        kind: Kind::Ftrace,
        index: 0,
        offset: 0,
        division,
    };
    let title = "A zone of 1 MiB with 16 bytes of error correction a block, all clean";
    let mut table = Table::new(title, Unit::MegabytesPerSecond(division.data()));
    let clean = Ecc {
        blocks: division.blocks() + 1,
        ..Ecc::default()
    };
    let memory = &memory[..];
    table.row(
        "PreviousBootZone::ecc: every block checked",
        Limit::AtLeast(300.0),
        |n| {
            for _ in 0..n {
                let mut zone = Reader::careful(code).open(black_box(memory), place);
                assert_eq!(zone.ecc(), Some(clean));
            }
        },
    );
    table.print(effort);
}

/// Memory without a region in it: nothing, noise, or a log without end that is full
/// of what a signature starts or ends with.
#[cfg(feature = "std")]
fn search(effort: Effort) {
    use nostall_pstore::detect::detect;

    let len = if effort.is_test() { 1 << 20 } else { 256 << 20 };
    let log = b"[    1.234567] CONFIG_CGROUPS: Command line: COLD CACHE DBGC CALL\n";
    let dumps = [
        // Copied, for memory of its own: a page that was never written is the
        // system's one page of zeros, and stays in the cache.
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
        table.print(effort.rounds(11));
    }
}

/// From the file to the geometry.
#[cfg(feature = "std")]
fn dumps(effort: Effort) {
    use nostall_pstore::image::Image;
    use std::io::{Seek, SeekFrom, Write};

    let region = include_bytes!("../../tests/fixtures/ecc16/image.bin");
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

    let mut table = Table::new("From Image::open to the region's geometry", Unit::Seconds);
    let mut row = |name: String, path| {
        table.row(name, None, move |n| {
            for _ in 0..n {
                let image = Image::open(&path).unwrap();
                let found = image.detect().found;
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
