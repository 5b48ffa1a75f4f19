//! The output of `nostall postmortem`: each record carries its trust level in every format. Scripts
//! can distinguish the outcomes, and memory does not grow with the records.

use std::fs;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use nostall_pstore::{
    BLOCK, ByteOrder, Code, FTRACE_PER_CPU, HEADER, Layout, LinuxVersion, Params, Ram,
    RecordFormat, SIGNATURE, TraceRecord, Zone, ZoneHeader, ZoneKind, ZoneOrder,
};
use proptest::prelude::*;
use serde_json::Value;

fn fixture(name: &str) -> Vec<u8> {
    let fixtures =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../drivers/pstore/tests/fixtures");
    fs::read(fixtures.join(name).join("image.bin")).unwrap()
}

/// A folder of images.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn decode(&self, args: &[&str]) -> Output {
        let mut command = self.command(args);
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(cargo_bin("nostall-postmortem"));
        command.current_dir(self.0.path());
        command.args(args).arg("--verbose");
        command
    }

    /// Returns the exit status and the lines of JSON.
    fn json(&self, args: &[&str]) -> (i32, Vec<Value>) {
        let output = self.decode(&[&["--format", "json", "-q"], args].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        (output.status.code().unwrap(), lines.collect())
    }

    fn text(&self, args: &[&str]) -> String {
        String::from_utf8(self.decode(args).stdout).unwrap()
    }
}

fn of<'a>(lines: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    lines.iter().filter(move |line| line["type"] == kind)
}

/// Options for a region with only a console.
const CONSOLE: [&str; 10] = [
    "--size",
    "64K",
    "--record-size",
    "0",
    "--console-size",
    "64K",
    "--ftrace-size",
    "0",
    "--pmsg-size",
    "0",
];

fn console(header: ZoneHeader, contents: &[u8]) -> Vec<u8> {
    let mut region = vec![0; 0x1_0000];
    region[..HEADER].copy_from_slice(&header.encode(ByteOrder::Little));
    region[HEADER..][..contents.len()].copy_from_slice(contents);
    region
}

/// Returns a console with 16 parity bytes per block. The blocks `bad` have more wrong bytes than
/// can be corrected.
fn damaged_console(text: &[u8], bad: &[usize]) -> Vec<u8> {
    let params = Params {
        mem_size: 0x1_0000,
        record_size: 0,
        console_size: 0x1_0000,
        ftrace_size: 0,
        pmsg_size: 0,
        ecc: 16,
        cpus: 1,
        flags: 0,
        zone_order: ZoneOrder::Linux6_2,
    };
    let mut region = vec![0; params.mem_size];
    let code = Code::new(16).unwrap();
    let layout = Layout::new(&params).unwrap();
    let (place, memory) = layout.split(Ram::of(&mut region)).next().unwrap();
    let (mut zone, _) = Zone::attach(memory, place.kind, LinuxVersion(0), Some(&code)).unwrap();
    zone.append_text(text);
    let parity = place.division.data();
    for block in bad {
        // The wrong bytes are in the parity, so the text stays as it was written.
        for at in 0..16 {
            region[HEADER + parity + block * 16 + at] ^= 0x5a;
        }
    }
    region
}

const WITH_ECC: [&str; 4] = ["--ecc", "16", "--writer", "nostall"];

/// Reads the text format back. Returns contents and unverified ranges of the only record,
/// without the marks. An ambiguous mark does not survive this.
fn read_back(printed: &str) -> (Vec<u8>, Vec<Range<usize>>) {
    let (mut bytes, mut ranges) = (Vec::new(), Vec::new());
    let mut open = None;
    let mut lines = printed.split_inclusive('\n').peekable();
    while lines.peek().is_some_and(|line| line.starts_with("==> ")) {
        lines.next();
    }
    let body: String = lines.collect();
    let mut rest = body.as_str();
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("\\unverified{") {
            open = Some(bytes.len());
            rest = after;
        } else if let Some(after) = rest.strip_prefix("\\}") {
            let start: usize = open.take().unwrap();
            if start < bytes.len() {
                ranges.push(start..bytes.len());
            }
            rest = after;
        } else if let Some(after) = rest.strip_prefix("\\x") {
            bytes.push(u8::from_str_radix(&after[..2], 16).unwrap());
            rest = &after[2..];
        } else if let Some(after) = rest.strip_prefix("\\u{") {
            let (code, after) = after.split_once('}').unwrap();
            let c = char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap();
            bytes.extend(c.to_string().bytes());
            rest = after;
        } else {
            assert_ne!(c, '\\', "{rest}");
            bytes.extend(c.to_string().bytes());
            rest = &rest[c.len_utf8()..];
        }
    }
    assert_eq!(open, None);
    (bytes, ranges)
}

