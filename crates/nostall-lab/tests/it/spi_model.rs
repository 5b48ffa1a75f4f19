//! The SPI experiment on models and threads: faulty flash chips, cards and file systems, and
//! file systems from other tools.

use std::env;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::Command;

use nostall_devices::spi::{CardFault, FlashFault};
use nostall_lab::experiments::spi::model::{Broken, run as model};
use nostall_lab::experiments::spi::run::{Image, SpiPlan, SpiReports};
use nostall_work::spi::{Fat, Job, Strategy as Driven};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

const SOME_FRAMES: SpiPlan = SpiPlan {
    frames: 500,
    rounds: 1,
};

const NO_FRAMES: SpiPlan = SpiPlan {
    frames: 1,
    rounds: 0,
};

/// Returns the fault that the experiment reports, if any.
fn fault(reports: &SpiReports) -> Option<&str> {
    assert!(reports.faults.len() <= 1, "{:?}", reports.faults);
    reports.faults.first().map(|(_, what)| what.as_str())
}

/// Returns an image with these files, made with dosfstools and mtools. Without those it prints
/// that the test is skipped, and returns nothing.
fn image(mebibytes: u64, options: &[&str], files: &[(&str, &[u8])]) -> Option<NamedTempFile> {
    let image = NamedTempFile::new().unwrap();
    image.as_file().set_len(mebibytes << 20).unwrap();
    let path = image.path().to_str().unwrap();
    let run = |program: &str, args: &[&str]| {
        let search = format!("{}:/usr/sbin:/sbin", env::var("PATH").unwrap_or_default());
        let ran = Command::new(program)
            .args(args)
            .env("PATH", search)
            .output();
        match ran {
            Ok(output) => {
                assert!(output.status.success(), "{program} {args:?}: {output:?}");
                Some(())
            }
            Err(_) => {
                // The test harness captures the output of std's macros, so they are not used
                // here.
                let _ = writeln!(std::io::stderr(), "SKIPPED: there is no {program}");
                None
            }
        }
    };
    run("mkfs.fat", &[options, &[path]].concat())?;
    for (name, content) in files {
        let file = NamedTempFile::new().unwrap();
        std::fs::write(&file, content).unwrap();
        let from = file.path().to_str().unwrap();
        run("mcopy", &["-i", path, from, &format!("::{name}")])?;
    }
    Some(image)
}

fn read(image: &NamedTempFile, broken: Broken) -> SpiReports {
    let image = Image::new(File::open(image.path()).unwrap()).unwrap();
    model(image, &NO_FRAMES, broken)
}

#[test]
fn the_worker_is_woken_once_and_never_runs_a_message() {
    // The card is empty, and the rest of the experiment continues.
    let reports = model(vec![0; 1 << 20], &SOME_FRAMES, Broken::default());
    let [pump, caller] = &reports.measured[..] else {
        panic!("{reports:?}")
    };
    assert_eq!(
        (pump.strategy, caller.strategy),
        (Driven::Pump, Driven::Caller)
    );
    for measured in [pump, caller] {
        assert_eq!(
            (measured.received, measured.wrong, measured.overflows),
            (500, 0, 0)
        );
        assert_eq!((measured.submitted, measured.sent), (50, 50));
        assert_eq!(measured.sync, 4 + 3 * 500);
        assert_eq!((measured.asynchronous, measured.errors), (100, 0));
        assert_eq!(measured.messages, 4 + 3 * 500 + 100);
        assert_eq!(measured.teardowns, measured.preparations);
    }
    assert_eq!(caller.by_worker, 0);
    if caller.pauses == 0 {
        assert_eq!(
            (caller.wakeups_meanwhile, caller.wakeups, caller.teardowns),
            (0, 1, 1)
        );
    }
    assert!(pump.wakeups > 1, "{pump:?}");
    assert_eq!(reports.faults[0].0, Job::Card);
}

#[test]
fn a_flash_is_erased_and_written_and_nothing_else_in_it() {
    let reports = model(vec![0; 1 << 20], &NO_FRAMES, Broken::default());
    assert_eq!(reports.flash, Some([0x9d, 0x70, 0x19]));
    let (sector, inside) = (reports.sector.unwrap(), reports.in_flash.unwrap());
    assert_eq!(sector.not_erased, 0);
    assert_ne!(sector.before, sector.pattern);
    assert_eq!(sector.after, sector.pattern);
    assert_eq!((inside.before, inside.after), (sector.before, sector.after));
    assert!(sector.neighbours_kept && inside.rest_kept);
}

