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

use linux::{Found, Geometry, Linux, Region, linux};

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