#[test]
fn text_from_a_failed_block_is_marked_in_every_format() {
    let bench = Bench::new();
    let mut region = fixture("ecc16");
    // In the middle of the compressed dmesg record.
    for at in 0..40 {
        region[HEADER + 50 * BLOCK + 3 * at] ^= 1;
    }
    bench.file("image", &region);
    let text = bench.text(&["image"]);
    let mut headings = text.lines();
    assert_eq!(
        headings.next(),
        // The console has the panic, too, and it is verified.
        Some(
            "==> panic: sysrq triggered crash, CPU 1, task init, 106.9 s after boot, Linux 6.1.192"
        )
    );
    let heading = headings.next().unwrap();
    assert!(heading.starts_with("==> dmesg 0: "), "{heading}");
    assert!(
        heading.contains("1 of 101 blocks failed; unverified: "),
        "{heading}"
    );
    let ranges = headings.next().unwrap();
    assert!(ranges.starts_with("==>   unverified bytes: "), "{ranges}");
    assert!(text.contains("\\unverified{"));
    // Each line behind the first mark has a mark of its own, which the output of grep shows.
    let dmesg = text.split("\n\n==> console").next().unwrap();
    let (_, behind) = dmesg.split_once("\\unverified{").unwrap();
    assert!(behind.lines().count() > 100);
    assert!(
        behind
            .lines()
            .skip(1)
            .all(|line| line.starts_with("\\unverified{"))
    );

    let (_, lines) = bench.json(&["image"]);
    let record = of(&lines, "record").next().unwrap();
    assert_eq!(record["trust"], "unverified");
    let [from, to] = [0, 1].map(|at| record["unverified"][0][at].as_u64().unwrap());
    assert!(
        ranges.contains(&format!(" {from}..{to}")),
        "{ranges} {from} {to}"
    );
    assert_eq!(to as usize, record["text"].as_str().unwrap().len());

    let said = String::from_utf8(bench.decode(&["image", "--format", "linux"]).stderr).unwrap();
    assert!(said.contains("dmesg-ramoops-0: unverified\n"), "{said}");
    assert!(
        said.contains(&format!(
            "dmesg-ramoops-0: unverified bytes: {from}..{to}\n"
        )),
        "{said}"
    );

    let output = bench.decode(&["image", "--out", "folder"]);
    assert!(output.status.success());
    let file = fs::read_to_string(bench.0.path().join("folder/dmesg-ramoops-0")).unwrap();
    assert!(file.starts_with("Panic#1 Part1\n") && file.contains("\\unverified{"));
}

#[test]
fn a_contradictory_header_is_reported_without_error_correction() {
    let bench = Bench::new();
    let torn = ZoneHeader {
        signature: SIGNATURE,
        start: 0x7000,
        size: 10,
    };
    bench.file("image", &console(torn, b"the start\nand noise\n"));
    let text = bench.text(&[&["image"], &CONSOLE[..]].concat());
    assert!(
        text.starts_with(
            "==> console 0: 28672 bytes; unverified: by a zone header that is damaged or was \
             being written\n==>   unverified bytes: 0..28672\n\\unverified{the start\\}\n"
        ),
        "{}",
        &text[..300]
    );
    let (bytes, ranges) = read_back(&text);
    assert!(bytes.starts_with(b"the start\nand noise\n\0\0"));
    assert_eq!(ranges.iter().map(Range::len).sum::<usize>(), 28672 - 2);
    let (_, lines) = bench.json(&[&["image"], &CONSOLE[..]].concat());
    let record = of(&lines, "record").next().unwrap();
    assert_eq!(record["header_trust"], "unverified");
    assert_eq!(record["unverified"], serde_json::json!([[0, 28672]]));
}

#[test]
fn without_error_correction_every_record_is_called_unchecked() {
    let bench = Bench::new();
    bench.file("image", &fixture("plain"));
    let text = bench.text(&["image"]);
    let headings: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("==> ") && !line.starts_with("==> panic: "))
        .collect();
    assert_eq!(headings.len(), 4);
    for heading in headings {
        assert!(
            heading.ends_with("; unchecked: no error correction"),
            "{heading}"
        );
    }
    let said = String::from_utf8(bench.decode(&["image", "--format", "linux"]).stderr).unwrap();
    assert!(
        said.contains("console-ramoops-0: unchecked: no error correction\n"),
        "{said}"
    );
}

#[test]
fn piped_text_cannot_control_a_terminal() {
    let bench = Bench::new();
    let text = "\x1b[2J\u{9b}1m \u{202e}evil\u{200f} \x07\r\u{7f} \u{2028}ok\tend\n";
    let mut contents = text.as_bytes().to_vec();
    contents.extend(b"\x9b\xff\n");
    let header = ZoneHeader {
        signature: SIGNATURE,
        start: contents.len() as u32,
        size: contents.len() as u32,
    };
    bench.file("image", &console(header, &contents));
    let printed = bench.text(&[&["image"], &CONSOLE[..]].concat());
    let line = printed.lines().nth(1).unwrap();
    let expected = "\\x1b[2J\\u{9b}1m \\u{202e}evil\\u{200f} \\x07\\x0d\\x7f \\u{2028}ok\tend";
    assert_eq!(line, expected);
    assert_eq!(printed.lines().nth(2), Some("\\x9b\\xff"));
    let json = bench.decode(&[&["image", "--format", "json"], &CONSOLE[..]].concat());
    let json = String::from_utf8(json.stdout).unwrap();
    assert!(
        json.chars()
            .all(|c| c == '\n' || !c.is_control() && !"\u{202e}\u{200f}\u{2028}".contains(c))
    );
    // In a pipe, Linux's files are the raw bytes.
    let linux = bench.decode(&[&["image", "--format", "linux"], &CONSOLE[..]].concat());
    assert!(linux.stdout.ends_with(&contents));
}