#[test]
fn a_broken_flash_is_reported() {
    let broken = |flash| {
        let flash = Some(flash);
        let broken = Broken {
            flash,
            ..Broken::default()
        };
        let mut reports = model(vec![0; 1 << 20], &NO_FRAMES, broken);
        reports.faults.retain(|(job, _)| *job == Job::Flash);
        reports
    };
    let stuck = broken(FlashFault::StuckBusy);
    assert_eq!(fault(&stuck), Some("flash: still busy after 2.0 s"));
    let protected = broken(FlashFault::Protected);
    let why = "flash: it does not enable writes (status 00)";
    assert_eq!(fault(&protected), Some(why));
    let weak = broken(FlashFault::WeakErase);
    assert_eq!(weak.sector.unwrap().not_erased, 1);
    let weak = broken(FlashFault::WeakProgram);
    let sector = weak.sector.unwrap();
    assert_ne!(sector.after, sector.pattern);
    assert_eq!(weak.in_flash.unwrap().after, sector.after);
}

#[test]
fn images_of_other_programs_are_read() {
    let long = format!("{}.long", "\u{4e16}\u{754c}".repeat(40));
    let large: Vec<u8> = (0..700_001_u32)
        .map(|n| (n.wrapping_mul(n) >> 7) as u8)
        .collect();
    let mut files = vec![
        ("short.txt", &b"short"[..]),
        ("a long name.with.dots", &large[..513]),
        (long.as_str(), b"its name is long"),
        ("empty", b""),
        ("cluster", &large[..4096]),
        ("LARGE.BIN", &large),
    ];
    let names: Vec<_> = (0..60)
        .map(|n| format!("one of many files, number {n}"))
        .collect();
    files.extend(names.iter().map(|name| (name.as_str(), name.as_bytes())));
    for (mebibytes, options, fat) in [
        (20, &["-F", "16", "-s", "8"][..], Fat::Fat16),
        (40, &["-F", "32", "-s", "1"], Fat::Fat32),
        (33, &["-F", "16", "-f", "1", "-r", "1024"], Fat::Fat16),
    ] {
        let Some(image) = image(mebibytes, options, &files) else {
            return;
        };
        let reports = read(&image, Broken::default());
        assert_eq!(fault(&reports), None);
        let volume = reports.volume.unwrap();
        assert_eq!((volume.partition, volume.fat), (None, fat));
        assert_eq!(reports.entries.len(), files.len());
        for (entry, (name, content)) in reports.entries.iter().zip(&files) {
            match &entry.long {
                Some(long) => assert_eq!(long, name),
                None => assert!(entry.short.eq_ignore_ascii_case(name), "{entry:?}"),
            }
            assert_eq!(entry.size as usize, content.len());
            let expected: [u8; 32] = Sha256::digest(content).into();
            assert_eq!(entry.sha256, Some(expected), "{name}");
        }
        let read = reports.read.unwrap();
        assert_eq!((read.files as usize, read.directories), (files.len(), 0));
    }
}

#[test]
fn a_broken_card_is_reported() {
    let content = vec![1; 100_000];
    let Some(image) = image(16, &["-F", "16"], &[("FILE", &content)]) else {
        return;
    };
    let broken = |card| Broken {
        card: Some(card),
        ..Broken::default()
    };
    for (fault_is, after, why) in [
        (CardFault::BadCrc, 0, "card: CRC mismatch"),
        (CardFault::BadCrc, 1, "CRC mismatch"),
        (CardFault::Unreadable, 30, "read error"),
        (
            CardFault::Silent,
            0,
            "card: there is none, or it does not answer",
        ),
        (CardFault::Silent, 30, "timeout"),
        (CardFault::NeverReady, 0, "timeout"),
    ] {
        let reports = read(&image, broken((fault_is, after)));
        let told = fault(&reports).unwrap();
        assert!(
            told.starts_with("card: ") && told.contains(why),
            "{fault_is:?}: {told}"
        );
        assert_eq!(reports.read, None);
    }
    let absent = Broken {
        card_absent: true,
        ..Broken::default()
    };
    let reports = read(&image, absent);
    let why = "card: there is none, or it does not answer";
    assert_eq!(fault(&reports), Some(why));
    assert!(reports.flash.is_some());
}

/// Returns the outcome for a copy of `image` with other bytes at `at`.
fn changed(image: &NamedTempFile, at: u64, bytes: &[u8]) -> SpiReports {
    let copy = NamedTempFile::new().unwrap();
    std::fs::copy(image.path(), copy.path()).unwrap();
    copy.as_file().write_all_at(bytes, at).unwrap();
    read(&copy, Broken::default())
}

