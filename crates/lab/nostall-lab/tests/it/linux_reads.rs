//! The files that Linux finds in persistent memory.
//!
//! The kernel is Debian 12's for clouds (`linux-image-cloud-amd64`, 6.1). It has these parts of
//! pstore:
//!
//! - the core, built in, with deflate as the only compression: a dmesg record compressed with
//!   lz4 or zstd is shown unchanged, as `dmesg-ramoops-0.enc.z`;
//! - ramoops, a module; it needs only `reed_solomon`, even without ECC;
//! - no front end for the console, user messages or the function tracer (`PSTORE_CONSOLE`,
//!   `PSTORE_PMSG`, `PSTORE_FTRACE`). It never writes those zones, but reserves them. It shows
//!   the first two.
//!
//! A trace is shown only by a kernel with `PSTORE_FTRACE`: Linux 6.12, built by `make linux-peer`.

use crate::common::linux;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use assert_cmd::Command;
use linux::{Found, Geometry, Linux, Region, linux, linux_with_traces};
use nostall_pstore::{
    Code, Division, Layout, LinuxVersion, Params, Ram, RecordFormat, Recorder, Zone, ZoneKind,
    ZoneOrder,
};

/// The line that Linux appends where there is parity.
const CLEAN: &str = "\nECC: No errors detected\n";
const REPAIRED: &str = "\nECC: 1 Corrected bytes, 0 unrecoverable blocks\n";

const BOOT_LOG: &[u8] = include_bytes!("../../fixtures/console/linux-boot.log");

fn recording(name: &str) -> PathBuf {
    let fixtures = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../drivers/pstore/tests/fixtures"
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
    inject_for("6.1.0", files, into, compress, geometry)
}

/// Does the same for traces that a Linux of this version will read.
fn inject_for(
    version: &str,
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
    command.args(["--linux-version", version]);
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

/// Message of user space.
const PMSG: &[u8] = b"a service: it is started\n";

/// Returns a region with user space's messages and a function trace of each CPU, written by nostall-pstore's recorder for a
/// Linux of this version. CPU 0 wraps its zone. Each third record is of CPU 1.
fn recorded(version: LinuxVersion, functions: &[u64], geometry: Geometry) -> Region {
    let size = 256 << 10;
    let number = |number: u32| number as usize;
    let layout = Layout::new(&Params {
        record_size: number(geometry.record_size),
        console_size: number(geometry.console_size),
        ftrace_size: number(geometry.ftrace_size),
        pmsg_size: number(geometry.pmsg_size),
        ecc: number(geometry.ecc),
        zone_order: ZoneOrder::of(version),
        ..Params::command_line(size, number(CPUS))
    });
    let layout = layout.unwrap();
    let code = Code::new(number(geometry.ecc));
    let mut image = vec![0; size];
    let ticks = AtomicU64::new(1_000_000_000);
    let mut recorders = Vec::new();
    for (place, memory) in layout.split(Ram::of(&mut image)) {
        let (mut zone, _) = Zone::attach(memory, place.kind, version, code.as_ref()).unwrap();
        if place.kind == ZoneKind::Pmsg {
            zone.append_text(PMSG);
        }
        if place.kind == ZoneKind::Ftrace {
            let stamp = || ticks.fetch_add(17, Ordering::Relaxed);
            let format = RecordFormat::Bits64;
            let recorder = Recorder::with_record_format(zone, place.index as u8, stamp, format);
            recorders.push(recorder);
        }
    }
    for (number, function) in functions.iter().cycle().take(1_000).enumerate() {
        let cpu = usize::from(number % 3 == 2);
        recorders[cpu].record(*function, functions[number % 7] + 5);
    }
    Region { image, geometry }
}

/// How a region's division is known.
#[derive(Clone, Copy, Debug)]
enum Known {
    GivenOption,
    Detected,
}

/// Returns the merged trace as `nostall postmortem` writes it for Linux.
fn our_trace(region: &Region, linux: &Linux, division: Known) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    fs::write(&image, &region.image).unwrap();
    let mut command = Command::cargo_bin("nostall").unwrap();
    command.arg("postmortem").arg(&image);
    let sizes = [
        ("--record-size", region.geometry.record_size),
        ("--console-size", region.geometry.console_size),
        ("--ftrace-size", region.geometry.ftrace_size),
        ("--pmsg-size", region.geometry.pmsg_size),
        ("--ecc", region.geometry.ecc),
        ("--cpus", CPUS),
    ];
    for (option, number) in sizes {
        if let Known::GivenOption = division {
            command.arg(option).arg(number.to_string());
        }
    }
    command.args(["--kaslr-offset", "0"]);
    command.arg("--symbols").arg(linux.file("System.map"));
    command.args(["--format", "linux", "--out"]);
    command.arg(folder.path().join("out")).assert().success();
    fs::read(folder.path().join("out/ftrace-ramoops-0")).unwrap()
}