/// A folder of dumps may come from another machine.
#[test]
fn names_of_files_in_errors_cannot_control_a_terminal() {
    let bench = Bench::new();
    bench.file("image", &fixture("plain"));
    let name = "no\x1b[2J\u{202e}folder\n/file";
    for (args, status) in [
        (&[name][..], 1),
        (&["image", "--symbols", name], 1),
        (&["image", "--out", "image/\x1b[2J\u{202e}\n"], 6),
        (&["image", "--out", "."], 1),
    ] {
        let made = bench.0.path().join("console-ramoops-0");
        fs::write(made, "").unwrap();
        let output = bench.decode(&[args, &["-q"]].concat());
        assert_eq!(output.status.code(), Some(status), "{args:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), 1, "{said:?}");
        assert!(!said.contains(['\x1b', '\u{202e}']), "{said:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Text of the crashed kernel cannot look like a mark, and the marks are exact.
    #[test]
    fn marks_in_text_are_unambiguous(
        parts in prop::collection::vec(
            prop_oneof![
                Just("\\unverified{".to_owned()),
                Just("\\}".to_owned()),
                Just("\\x41".to_owned()),
                Just("\n==> dmesg 0: 7 bytes; verified\n".to_owned()),
                Just("==> ".to_owned()),
                Just("\n\n".to_owned()),
                Just("\u{202e}\u{9}ä€".to_owned()),
                "[ -~]{0,90}",
            ],
            1..40,
        ),
        bad in prop::collection::btree_set(0usize..12, 0..5),
    ) {
        let bench = Bench::new();
        let text = parts.concat();
        prop_assume!(!text.is_empty());
        let blocks = text.len().div_ceil(BLOCK);
        let bad: Vec<_> = bad.into_iter().filter(|block| *block < blocks).collect();
        bench.file("image", &damaged_console(text.as_bytes(), &bad));
        let args = [&["image"], &CONSOLE[..], &WITH_ECC].concat();
        let printed = bench.text(&args);
        let (bytes, marked) = read_back(&printed);
        // An empty line follows the contents, and a line end if they have none.
        let added = if text.ends_with('\n') { 1 } else { 2 };
        // A character that is cut by a block's end is printed byte by byte.
        prop_assert_eq!(&bytes[..bytes.len() - added], text.as_bytes());
        let (_, lines) = bench.json(&args);
        let record = of(&lines, "record").next().unwrap();
        let ranges = record["unverified"].as_array().unwrap();
        let is_in = |at: usize| ranges.iter().any(|range| {
            let [from, to] = [0, 1].map(|end| range[end].as_u64().unwrap() as usize);
            (from..to).contains(&at)
        });
        for (at, byte) in text.bytes().enumerate().filter(|(_, byte)| *byte != b'\n') {
            let marked = marked.iter().any(|range| range.contains(&at));
            prop_assert_eq!(marked, is_in(at), "{} {}", at, byte);
        }
        for block in bad {
            prop_assert!(is_in(block * BLOCK));
        }
        // Only the decoder's lines start like this.
        let headings = printed.lines().filter(|line| line.starts_with("==> ")).count();
        prop_assert_eq!(headings, 1 + ranges.len().div_ceil(6));
    }
}

/// Returns a region of four CPUs' full trace zones.
fn traces(size: usize) -> Vec<u8> {
    let params = Params {
        mem_size: size,
        record_size: 0,
        console_size: 0,
        ftrace_size: size,
        pmsg_size: 0,
        ecc: 0,
        cpus: 4,
        flags: FTRACE_PER_CPU,
        zone_order: ZoneOrder::Linux6_2,
    };
    let layout = Layout::new(&params).unwrap();
    let mut region = vec![0; size];
    for (cpu, place) in layout.zones_of(ZoneKind::Ftrace).enumerate() {
        let data = place.division.data();
        let header = ZoneHeader {
            signature: SIGNATURE ^ LinuxVersion::new(6, 1, 0).0,
            start: 0,
            size: data as u32,
        };
        let zone = &mut region[place.offset..];
        zone[..HEADER].copy_from_slice(&header.encode(ByteOrder::Little));
        for (nth, bytes) in zone[HEADER..][..data].chunks_exact_mut(24).enumerate() {
            let record = TraceRecord {
                ip: 0xffff_ffff_8100_0000 + nth as u64 % 4096 * 16,
                parent: 0xffff_ffff_8200_0000,
                stamp: 4 * nth as u64 + cpu as u64,
                cpu: cpu as u8,
            };
            bytes.copy_from_slice(&RecordFormat::Bits64.encode(&record, ByteOrder::Little));
        }
    }
    region
}

/// Runs the command and reads all of its output. Returns the output's size and the command's
/// peak memory, read while it waits for the pipe.
#[cfg(target_os = "linux")]
fn peak(mut command: Command) -> (usize, u64) {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let high_water = || -> Option<u64> {
        let status = fs::read_to_string(&status).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    let mut out = child.stdout.take().unwrap();
    let (mut buffer, mut read, mut most) = (vec![0; 1 << 16], 0, 0);
    loop {
        let count = out.read(&mut buffer).unwrap();
        most = most.max(high_water().unwrap_or(0));
        read += count;
        if count == 0 {
            break;
        }
    }
    assert!(child.wait().unwrap().success());
    (read, most << 10)
}

#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_the_traces_in_any_format() {
    // 128 MiB take too long without optimisation. The bound is the same as for those: 300 MiB
    // for the mapped image, and 172 MiB more.
    const SIZE: usize = 8 << 20;
    const MORE: u64 = 24 << 20;
    let bench = Bench::new();
    bench.file("image", &traces(SIZE));
    let sizes = [
        "--size",
        "8M",
        "--record-size",
        "0",
        "--console-size",
        "0",
        "--ftrace-size",
        "8M",
        "--pmsg-size",
        "0",
        "--cpus",
        "4",
    ];
    for (format, least) in [("json", 100), ("linux", 60), ("text", 40)] {
        let args = [&["image", "--format", format], &sizes[..]].concat();
        let (written, peak) = peak(bench.command(&args));
        assert!(written > SIZE / 24 * least, "{format}: {written}");
        assert!(peak < SIZE as u64 + MORE, "{format}: {} KiB", peak >> 10);
    }
    let args = [&["image", "--per-cpu"], &sizes[..]].concat();
    let (_, peak) = peak(bench.command(&args));
    assert!(peak < SIZE as u64 + MORE, "{} KiB", peak >> 10);
}

/// The start of the region shows whether its words are swapped: it has no text, and is not
/// copied.
#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_the_traces_of_a_region_that_is_found() {
    const SIZE: usize = 16 << 20;
    let bench = Bench::new();
    bench.file("image", &traces(SIZE));
    let (written, peak) = peak(bench.command(&["image"]));
    assert!(written > SIZE / 24 * 40, "{written}");
    assert!(peak < SIZE as u64 + (24 << 20), "{} KiB", peak >> 10);
}

#[test]
fn json_has_the_region_its_geometry_the_reasons_and_the_doubts() {
    let bench = Bench::new();
    let mut dump = vec![0; 0x10_0000];
    dump.extend(fixture("ecc16"));
    bench.file("dump", &dump);
    let (status, lines) = bench.json(&["dump"]);
    assert_eq!(status, 0);
    let region = of(&lines, "region").next().unwrap();
    for (word, value) in [
        ("file", "dump".into()),
        ("format", "raw".into()),
        ("start", "0x100000".into()),
        ("size", Value::from(0x4_0000)),
        ("found", true.into()),
        ("version", "6.1.192".into()),
        ("record_size", 0x8000.into()),
        ("console_size", 0x8000.into()),
        ("ftrace_size", 0x8000.into()),
        ("pmsg_size", 0x2000.into()),
        ("ecc", 16.into()),
        ("cpus", 2.into()),
        ("shape", "64".into()),
        ("order", "little".into()),
    ] {
        assert_eq!(region[word], value, "{word}");
    }
    assert!(region["evidence_bits"].as_i64().unwrap() > 100);
    let (_, why) = (region["options"].as_str().unwrap(), &region["reasons"]);
    assert!(why.as_array().unwrap().len() > 5);
    assert!(region["doubts"].as_array().unwrap()[0].is_string());
    let zones = region["zones"].as_array().unwrap();
    assert_eq!(zones.len(), 9);
    assert_eq!(zones[0]["kind"], "dmesg");
    assert_eq!(zones[0]["state"], "valid");
    assert_eq!(zones[0]["header_trust"], "verified");
    assert_eq!(zones[1]["state"], "empty");
    let options: Vec<_> = region["options"].as_str().unwrap().split(' ').collect();
    let (_, given) = bench.json(&[&["dump"], &options[..]].concat());
    // Behind the cause.
    assert_eq!(given[2..], lines[2..]);
    assert_eq!(given[1]["found"], false);
}

/// Returns two regions one after the other, as a firmware may keep them.
fn two_regions() -> Vec<u8> {
    let mut dump = fixture("ecc16");
    dump.resize(0x10_0000, 0);
    dump.extend(fixture("wrap"));
    dump.resize(0x20_0000, 0);
    dump
}

#[test]
fn all_decodes_every_region_and_without_it_the_others_are_listed() {
    let bench = Bench::new();
    bench.file("dump", &two_regions());
    let (_, lines) = bench.json(&["dump", "--all"]);
    let mut starts: Vec<_> = of(&lines, "region")
        .map(|region| region["start"].as_str().unwrap())
        .collect();
    starts.sort_unstable();
    assert_eq!(starts, ["0x0", "0x100000"]);
    assert_eq!(of(&lines, "record").count(), 4 + 3);
    assert_eq!(lines.last().unwrap()["records"], 7);
    let text = bench.text(&["dump", "--all"]);
    for heading in [
        "==> dump: region at 0x0\n",
        "==> dump: region at 0x100000\n",
    ] {
        assert!(text.contains(heading), "{heading}");
    }

    let (_, lines) = bench.json(&["dump"]);
    assert_eq!(of(&lines, "region").count(), 1);
    let other = of(&lines, "candidate").next().unwrap();
    assert!(!other["reasons"].as_array().unwrap().is_empty());
    assert!(other["evidence_bits"].is_number());
    let options: Vec<_> = other["options"].as_str().unwrap().split(' ').collect();
    assert_eq!(bench.json(&[&["dump"], &options[..]].concat()).0, 0);
    let refused = bench.decode(&["dump", "--all", "--out", "folder"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(!bench.0.path().join("folder").exists());
}

#[test]
fn a_region_with_records_is_decoded_rather_than_an_empty_one_with_more_zones() {
    let empty = ZoneHeader {
        signature: SIGNATURE,
        start: 0,
        size: 0,
    };
    // Zones of 8 KiB.
    let mut dump = vec![0; 0x20_0000];
    for zone in dump[..0x10_0000].chunks_mut(0x2000) {
        zone[..HEADER].copy_from_slice(&empty.encode(ByteOrder::Little));
    }
    dump.extend(fixture("plain"));
    let bench = Bench::new();
    bench.file("dump", &dump);
    let (status, lines) = bench.json(&["dump"]);
    let region = of(&lines, "region").next().unwrap();
    assert_eq!((status, &region["start"]), (0, &Value::from("0x200000")));
    let other = of(&lines, "candidate").next().unwrap();
    assert_eq!(other["start"], "0x0");
    let bits = |line: &Value| line["evidence_bits"].as_i64().unwrap();
    assert!(bits(other) > bits(region));
}

#[test]
fn zones_directly_before_a_region_do_not_hide_it() {
    let zone = |len: usize, body: &[u8]| {
        let size = body.len() as u32;
        let header = ZoneHeader {
            signature: SIGNATURE,
            start: size,
            size,
        };
        let mut zone = header.encode(ByteOrder::Little).to_vec();
        zone.extend(body);
        zone.resize(len, 0);
        zone
    };
    let record = b"====1700000000.000001-D\nPanic#1 Part1\n<0>[    1.000000] fake\n";
    let bench = Bench::new();
    for zones in [zone(4096, record).repeat(16), zone(64, b"").repeat(10_000)] {
        let start = format!("{:#x}", zones.len());
        let dump = [&zones[..], &fixture("plain"), &zone(64, b"").repeat(10_000)].concat();
        bench.file("dump", &dump);
        let (_, lines) = bench.json(&["dump"]);
        let starts = |kind| of(&lines, kind).map(|line| line["start"].clone());
        let mut all = starts("region").chain(starts("candidate"));
        assert!(all.any(|it| it == start), "{start}");
        let (_, lines) = bench.json(&["dump", "--all"]);
        let texts = of(&lines, "record").filter_map(|record| record["text"].as_str());
        assert!(texts.filter(|text| text.contains("Linux version")).count() > 0);
    }
}

#[test]
fn doubtful_candidates_are_listed_with_their_reasons_and_not_decoded() {
    let bench = Bench::new();
    // The beginning of an empty trace zone: four letters, and zeros.
    let mut data = vec![0; 1 << 20];
    for at in [4000, 20_000] {
        data[at..at + 4].copy_from_slice(b"CCCC");
    }
    bench.file("data", &data);
    let (status, lines) = bench.json(&["data", "--all"]);
    assert_eq!(status, 5);
    let candidate = of(&lines, "candidate").next().unwrap();
    assert_eq!(candidate["grade"], "doubtful");
    assert_eq!(candidate["start"], "0xfa0");
    assert!(!candidate["reasons"].as_array().unwrap().is_empty());
    assert!(!candidate["doubts"].as_array().unwrap().is_empty());
    assert_eq!(of(&lines, "region").count(), 0);
    let said = String::from_utf8(bench.decode(&["data", "--all"]).stderr).unwrap();
    assert!(said.contains("in doubt: a region at 0xfa0"), "{said}");
    let said = String::from_utf8(bench.decode(&["data"]).stderr).unwrap();
    assert!(
        said.contains("(2 places are in doubt: --all lists them)"),
        "{said}"
    );
}

/// Writes an image for each exit status.
fn one_of_each(bench: &Bench) -> [(&'static str, i32, &'static str); 5] {
    let mut empty = fixture("plain");
    let nothing = ZoneHeader {
        signature: SIGNATURE,
        start: 0,
        size: 0,
    };
    empty[..].fill(0);
    empty[..HEADER].copy_from_slice(&nothing.encode(ByteOrder::Little));
    bench.file("empty", &empty[..0x1_0000]);
    bench.file("damaged", &vec![0xff; 0x1_0000]);
    bench.file("none", &vec![0; 0x1_0000]);
    bench.file("records", &fixture("plain"));
    [
        ("records", 0, "records"),
        ("missing", 1, "error"),
        ("empty", 3, "empty"),
        ("damaged", 4, "damaged"),
        ("none", 5, "none"),
    ]
}

#[test]
fn the_exit_status_distinguishes_records_empty_damaged_and_none() {
    let bench = Bench::new();
    for (name, status, word) in one_of_each(&bench) {
        let given = if ["empty", "damaged"].contains(&name) {
            &CONSOLE[..]
        } else {
            &[]
        };
        let (code, lines) = bench.json(&[&[name], given].concat());
        assert_eq!(code, status, "{name}");
        let end = lines.last().unwrap();
        assert_eq!(
            (&end["type"], &end["status"]),
            (&"end".into(), &word.into())
        );
        assert_eq!(end["message"].is_null(), status == 0);
        assert_eq!(end["file"], name);
        let output = bench.decode(&[&[name], given].concat());
        assert_eq!(output.status.code(), Some(status), "{name}");
    }
    let usage = bench.decode(&["none", "--swap", "3"]);
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn several_files_are_decoded_and_the_status_covers_all() {
    let bench = Bench::new();
    one_of_each(&bench);
    for (names, status) in [
        (&["none", "records"][..], 0),
        (&["records", "none", "missing"], 1),
        (&["none", "none"], 5),
    ] {
        let (code, lines) = bench.json(names);
        assert_eq!(code, status, "{names:?}");
        let ends: Vec<_> = of(&lines, "end")
            .map(|end| end["file"].as_str().unwrap())
            .collect();
        assert_eq!(ends, names);
    }
    let text = bench.text(&["records", "none"]);
    assert!(
        text.starts_with(
            "==> records: panic: sysrq triggered crash, CPU 1, task init, 2.8 s after boot, Linux \
             6.1.192\n==> records: region at 0x0\n==> dmesg 0: "
        ),
        "{text}"
    );
    let refused = bench.decode(&["records", "none", "--out", "folder"]);
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn a_directory_stands_for_the_files_in_it() {
    let bench = Bench::new();
    bench.file("crashes/b/memory", &fixture("plain"));
    bench.file("crashes/c", &fixture("wrap"));
    bench.file("crashes/a", b"a note");
    std::os::unix::fs::symlink(".", bench.0.path().join("crashes/d")).unwrap();
    let (code, lines) = bench.json(&["crashes"]);
    assert_eq!(code, 0);
    let ends: Vec<_> = of(&lines, "end")
        .map(|end| end["file"].as_str().unwrap())
        .collect();
    assert_eq!(ends, ["crashes/a", "crashes/b/memory", "crashes/c"]);
    fs::create_dir(bench.0.path().join("nothing")).unwrap();
    let output = bench.decode(&["nothing"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no file in it"));
}

/// A folder that cannot be read, like other users' folders in /var/crash.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_cannot_be_read_is_an_error_and_the_other_files_are_decoded() {
    use rustix::fs as fs_at;

    let bench = Bench::new();
    bench.file("crashes/b/memory", &fixture("plain"));
    // The path is longer than the system's limit, so root cannot list the folder by name either.
    let mut deep = fs::File::open(bench.0.path().join("crashes")).unwrap();
    let name = "a".repeat(250);
    for _ in 0..17 {
        fs_at::mkdirat(&deep, &name, fs_at::Mode::RWXU).unwrap();
        let flags = fs_at::OFlags::RDONLY | fs_at::OFlags::DIRECTORY;
        deep = fs_at::openat(&deep, &name, flags, fs_at::Mode::empty())
            .unwrap()
            .into();
    }
    let (code, lines) = bench.json(&["crashes"]);
    assert_eq!(code, 1);
    let status: Vec<_> = of(&lines, "end").map(|end| &end["status"]).collect();
    assert_eq!(status, ["error", "records"]);
    let failed = of(&lines, "end").next().unwrap()["file"].as_str().unwrap();
    assert!(failed.starts_with("crashes/aaa"), "{failed}");
}

#[test]
fn json_contains_the_unchanged_name_of_a_file() {
    let bench = Bench::new();
    let name = "a\x1b[2J\\x0a\n\u{202e}";
    bench.file(name, &fixture("plain"));
    let output = bench.decode(&[name, "-q", "--format", "json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains(['\x1b', '\u{202e}']), "{text:?}");
    let files: Vec<_> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["file"].clone())
        .filter(|file| !file.is_null())
        .collect();
    assert_eq!(files, [name; 3]);
}

#[test]
fn a_dash_is_standard_input() {
    let bench = Bench::new();
    let image = fixture("lz4");
    bench.file("image", &image);
    let mut command = bench.command(&["-", "--format", "linux"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&image).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(
        output.stdout,
        bench.decode(&["image", "--format", "linux"]).stdout
    );
}

#[test]
fn with_quiet_only_errors_are_printed_on_stderr() {
    let bench = Bench::new();
    for (name, status, _) in one_of_each(&bench) {
        let given = if ["empty", "damaged"].contains(&name) {
            &CONSOLE[..]
        } else {
            &[]
        };
        for format in ["text", "linux"] {
            let output = bench.decode(&[&[name, "-q", "--format", format], given].concat());
            assert_eq!(output.stderr.is_empty(), status != 1, "{name} {format}");
            assert_eq!(output.status.code(), Some(status));
        }
    }
}

/// Returns the image with the bytes of each word reversed.
fn swapped(image: &[u8], word: usize) -> Vec<u8> {
    let mut swapped = image.to_vec();
    swapped.chunks_exact_mut(word).for_each(<[u8]>::reverse);
    swapped
}

#[test]
fn word_swapped_dumps_are_decoded_and_the_swap_is_proposed() {
    let bench = Bench::new();
    for name in ["plain", "nocompress", "ecc16", "armv7"] {
        let mut image = vec![0; 0x1_0000];
        image.extend(fixture(name));
        image.resize(image.len().next_multiple_of(0x1000), 0);
        bench.file("right", &image);
        let right = bench.decode(&["right", "--format", "linux"]).stdout;
        for word in [2, 4, 8] {
            bench.file("swapped", &swapped(&image, word));
            let option = word.to_string();
            let read = bench.decode(&["swapped", "--swap", &option, "--format", "linux"]);
            assert!(read.stdout == right, "{name} {word}");

            let proposed = bench.decode(&["swapped"]);
            let said = String::from_utf8_lossy(&proposed.stderr).into_owned();
            assert!(
                said.contains(&format!("--swap {word} ")),
                "{name} {word}: {said}"
            );
            let wrong = bench.decode(&["right", "--swap", &option]);
            assert_eq!(wrong.stdout, b"", "{name} {word}");
            assert_eq!(wrong.status.code(), Some(5), "{name} {word}");

            // No swapped text is printed as the kernel's.
            assert_eq!(proposed.stdout, b"", "{name} {word}");
            assert_eq!(proposed.status.code(), Some(5), "{name} {word}");
        }
    }
    let (_, lines) = bench.json(&["swapped", "--swap", "8"]);
    assert_eq!(lines[0]["swap"], 8);
}

/// The header of an empty zone is also one if each word of eight bytes is reversed.
#[test]
fn empty_zones_behind_a_region_do_not_hide_it_as_reversed_bytes() {
    let bench = Bench::new();
    let plain = fixture("plain");
    for zones in [2, 11, 16, 100] {
        let mut image = plain.clone();
        image.resize(image.len() + (1 << 20), 0);
        for _ in 0..zones {
            image.extend(b"DBGC");
            image.resize(image.len().next_multiple_of(4096), 0);
        }
        bench.file("image", &image);
        let read = bench.decode(&["image"]);
        let said = String::from_utf8_lossy(&read.stderr);
        assert!(!said.contains("--swap"), "{zones}: {said}");
        for output in [&read, &bench.decode(&["image", "--all"])] {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("Linux version"), "{zones}: {text}");
        }
        // More zones are a likelier region, which is named.
        assert!(
            zones < 11 || said.contains("another region at"),
            "{zones}: {said}"
        );
    }
}

/// Returns the lines on stderr of a command without `--verbose`.
fn explained(bench: &Bench, args: &[&str]) -> Vec<String> {
    let mut command = Command::new(cargo_bin("nostall-postmortem"));
    let output = command.args(args).current_dir(bench.0.path()).output();
    let stderr = String::from_utf8(output.unwrap().stderr).unwrap();
    stderr.lines().map(str::to_owned).collect()
}

#[test]
fn an_image_is_explained_in_one_line_and_in_full_with_verbose() {
    let bench = Bench::new();
    bench.file("all/plain", &fixture("plain"));
    bench.file("all/ecc16", &fixture("ecc16"));
    bench.file("all/none", b"nothing");
    let mut damaged = fixture("plain");
    // Start and size in the second zone's header.
    damaged[0x9336..0x933e].fill(0xff);
    bench.file("all/damaged", &damaged);
    for format in ["text", "json", "linux"] {
        let lines = explained(&bench, &["all", "--format", format]);
        let region = "a region at 0x0, written by Linux 6.1.192 or for it";
        let unverified = match format {
            "linux" => "; ftrace-ramoops-0: unverified",
            _ => "",
        };
        let [damaged, ecc16, none, plain] = &lines[..] else {
            panic!("{format}: {lines:#?}");
        };
        let file = |name: &str| format!("nostall: all/{name}: ");
        assert!(damaged.starts_with(&file("damaged")), "{damaged}");
        assert!(damaged.contains("1 of 9 zones unreadable"), "{damaged}");
        assert!(
            none.starts_with(&(file("none") + "no log of Linux")),
            "{none}"
        );
        assert_eq!(*plain, file("plain") + region + "; -v explains");
        let ecc16_line = file("ecc16") + region + unverified + "; -v explains";
        assert_eq!(*ecc16, ecc16_line);
        // Each reason is there once, and none of the lines above.
        let verbose = explained(&bench, &["all", "--format", format, "-v"]);
        assert!(verbose.len() > 30, "{verbose:#?}");
        assert!(!verbose.iter().any(|line| line.contains("-v explains")));
        assert!(verbose.contains(&"nostall: all/ecc16:".to_owned()));
        let quiet = explained(&bench, &["all", "--format", format, "-v", "-q"]);
        assert_eq!(quiet, [""; 0]);
    }
}

#[test]
fn a_closed_pipe_ends_the_work_with_the_status_of_sigpipe() {
    let bench = Bench::new();
    for number in 0..50 {
        bench.file(&format!("all/{number:02}"), &fixture("plain"));
    }
    for format in ["text", "json", "linux"] {
        let mut command = bench.command(&["all", "--format", format]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut first = [0; 100];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(128 + 13), "{format}");
        // Two images fill the pipe.
        let stderr = String::from_utf8(output.stderr).unwrap();
        let regions = stderr.matches("a region at").count();
        assert!(regions < 5, "{format}: {regions} of 50\n{stderr}");
    }
}

#[cfg(target_os = "linux")]
/// Returns `plain`, whose first record has bytes of ones in this part of its compressed body.
fn with_damaged_body(part: impl FnOnce(usize) -> Range<usize>) -> Vec<u8> {
    let mut image = fixture("plain");
    let size = u32::from_le_bytes(image[8..12].try_into().unwrap()) as usize;
    let header = image[12..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let body = 12 + header;
    image[body..12 + size][part(size - header)].fill(0xff);
    image
}

#[test]
fn a_compressed_text_is_shown_up_to_its_damage() {
    let bench = Bench::new();
    bench.file("whole", &fixture("plain"));
    bench.file("cut", &with_damaged_body(|len| len - 40..len));
    let text = |name| {
        let record = of(&bench.json(&[name]).1, "record").next().unwrap().clone();
        let text = record["text"].as_str().unwrap().to_owned();
        (record, text)
    };
    let (whole, all) = text("whole");
    let (record, start) = text("cut");
    let same = all.bytes().zip(start.bytes()).take_while(|(a, b)| a == b);
    assert!(same.count() > all.len() - 500, "{start}");
    assert_eq!(
        (&whole["cut"], &record["cut"]),
        (&Value::Null, &Value::Bool(true))
    );
    assert_eq!(record["compression"], "deflate");
    assert_eq!(record["trust"], "unverified");
    assert_eq!(record["unverified"][0][0], 0);
    let shown = bench.text(&["cut"]);
    assert!(shown.contains("cut: the rest is damaged"), "{shown}");
    assert!(shown.contains("\\unverified{Panic#1 Part1\\}\n"), "{shown}");
    // Linux shows the compressed bytes.
    let output = bench.decode(&["cut", "--format", "linux", "--out", "folder"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("dmesg-ramoops-0.enc.z: not decompressed"),
        "{error}"
    );
}

#[test]
fn compressed_bytes_are_no_text() {
    let bench = Bench::new();
    bench.file("image", &with_damaged_body(|_| 0..64));
    bench.file("whole", &fixture("plain"));
    for args in [&["image"][..], &["whole", "--compression", "none"]] {
        let (_, lines) = bench.json(args);
        let record = of(&lines, "record").next().unwrap();
        assert_eq!(record["compression"], "unknown");
        assert_eq!(record["text"], Value::Null);
        assert!(record["data_hex"].as_str().unwrap().len() > 10_000);
    }
}

#[test]
fn an_output_that_cannot_be_written_has_another_status_than_an_image_that_cannot_be_read() {
    let bench = Bench::new();
    bench.file("image", &fixture("plain"));
    bench.file("vmcore", b"KDUMP   \x06\0\0\0");
    for format in ["text", "json", "linux"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let mut command = Command::new(cargo_bin("nostall-postmortem"));
        command.current_dir(bench.0.path()).stdout(full.unwrap());
        let output = command
            .args(["image", "--format", format])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(6), "{format}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("standard output: No space left"), "{error}");
        let folder = ["image", "--format", format, "--out", "/proc/none"];
        assert_eq!(bench.decode(&folder).status.code(), Some(6), "{format}");
        let unreadable = ["vmcore", "--format", format, "--out", "folder"];
        assert_eq!(bench.decode(&unreadable).status.code(), Some(1), "{format}");
    }
}

#[test]
fn an_image_that_was_not_searched_completely_says_so() {
    let header = ZoneHeader {
        signature: SIGNATURE,
        start: 8,
        size: 8,
    };
    // Headers at irregular distances, and a region after them.
    let mut image = Vec::new();
    for i in 0..60_000_usize {
        image.extend(header.encode(ByteOrder::Little));
        image.resize(image.len() + 20 + i * i % 61 * 2, b'x');
    }
    let start = image.len();
    image.extend(fixture("ecc16"));
    let bench = Bench::new();
    bench.file("image", &image);
    bench.file("alone", &fixture("ecc16"));
    let (status, lines) = bench.json(&["image"]);
    assert_eq!(status, 0);
    let region = of(&lines, "region").next().unwrap();
    assert_eq!(region["start"], format!("{start:#x}"));
    let message = |lines: &[Value]| of(lines, "end").next().unwrap()["message"].clone();
    let words = message(&lines);
    assert!(
        words.as_str().unwrap().contains("records may be missing"),
        "{words}"
    );
    let (_, alone) = bench.json(&["alone"]);
    assert_eq!(message(&alone), Value::Null);
    assert_eq!(of(&lines, "record").count(), of(&alone, "record").count());
}

#[test]
fn of_a_compressed_text_that_is_cut_off_the_doubt_is_told() {
    let records = (0..9_000).map(|record| format!("[{record:5}.000000] {}\n", record * record));
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let text = records.collect::<String>();
    packed.extend(miniz_oxide::deflate::compress_to_vec(text.as_bytes(), 6));
    packed.truncate(packed.len() / 2);
    let bench = Bench::new();
    bench.file("image", &packed);
    let (status, lines) = bench.json(&["image"]);
    assert_eq!(status, 0);
    assert_eq!(of(&lines, "log_text").count(), 1);
    let message = of(&lines, "end").next().unwrap()["message"].to_string();
    assert!(
        message.contains("the compressed file is damaged or cut off"),
        "{message}"
    );
}

#[test]
fn of_a_compressed_dump_that_is_cut_off_the_part_before_is_decoded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/printk-ring");
    let packed = fs::read(folder.join("6.12-wrapped.lime.gz")).unwrap();
    let bench = Bench::new();
    bench.file("image", &packed[..packed.len() - 8000]);
    let (status, lines) = bench.json(&["image"]);
    assert_eq!(status, 0);
    assert!(of(&lines, "kernel_message").count() > 2000);
    let message = of(&lines, "end").next().unwrap()["message"].to_string();
    assert!(message.contains("the compressed file is damaged or cut off: only its first "));
}

#[test]
fn a_dump_that_is_cut_off_says_how_many_bytes_are_missing() {
    let memory = [vec![0; 0x1000], fixture("plain")].concat();
    let last = memory.len() as u64 - 1;
    let addresses = [0, last, 0].map(u64::to_le_bytes).concat();
    let lime = [b"EMiL\x01\0\0\0", &addresses[..], &memory].concat();
    let bench = Bench::new();
    // Cut in the region, and before it.
    for (missing, wanted) in [(1, 0), (memory.len() - 0x1000, 5)] {
        bench.file("image", &lime[..lime.len() - missing]);
        let says = format!("at least {missing} bytes of memory that it promises are missing");
        let (status, lines) = bench.json(&["image"]);
        assert_eq!(status, wanted);
        let message = of(&lines, "end").next().unwrap()["message"].to_string();
        assert!(message.contains(&says), "{message}");
        let mut command = Command::new(cargo_bin("nostall-postmortem"));
        let output = command.arg(bench.0.path().join("image")).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(&says), "{error}");
        // The line about the region is not lost.
        assert_eq!(error.contains("a region at 0x1000"), wanted == 0, "{error}");
    }
}