#[test]
fn a_missing_or_damaged_file_system_is_reported() {
    let content = vec![1; 10_000];
    let Some(fat16) = image(16, &["-F", "16", "-s", "4"], &[("FILE", &content)]) else {
        return;
    };
    let Some(fat12) = image(4, &["-F", "12"], &[]) else {
        return;
    };
    let is = |reports: &SpiReports, why: &str| assert_eq!(fault(reports), Some(why));
    is(
        &read(&fat12, Broken::default()),
        "card: FAT12: only FAT16 and FAT32 are supported",
    );
    for (at, bytes, why) in [
        (
            510,
            &[0, 0][..],
            "no file system on it: neither a partition table nor a FAT16 or FAT32",
        ),
        (3, b"EXFAT   ", "exFAT: only FAT16 and FAT32 are supported"),
        (
            11,
            &[0, 8],
            "a FAT with sectors of 2048 bytes: only 512 are supported",
        ),
        (
            19,
            &[0xff, 0xff],
            "the file system is damaged: it is larger than its partition or the card",
        ),
        (
            22,
            &[1, 0],
            "the file system is damaged: its table is too small for its clusters",
        ),
        (
            22,
            &[0xff, 0xff],
            "the file system is damaged: it has no room for data",
        ),
    ] {
        is(&changed(&fat16, at, bytes), &format!("card: {why}"));
    }
    // A partition table and its entry.
    let mut table = [0; 512];
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    is(
        &changed(&fat16, 0, &table),
        "card: its partition table is empty",
    );
    table[450] = 0xee;
    let why = "card: a GUID partition table: only an MBR, or none, is supported";
    is(&changed(&fat16, 0, &table), why);
    table[450] = 0x83;
    let why = "card: no partition with a FAT16 or FAT32; the first is of type 0x83";
    is(&changed(&fat16, 0, &table), why);
    table[450] = 0x06;
    let why = "card: the file system is damaged: a partition is not on the card";
    is(&changed(&fat16, 0, &table), why);
    table[454] = 1;
    let why = "card: the file system is damaged: it is larger than its partition or the card";
    is(
        &changed(&fat16, 0, &table),
        "card: the file system is damaged: a partition does not start like a FAT",
    );
    let _ = why;
    // The first file's second cluster (after 4 reserved blocks; entry 3) is invalid.
    let fat = 4 * 512;
    let told = changed(&fat16, fat + 6, &[0x00, 0xf0]);
    let told = fault(&told).unwrap();
    assert!(
        told.starts_with("card: the file system is damaged: a chain refers to"),
        "{told}"
    );
    // The file's chain of clusters ends too early.
    let told = changed(&fat16, fat + 6, &[0xff, 0xff]);
    assert!(
        fault(&told).is_some_and(|told| told.starts_with("card: ")),
        "{told:?}"
    );
}

#[test]
fn a_root_directory_without_an_end_is_reported() {
    let Some(fat32) = image(40, &["-F", "32", "-s", "1", "-R", "32"], &[]) else {
        return;
    };
    // The directory's one cluster, the second, is full of deleted files and is its own
    // successor.
    let mut first = [0; 512];
    fat32.as_file().read_exact_at(&mut first, 0).unwrap();
    let number = |at: usize| u64::from(u32::from_le_bytes([0, 1, 2, 3].map(|n| first[at + n])));
    let data = (32 + 2 * number(36)) * 512;
    let fat = 32 * 512;
    fat32.as_file().write_all_at(&[0xe5; 512], data).unwrap();
    fat32
        .as_file()
        .write_all_at(&2_u32.to_le_bytes(), fat + 8)
        .unwrap();
    let reports = read(&fat32, Broken::default());
    let why = "card: the file system is damaged: the root directory never ends";
    assert_eq!(fault(&reports), Some(why));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A panic of the file system's crate is a fault, which is reported.
    #[test]
    fn any_damage_is_reported_in_bounded_time(
        patches in prop::collection::vec((0..80_000_u64, any::<u8>()), 1..40),
    ) {
        let content = vec![1; 10_000];
        let Some(image) = image(17, &["-F", "16", "-s", "4"], &[("FILE", &content)]) else {
            return Ok(());
        };
        for (at, byte) in patches {
            image.as_file().write_all_at(&[byte], at).unwrap();
        }
        let reports = read(&image, Broken::default());
        let card: Vec<_> = reports.faults.iter().filter(|(job, _)| *job == Job::Card).collect();
        prop_assert_eq!(card.is_empty(), reports.read.is_some());
    }
}
