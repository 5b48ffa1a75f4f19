//! The files that Linux finds in persistent memory.
//!
//! The kernel is Debian 12's for clouds (`linux-image-cloud-amd64`, 6.1). Of pstore it has
//!
//! - the core, built in, with deflate as the only compression: a dmesg record compressed with
//!   lz4 or zstd is shown unchanged, as `dmesg-ramoops-0.enc.z`;
//! - ramoops, a module; it needs only `reed_solomon`, even without ECC;
//! - no front end for the console, user messages or the function tracer (`PSTORE_CONSOLE`,
//!   `PSTORE_PMSG`, `PSTORE_FTRACE`). It never writes those zones, but reserves them. It shows
//!   the first two. A trace is shown only by a kernel with `PSTORE_FTRACE`.

mod common;
#[path = "common/linux.rs"]
mod linux;

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use linux::{Found, Geometry, Linux, Region, linux};
use nostall_pstore::Division;

/// The line that Linux appends where there is parity.
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

/// Returns the geometry in a recording's `params.txt`: `smp=2 ramoops.ecc=1`, and so on.
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

/// Checks the test's own set-up: this Linux finds the files that another Linux found.
#[test]
fn linux_finds_what_linux_wrote() {
    let Some(linux) = linux("linux_finds_what_linux_wrote") else {
        return;
    };
    // All are from guests with two CPUs.
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

/// The texts that are written, and must be found.
#[derive(Clone)]
struct Text {
    dmesg: Vec<u8>,
    console: Vec<u8>,
    pmsg: Vec<u8>,
}

impl Text {
    /// Returns the files that Linux must show, each with a notice at its end.
    fn found(&self, notices: [&str; 3]) -> Found {
        let files = [
            ("dmesg-ramoops-0", &self.dmesg),
            ("console-ramoops-0", &self.console),
            ("pmsg-ramoops-0", &self.pmsg),
        ];
        let with_notice = files
            .into_iter()
            .zip(notices)
            .map(|((name, text), notice)| {
                let content = [text, notice.as_bytes()].concat();
                (name.to_owned(), content)
            });
        with_notice.collect()
    }
}

const CPUS: u32 = 2;

const fn divided(ecc: u32) -> Geometry {
    Geometry {
        record_size: 32 << 10,
        console_size: 16 << 10,
        ftrace_size: 16 << 10,
        pmsg_size: 4 << 10,
        ecc,
    }
}

/// Returns the image that `nostall pstore inject` makes of such files, or adds them to.
fn inject(
    files: &[(&str, &[u8])],
    into: Option<&[u8]>,
    compress: &str,
    geometry: &Geometry,
) -> Vec<u8> {
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
        ("--cpus", CPUS),
    ] {
        command.arg(option).arg(number.to_string());
    }
    for (option, content) in into
        .iter()
        .map(|image| ("--into", *image))
        .chain(files.iter().copied())
    {
        let file = folder.path().join(option);
        fs::write(&file, content).unwrap();
        command.arg(option).arg(file);
    }
    command.args(["--compression", compress]).assert().success();
    fs::read(image).unwrap()
}

fn inject_all(text: &Text, compress: &str, geometry: Geometry) -> Region {
    let files = [
        ("--dmesg", &*text.dmesg),
        ("--console", &*text.console),
        ("--pmsg", &*text.pmsg),
    ];
    let image = inject(&files, None, compress, &geometry);
    Region { image, geometry }
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
    let text = Text {
        dmesg: [b"Panic#1 Part1\n", &BOOT_LOG[..20_000]].concat(),
        console: BOOT_LOG[..10_000].to_vec(),
        pmsg: (0..=255).cycle().take(3_000).collect(),
    };
    let (mut regions, mut expected) = (Vec::new(), Vec::new());
    let mut expect = |region: Region, found: Found| {
        regions.push(region);
        expected.push(found);
    };
    // 16 is the usual number. The others give other remainders.
    for (ecc, notice) in [(0, ""), (5, CLEAN), (16, CLEAN), (32, CLEAN)] {
        for compress in ["none", "deflate"] {
            let region = inject_all(&text, compress, divided(ecc));
            expect(region, text.found([notice; 3]));
        }
    }

    let mut damaged = inject_all(&text, "deflate", divided(16));
    damage(&mut damaged.image, &text.pmsg);
    expect(damaged, text.found([CLEAN, CLEAN, REPAIRED]));

    for (ecc, notice) in [(0, ""), (16, CLEAN)] {
        let wrapped = Text {
            console: BOOT_LOG.repeat(2),
            ..text.clone()
        };
        let geometry = divided(ecc);
        let zone = Division::new(geometry.console_size as usize, ecc as usize).unwrap();
        let kept = Text {
            console: wrapped.console[wrapped.console.len() - zone.data()..].to_vec(),
            ..text.clone()
        };
        let region = inject_all(&wrapped, "none", geometry);
        expect(region, kept.found([notice; 3]));

        let (first, second) = (&BOOT_LOG[..5_000], &BOOT_LOG[..22_000]);
        let image = inject(&[("--dmesg", first)], None, "none", &geometry);
        let image = inject(&[("--dmesg", second)], Some(&image), "deflate", &geometry);
        let record = |log: &[u8]| [b"Panic#1 Part1\n", log, notice.as_bytes()].concat();
        let found = [
            ("dmesg-ramoops-0".to_owned(), record(first)),
            ("dmesg-ramoops-1".to_owned(), record(second)),
        ];
        expect(Region { image, geometry }, Found::from(found));
    }

    let found = read(&linux, CPUS, &regions);
    for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let names = || found.keys().collect::<Vec<_>>();
        assert!(
            found.keys().eq(expected.keys()),
            "region {number}: {:?}",
            names()
        );
        for (name, content) in found {
            let same = content == &expected[name];
            assert!(same, "region {number}, {name}: {}", content.escape_ascii());
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
