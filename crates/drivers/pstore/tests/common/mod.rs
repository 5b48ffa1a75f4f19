//! Recordings of real Linux kernels, with the files that Linux itself read from them.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use nostall_pstore::{
    Code, Division, FTRACE_PER_CPU, Layout, LinuxVersion, Params, Place, PreviousBootZone, Reader,
    RecordFormat, Writer, ZoneKind, ZoneOrder,
};

/// The names of all recordings.
pub const FIXTURES: [&str; 9] = [
    "plain",
    "ecc16",
    "zstd",
    "lz4",
    "nocompress",
    "armv7",
    "armv7-ecc",
    "wrap",
    "linux-6.12",
];

/// A recording.
pub struct Fixture {
    pub name: &'static str,
    pub image: Vec<u8>,
    pub layout: Layout,
    pub record_format: RecordFormat,
    /// Linux's files by their names.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Fixture {
    pub fn load(name: &'static str) -> Self {
        // Tests of nostall-postmortem also use this file.
        let fixtures = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../drivers/pstore/tests/fixtures"
        );
        let path = PathBuf::from(fixtures).join(name);
        let given = fs::read_to_string(path.join("params.txt")).unwrap();
        let number = |name: &str| {
            let mut words = given.split_whitespace().filter_map(|w| w.split_once('='));
            let (_, value) = words.find(|(key, _)| *key == name)?;
            let hex = value.strip_prefix("0x");
            Some(hex.map_or_else(
                || value.parse().unwrap(),
                |hex| usize::from_str_radix(hex, 16).unwrap(),
            ))
        };
        // Recordings without a version are from Linux 6.1.
        let version = match given
            .split_whitespace()
            .find_map(|w| w.strip_prefix("linux="))
        {
            Some("6.12") => LinuxVersion::new(6, 12, 0),
            Some(other) => panic!("{other}"),
            None => LinuxVersion::new(6, 1, 0),
        };
        let layout = Layout::new(&Params {
            mem_size: number("mem_size").unwrap(),
            record_size: number("ramoops.record_size").unwrap(),
            console_size: number("ramoops.console_size").unwrap(),
            ftrace_size: number("ramoops.ftrace_size").unwrap(),
            pmsg_size: number("ramoops.pmsg_size").unwrap(),
            ecc: Params::command_line_ecc(number("ramoops.ecc").unwrap()),
            cpus: number("smp").unwrap(),
            flags: FTRACE_PER_CPU,
            zone_order: ZoneOrder::of(version),
        });
        let files = fs::read_dir(path.join("pstore")).unwrap().map(|file| {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            (name, fs::read(file.path()).unwrap())
        });
        let arm = given.contains("arch=arm32");
        Self {
            name,
            image: fs::read(path.join("image.bin")).unwrap(),
            layout: layout.unwrap(),
            record_format: if arm {
                RecordFormat::Arm32
            } else {
                RecordFormat::Bits64
            },
            files: files.collect(),
        }
    }

    /// Returns every recording.
    pub fn all() -> impl Iterator<Item = Self> {
        FIXTURES.into_iter().map(Self::load)
    }
}

/// Returns bytes that are the same in every run of the tests.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(next).collect()
}

/// Opens the zone that fills `image` and was written with nostall.
pub fn open<'a>(
    image: &'a [u8],
    kind: ZoneKind,
    code: Option<&'a Code>,
) -> PreviousBootZone<'a, [u8]> {
    let division = Division::new(image.len(), code.map_or(0, Code::parity)).unwrap();
    let reader = Reader {
        writer: Writer::DataFirst,
        ..Reader::careful(code)
    };
    let place = Place {
        kind,
        index: 0,
        offset: 0,
        division,
    };
    reader.open(image, place)
}
