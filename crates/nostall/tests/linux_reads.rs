//! What Linux finds in persistent memory.
//!
//! The kernel is Debian 12's for clouds (`linux-image-cloud-amd64`, 6.1). Of
//! pstore it has
//!
//! - the core, built in, with deflate as the one compression: a dmesg record
//!   that lz4 or zstd has compressed is shown as it is, `dmesg-ramoops-0.enc.z`;
//! - ramoops, a module; it needs `reed_solomon`, also without ECC, and nothing
//!   else;
//! - no front end for the console, user messages or the function tracer
//!   (`PSTORE_CONSOLE`, `PSTORE_PMSG`, `PSTORE_FTRACE`). It never writes those
//!   zones, but lays them out; it shows the first two, and never a trace: that
//!   takes a kernel with `PSTORE_FTRACE`.

mod common;
#[path = "common/linux.rs"]
mod linux;

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use linux::{Found, Geometry, Linux, Region, linux};

/// What Linux appends where there is parity.
const CLEAN: &str = "\nECC: No errors detected\n";
const REPAIRED: &str = "\nECC: 1 Corrected bytes, 0 unrecoverable blocks\n";

const BOOT_LOG: &[u8] = include_bytes!("../fixtures/console/linux-boot.log");

fn recording(name: &str) -> PathBuf {
    let fixtures = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../nostall-pstore/tests/fixtures"
    );
    Path::new(fixtures).join(name)
}

/// What a recording's `params.txt` says: `smp=2 ramoops.ecc=1`, and so on.
fn geometry(params: &str) -> Geometry {
    let number = |key: &str| {
        let words = params.split_whitespace();
        let value = words
            .filter_map(|word| word.split_once('='))
            .find_map(|(k, value)| (k == key).then_some(value))
            .unwrap();
        match value.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).unwrap(),
            None => value.parse().unwrap(),
        }
    };
    Geometry {
        record_size: number("ramoops.record_size"),
        console_size: number("ramoops.console_size"),
        ftrace_size: number("ramoops.ftrace_size"),
        pmsg_size: number("ramoops.pmsg_size"),
        ecc: number("ramoops.ecc"),
    }
}

fn read(linux: &Linux, cpus: u32, regions: &[Region]) -> Vec<Found> {
    linux
        .read(cpus, regions)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The harness's own test: what another Linux once found, this one finds.
#[test]
fn linux_finds_what_linux_wrote() {
    let Some(linux) = linux("linux_finds_what_linux_wrote") else {
        return;
    };
    // All of guests with two CPUs.
    let recordings = ["plain", "ecc16", "nocompress"].map(recording);
    let regions = recordings.each_ref().map(|recording| Region {
        image: fs::read(recording.join("image.bin")).unwrap(),
        geometry: geometry(&fs::read_to_string(recording.join("params.txt")).unwrap()),
    });
    for (recording, found) in recordings.iter().zip(read(&linux, 2, &regions)) {
        let names: Vec<_> = found.keys().map(String::as_str).collect();
        let expected = ["console-ramoops-0", "dmesg-ramoops-0", "pmsg-ramoops-0"];
        assert_eq!(names, expected, "{recording:?}");
        for (name, content) in found {
            let expected = fs::read(recording.join("pstore").join(&name)).unwrap();
            assert!(content == expected, "{recording:?}: {name} differs");
        }
    }
}

/// What is written, and is to come back.
struct Text {
    dmesg: Vec<u8>,
    console: Vec<u8>,
    pmsg: Vec<u8>,
}

/// The image that `nostall pstore inject` makes of `text`.
fn inject(text: &Text, compress: &str, cpus: u32, geometry: &Geometry) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let mut command = Command::cargo_bin("nostall").unwrap();
    command.args(["pstore", "inject"]).arg("--out").arg(&image);
    for (option, number) in [
        ("--size", 256 << 10),
        ("--record-size", geometry.record_size),
        ("--console-size", geometry.console_size),
        ("--ftrace-size", geometry.ftrace_size),
        ("--pmsg-size", geometry.pmsg_size),
        ("--ecc", geometry.ecc),
        ("--cpus", cpus),
    ] {
        command.arg(option).arg(number.to_string());
    }
    for (option, content) in [
        ("--dmesg", &text.dmesg),
        ("--console", &text.console),
        ("--pmsg", &text.pmsg),
    ] {
        let file = folder.path().join(option);
        fs::write(&file, content).unwrap();
        command.arg(option).arg(file);
    }
    command.args(["--compress", compress]).assert().success();
    fs::read(image).unwrap()
}

/// Inverts one byte of the only copy of `text` in `image`.
fn damage(image: &mut [u8], text: &[u8]) {
    let start = image.windows(text.len()).position(|bytes| bytes == text);
    image[start.unwrap() + text.len() / 2] ^= 0xff;
}

#[test]
fn linux_finds_what_we_wrote() {
    let Some(linux) = linux("linux_finds_what_we_wrote") else {
        return;
    };
    let cpus = 2;
    let text = Text {
        dmesg: [b"Panic#1 Part1\n", &BOOT_LOG[..20_000]].concat(),
        console: BOOT_LOG[..10_000].to_vec(),
        pmsg: (0..=255).cycle().take(3_000).collect(),
    };
    let mut regions = Vec::new();
    // After dmesg, console and user messages.
    let mut notices = Vec::new();
    for (ecc, notice) in [(0, ""), (16, CLEAN)] {
        for compress in ["none", "deflate"] {
            let geometry = Geometry {
                record_size: 32 << 10,
                console_size: 16 << 10,
                ftrace_size: 16 << 10,
                pmsg_size: 4 << 10,
                ecc,
            };
            let image = inject(&text, compress, cpus, &geometry);
            regions.push(Region { image, geometry });
            notices.push([notice; 3]);
        }
    }
    let mut damaged = regions.last().unwrap().clone();
    damage(&mut damaged.image, &text.pmsg);
    regions.push(damaged);
    notices.push([CLEAN, CLEAN, REPAIRED]);

    let found = read(&linux, cpus, &regions);
    for (number, (mut found, notices)) in found.into_iter().zip(notices).enumerate() {
        let written = [
            ("dmesg-ramoops-0", &text.dmesg),
            ("console-ramoops-0", &text.console),
            ("pmsg-ramoops-0", &text.pmsg),
        ];
        for ((name, content), notice) in written.into_iter().zip(notices) {
            let read = found.remove(name).unwrap_or_default();
            let same = read.strip_suffix(notice.as_bytes()) == Some(content);
            assert!(same, "region {number}, {name}: {}", read.escape_ascii());
        }
        assert!(found.is_empty(), "region {number}: {:?}", found.keys());
    }
}

#[test]
fn a_linux_that_fails_is_quoted() {
    let Some(linux) = linux("a_linux_that_fails_is_quoted") else {
        return;
    };
    let no_zones = Region {
        image: vec![0; 4096],
        geometry: Geometry::default(),
    };
    let error = linux.read(1, &[no_zones]).unwrap_err();
    assert!(error.contains("without sending"), "{error}");
    assert!(error.contains("ramoops"), "{error}");
}