#[test]
fn linux_shows_the_trace_that_we_wrote_as_we_show_it() {
    let Some(linux) = linux_with_traces("linux_shows_the_trace_that_we_wrote_as_we_show_it") else {
        return;
    };
    let release = fs::read_to_string(linux.file("release")).unwrap();
    let mut numbers = release.trim().split(['.', '-']).map(|n| n.parse().unwrap());
    let mut number = || -> u16 { numbers.next().unwrap() };
    let version = LinuxVersion::new(number() as u8, number() as u8, number());

    // Functions that the reading kernel names: it is the one that is linked so (`nokaslr`).
    let map = fs::read_to_string(linux.file("System.map")).unwrap();
    let functions: Vec<u64> = map
        .lines()
        .filter_map(|line| {
            let (address, rest) = line.split_once(' ')?;
            let name = rest.strip_prefix("T ")?;
            let is_wanted = name.starts_with("vfs_") || name.starts_with("tty_");
            is_wanted.then(|| u64::from_str_radix(address, 16).unwrap())
        })
        .collect();
    assert!(functions.len() > 50, "{}", functions.len());

    let mut regions: Vec<_> = [0, 5, 16]
        .into_iter()
        .map(|ecc| recorded(version, &functions, divided(ecc)))
        .collect();
    let lines = our_trace(&regions[0], &linux, Known::GivenOption);
    for ecc in [0, 16] {
        let version = version.to_string();
        let image = inject_for(
            &version,
            &[("--ftrace", &lines), ("--pmsg", PMSG)],
            None,
            "none",
            &divided(ecc),
        );
        let geometry = divided(ecc);
        regions.push(Region { image, geometry });
    }

    let found = read(&linux, CPUS, &regions);
    for (number, (found, region)) in found.iter().zip(&regions).enumerate() {
        let names: Vec<_> = found.keys().map(String::as_str).collect();
        let expected = ["ftrace-ramoops-0", "pmsg-ramoops-0"];
        assert_eq!(names, expected, "region {number}");
        assert!(found["pmsg-ramoops-0"].starts_with(PMSG), "region {number}");
        let theirs = &found["ftrace-ramoops-0"];
        let ours = our_trace(region, &linux, Known::GivenOption);
        let detected = our_trace(region, &linux, Known::Detected);
        assert!(ours == detected, "region {number}");
        let count = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
        assert!(count(theirs) > 600, "region {number}: {}", count(theirs));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (theirs, ours) = (text(theirs), text(&ours));
        let differs = theirs.lines().zip(ours.lines()).find(|(a, b)| a != b);
        assert_eq!(differs, None, "region {number}");
        assert_eq!(theirs.len(), ours.len(), "region {number}");
        if region.geometry.ecc == 0 {
            assert!(ours.contains(" vfs_read <- "), "region {number}: {ours}");
        }
    }
}
