//! Log rings in images: the records that a crashed machine had logged and not printed.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use nostall_console::{
    Caller, Drain, Level, Meta, Offered, Priority, Ring, Sink, SinkOptions, layout::HEADER_BYTES,
    layout::SLOT_BYTES,
};
use nostall_io::{HostClock, Nanos};
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::memory::Memory;
use tempfile::TempDir;

/// The size of a ring of 16 slots.
const RING: usize = HEADER_BYTES + 16 * SLOT_BYTES;

fn read(dir: &Path, args: &[&str]) -> Output {
    Command::new(cargo_bin("nostall-postmortem"))
        .args(["image", "--verbose"])
        .args(args)
        .current_dir(dir)
        .output()
        .unwrap()
}

fn told(output: &Output) -> (&str, &str) {
    assert!(output.status.success());
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

const META: Meta<'static> = Meta {
    time: Nanos(1_234_567_890),
    cpu: 3,
    level: Level::Warning,
    priority: Priority::Normal,
    target: "disk",
};

/// A sink that takes a line or two, and then nothing.
struct Slow;

impl Sink for Slow {
    fn offer(&self, text: &[u8], _: Caller) -> Offered {
        let end = text.iter().position(|&byte| byte == b'\n');
        Offered {
            taken: end.map_or(0, |end| end + 1),
            ready_at: Some(Nanos(u64::MAX)),
        }
    }
}

/// Returns the memory of a ring of 16 slots, after `log` has used it.
fn ring(log: impl FnOnce(&Ring)) -> Vec<u8> {
    ring_of(16, log)
}

fn ring_of(slots: usize, log: impl FnOnce(&Ring)) -> Vec<u8> {
    let len = HEADER_BYTES + slots * SLOT_BYTES;
    let mut memory = vec![0_u8; len + 64];
    let skip = memory.as_ptr().align_offset(64);
    log(Ring::in_memory(&mut memory[skip..][..len]).unwrap());
    memory[skip..][..len].to_vec()
}

fn three_lines(ring: &Ring) {
    for text in ["one", "two \x1b[2J", &"x".repeat(120)] {
        ring.log(&META, text.as_bytes());
    }
}

/// Writes 1 MiB of a machine's memory with these rings, from 64 KiB on, 64 KiB apart.
fn image(dir: &Path, rings: &[Vec<u8>]) {
    let mut memory = vec![0; 1 << 20];
    for (n, ring) in rings.iter().enumerate() {
        memory[(n + 1) << 16..][..ring.len()].copy_from_slice(ring);
    }
    // The signature's words alone, as in a program's constants.
    memory[0x400..0x410].copy_from_slice(b"nostall log ring");
    fs::write(dir.join("image"), memory).unwrap();
}

#[test]
fn without_a_progress_slot_every_record_is_shown() {
    let dir = TempDir::new().unwrap();
    image(dir.path(), &[ring(three_lines)]);
    let output = read(dir.path(), &[]);
    let (out, err) = told(&output);
    let p = "[    1.234567] disk: ";
    let long = "x".repeat(120);
    let heading = "==> log 0: ring at 0x10000, 4 of 4 records; unchecked: no error correction\n";
    let lines = format!("{heading}{p}one\n{p}two \\x1b[2J\n{p}{long}\n\n");
    assert_eq!(out, lines);
    assert_eq!(err, "nostall: a log ring at 0x10000: 4 of 4 records\n");
}

#[test]
fn printed_records_are_omitted_unless_all_are_requested() {
    let dir = TempDir::new().unwrap();
    let ring = ring(|ring| {
        three_lines(ring);
        let drain = Drain::new(ring, Slow, SinkOptions::DEFAULT.progress_slot(2));
        let _ = drain.drain_bounded(0, Priority::Normal, &HostClock::default());
    });
    image(dir.path(), &[ring]);
    let output = read(dir.path(), &[]);
    let (out, err) = told(&output);
    assert!(!out.contains("one") && out.contains("two"), "{out}");
    assert!(err.contains("3 of 4 records, printed up to 1\n"), "{err}");
    let output = read(dir.path(), &["--all", "--format", "json"]);
    let (out, _) = told(&output);
    let lines: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [ring, lines @ .., end] = &lines[..] else {
        panic!("{out}")
    };
    let expected = serde_json::json!({
        "type": "ring", "schema": 2, "file": "image", "format": "raw", "missing_bytes": 0,
        "swap": null, "index": 0, "name": "log-nostall-0", "start": "0x10000", "size": RING,
        "present_bytes": RING, "trust": "unchecked", "newest": 4, "unprinted_from": 2, "shown": 4,
        "unfinished": 0, "damaged": 0,
    });
    assert_eq!(*ring, expected);
    assert_eq!((&end["type"], &end["records"]), (&"end".into(), &4.into()));
    let printed: Vec<_> = lines.iter().map(|line| &line["printed"]).collect();
    assert_eq!(printed, [true, false, false, false]);
    let first = serde_json::json!({
        "type": "log", "trust": "unchecked", "schema": 2, "ring": "0x10000", "sequence": 1, "time_ns": 1_234_567_890_u64, "cpu": 3,
        "level": 4, "priority": "normal", "target": "disk", "text": "one", "continues": false,
        "continued": false, "cut": false, "printed": true,
    });
    assert_eq!(lines[0], first);
    assert_eq!(lines[1]["text"], "two \u{1b}[2J");
    assert!(!out.contains('\u{1b}'));
    assert_eq!(
        [&lines[2]["continues"], &lines[3]["continued"]],
        [true, true]
    );
}

#[test]
fn raw_records_have_no_prefix_and_an_unknown_time_is_blanks_or_null() {
    let dir = TempDir::new().unwrap();
    let ring = ring(|ring| {
        let time = Nanos::UNKNOWN;
        ring.log(&Meta { time, ..META }, b"early");
        ring.log_raw(&META, b"\x1b[2J one\ntwo", 99);
        ring.log_raw(&META, b" goes on\n", 99);
        ring.log_raw(&META, b"prompt> ", 99);
        ring.log(&META, b"late\n==> console 0: verified");
        ring.log_raw(&META, b"==> console 1: verified\n", 99);
    });
    image(dir.path(), &[ring]);
    let lines = "[            ] disk: early\n\\x1b[2J one\ntwo goes on\nprompt> \n\
                 [    1.234567] disk: late\n[    1.234567] disk: ==> console 0: verified\n\\x3d=> console 1: verified\n";
    let output = read(dir.path(), &[]);
    let (out, _) = told(&output);
    assert!(out.contains(&format!("correction\n{lines}")), "{out}");
    let output = read(dir.path(), &["--format", "json"]);
    let (out, _) = told(&output);
    let lines: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &serde_json::Value| line["type"] == "log")
        .collect();
    assert_eq!(lines[0]["time_ns"], serde_json::Value::Null);
    assert_eq!(lines[1]["time_ns"], 1_234_567_890_u64);
    let raw: Vec<_> = lines.iter().map(|line| line["raw"] == true).collect();
    assert_eq!(raw, [false, true, true, true, false, false, true]);
    assert_eq!(lines[0].get("raw"), None);
}

#[test]
fn several_rings_are_distinguished_and_damage_is_counted() {
    let dir = TempDir::new().unwrap();
    let mut damaged = ring(three_lines);
    // The second record's slot, and the third record's state: begun, not completed.
    damaged[HEADER_BYTES + 2 * SLOT_BYTES..][..SLOT_BYTES].fill(0xa5);
    damaged[HEADER_BYTES + 3 * SLOT_BYTES] |= 1;
    let wrapped = ring(|ring| {
        for n in 0..100 {
            ring.format(&META, format_args!("{n}"));
        }
        ring.log(&META, b"\xff\xfe");
    });
    image(dir.path(), &[damaged, wrapped, ring(|_| ())]);
    let output = read(dir.path(), &[]);
    let (out, err) = told(&output);
    let lines: Vec<_> = err.lines().collect();
    assert_eq!(
        lines[0],
        "nostall: a log ring at 0x10000: 2 of 4 records, 1 unfinished, 1 damaged"
    );
    assert_eq!(
        lines[1],
        "nostall: a log ring at 0x20000: 16 of 101 records"
    );
    assert!(
        out.starts_with("==> log 0: ring at 0x10000, 2 of 4 "),
        "{out}"
    );
    assert!(
        out.contains("\n\n==> log 1: ring at 0x20000, 16 of "),
        "{out}"
    );
    assert!(out.ends_with("disk: \\xff\\xfe\n\n"), "{out}");
    let output = read(dir.path(), &["--format", "json"]);
    let (out, _) = told(&output);
    assert!(out.contains(r#""sequence":3,"unfinished":true"#), "{out}");
    assert!(out.contains(r#""text_hex":"fffe""#), "{out}");
}

/// Returns a ring of 16 slots of a 32-bit big-endian machine, with these records.
fn ring_of_32_bits(newest: u32, sent: &[u32], records: &[(u32, u8, &str)]) -> Vec<u8> {
    let mut ring = vec![0; RING];
    let mut put = |at: usize, bytes: &[u8]| ring[at..][..bytes.len()].copy_from_slice(bytes);
    put(0, b"nostall log ring\x01\x04\x70\0\x01\x02");
    put(24, &16_u64.to_be_bytes());
    put(64, &newest.to_be_bytes());
    for (n, sent) in sent.iter().enumerate() {
        put(64 + (4 + n) * 4, &sent.to_be_bytes());
    }
    for &(sequence, flags, text) in records {
        let slot = HEADER_BYTES + sequence as usize % 16 * SLOT_BYTES;
        put(slot, &(sequence << 1).to_be_bytes());
        put(slot + 12, &[4, flags, 0, text.len() as u8]);
        put(slot + 20, text.as_bytes());
    }
    ring
}

#[test]
fn printed_records_are_known_after_the_sequences_wrapped() {
    let dir = TempDir::new().unwrap();
    const LAST: u32 = u32::MAX;
    let records = [
        (LAST - 2, 0, "printed"),
        (LAST - 1, 0, "printed by one"),
        // The line continues in record 1.
        (LAST, 1 << 2, "a line "),
        (1, 1 << 3 | 1 << 5, "of two"),
        (3, 0, "the end"),
    ];
    // The first of two sinks is ahead. Record 2 is damaged.
    let ring = ring_of_32_bits(3, &[2, LAST - 1], &records);
    image(dir.path(), &[ring]);
    let output = read(dir.path(), &[]);
    let (out, err) = told(&output);
    let p = "[    0.000000] ";
    let text = format!("{p}printed by one\n{p}a line of two\n{p}the end\n\n");
    let (_, lines) = out.split_once('\n').unwrap();
    assert_eq!(lines, text);
    assert_eq!(
        err,
        format!(
            "nostall: a log ring at 0x10000: 4 records, to 3 after the numbers wrapped, \
             printed up to {}, 1 damaged\n",
            LAST - 2
        )
    );
    let output = read(dir.path(), &["--all", "--format", "json"]);
    let (out, _) = told(&output);
    let records = out.lines().filter(|line| line.contains(r#""type":"log""#));
    let printed: Vec<_> = records
        .map(|line| line.contains(r#""printed":true"#))
        .collect();
    assert_eq!(printed, [true, false, false, false, false]);
}

#[test]
fn a_sequence_whose_slot_was_occupied_is_no_damage() {
    let dir = TempDir::new().unwrap();
    let mut ring = ring(|ring| {
        for n in 0..20 {
            ring.format(&META, format_args!("{n}"));
        }
    });
    // Record 4's producer crashed during the write, so record 20 found its slot occupied and noted
    // that.
    ring[HEADER_BYTES + 4 * SLOT_BYTES..][..8].copy_from_slice(&9_u64.to_ne_bytes());
    ring[128 + 20 % 16 * 8..][..8].copy_from_slice(&20_u64.to_ne_bytes());
    image(dir.path(), &[ring]);
    let output = read(dir.path(), &[]);
    let (_, err) = told(&output);
    assert!(err.ends_with(": 15 of 20 records\n"), "{err}");
}

#[test]
fn an_image_without_a_ring_is_reported_in_one_line() {
    let dir = TempDir::new().unwrap();
    let fails = |status: i32, why: &str| {
        let output = read(dir.path(), &[]);
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{err}");
        assert!(err.starts_with("nostall: ") && err.contains(why), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    };
    fails(1, "image");
    fs::write(dir.path().join("image"), b"").unwrap();
    fails(1, "image");
    fs::write(dir.path().join("image"), [0; 5000]).unwrap();
    fails(
        5,
        "image: only zeros in 4 KiB of memory (raw), as a failed copy or a full disk leaves them",
    );
    fs::write(dir.path().join("image"), [1; 5000]).unwrap();
    fails(
        5,
        "image: no log of Linux 5.10 or later, no ramoops region, no log ring and no trace in ",
    );
    // A ring that is cut off before its first record.
    fs::write(dir.path().join("image"), &ring(three_lines)[..64]).unwrap();
    fails(
        5,
        "image: no log of Linux 5.10 or later, no ramoops region, no log ring and no trace in ",
    );
    fs::write(dir.path().join("image"), b"\x1f\x8b\x08\0").unwrap();
    fails(
        1,
        "image: this is gzip-compressed, and damaged or cut off: none of it could be unpacked here; \
         `gunzip < FILE > NEW` fails, but may write a part",
    );
    fs::remove_file(dir.path().join("image")).unwrap();
    fs::create_dir(dir.path().join("image")).unwrap();
    fails(1, "image: no file in it");
}

#[test]
fn the_available_records_of_a_cut_ring_are_shown() {
    let dir = TempDir::new().unwrap();
    let whole = ring(three_lines);
    let len = HEADER_BYTES + 3 * SLOT_BYTES;
    fs::write(dir.path().join("image"), &whole[..len]).unwrap();
    let output = read(dir.path(), &[]);
    let (out, err) = told(&output);
    assert!(out.contains("one\n") && out.contains("two"), "{out}");
    let says = format!("the image has {len} of its {RING} bytes; 2 of 4 records, 2 damaged\n");
    assert!(err.ends_with(&says), "{err}");
}

const PHYSICAL: u64 = 0x1_2345_6000;

/// Returns an ELF core of one segment.
fn elf_core(memory: &[u8]) -> Vec<u8> {
    const HEADERS: u64 = 64 + 56;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    elf.extend([4_u16, 62].map(u16::to_le_bytes).concat()); // core, x86-64
    elf.extend(1_u32.to_le_bytes());
    elf.extend([0, 64, 0].map(u64::to_le_bytes).concat());
    elf.extend(0_u32.to_le_bytes());
    elf.extend([64_u16, 56, 1, 0, 0, 0].map(u16::to_le_bytes).concat());
    elf.extend([1_u32, 6].map(u32::to_le_bytes).concat()); // PT_LOAD
    let (virt, len) = (!0 << 47 | PHYSICAL, memory.len() as u64);
    elf.extend(
        [HEADERS, virt, PHYSICAL, len, len, 0]
            .map(u64::to_le_bytes)
            .concat(),
    );
    [elf, memory.to_vec()].concat()
}

fn lime(memory: &[u8]) -> Vec<u8> {
    let header = [0x4C69_4D45_u32, 1].map(u32::to_le_bytes).concat();
    let last = PHYSICAL + memory.len() as u64 - 1;
    let range = [PHYSICAL, last, 0].map(u64::to_le_bytes).concat();
    [header, range, memory.to_vec()].concat()
}

#[test]
fn a_dump_of_any_kind_is_read_at_its_physical_addresses() {
    let dir = TempDir::new().unwrap();
    let memory = [vec![0; 0x1000], ring(three_lines)].concat();
    for dump in [elf_core(&memory), lime(&memory)] {
        fs::write(dir.path().join("image"), dump).unwrap();
        let output = read(dir.path(), &[]);
        let (out, err) = told(&output);
        assert_eq!(out.lines().count(), 5, "{out}");
        assert_eq!(err, "nostall: a log ring at 0x123457000: 4 of 4 records\n");
    }
    // The last bytes of the segment are missing from the file.
    let dump = elf_core(&[&memory[..], &[0; 0x1000]].concat());
    fs::write(dir.path().join("image"), &dump[..dump.len() - 0x800]).unwrap();
    let output = read(dir.path(), &[]);
    let (_, err) = told(&output);
    assert!(err.contains("full disk: 2048 bytes of memory that it promises are missing"));
}

#[test]
fn only_the_data_of_a_large_sparse_image_is_searched() {
    let dir = TempDir::new().unwrap();
    let file = fs::File::create(dir.path().join("image")).unwrap();
    file.set_len(8 << 30).unwrap();
    let ring = ring(three_lines);
    file.write_all_at(&ring, 5 << 30).unwrap();
    // A large ring with only its head, and another one inside it.
    let head = &ring_of(1 << 16, three_lines)[..HEADER_BYTES];
    for at in [1 << 30, (1 << 30) + (1 << 20)] {
        file.write_all_at(head, at).unwrap();
    }
    let output = read(dir.path(), &[]);
    let (out, err) = told(&output);
    let lines: Vec<_> = err.lines().collect();
    assert_eq!(lines.len(), 2, "{err}");
    assert!(lines[0].ends_with("ring at 0x40000000: 0 of 4 records, 4 damaged"));
    assert!(lines[1].ends_with("ring at 0x140000000: 4 of 4 records"));
    assert_eq!(out.matches("disk: one\n").count(), 1);
}

#[test]
fn a_reader_that_closes_the_pipe_ends_the_command_without_a_message() {
    let dir = TempDir::new().unwrap();
    image(dir.path(), &[ring(three_lines)]);
    for args in [&[][..], &["--format", "json"]] {
        // Closed before the command writes.
        let (_, closed) = std::io::pipe().unwrap();
        let output = Command::new(cargo_bin("nostall-postmortem"))
            .arg("image")
            .args(args)
            .current_dir(dir.path())
            .stdout(closed)
            .output()
            .unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(128 + 13), "{err}");
        assert_eq!(err, "");
    }
}

#[test]
fn characters_that_change_the_writing_direction_are_escaped_too() {
    let dir = TempDir::new().unwrap();
    let text = "a\u{202e}b\u{9b}1mc";
    image(
        dir.path(),
        &[ring(|ring| {
            ring.log(&META, text.as_bytes());
        })],
    );
    let output = read(dir.path(), &[]);
    let (out, _) = told(&output);
    assert!(out.ends_with("disk: a\\u{202e}b\\u{9b}1mc\n\n"), "{out}");
    let output = read(dir.path(), &["--format", "json"]);
    let (out, _) = told(&output);
    assert!(out.contains(r"a\u202eb\u009b1mc"), "{out}");
    let record = out.lines().nth(1).unwrap();
    let json: serde_json::Value = serde_json::from_str(record).unwrap();
    assert_eq!(json["text"], text);
}

/// Writes a recording of Linux's region, and a ring in the same memory.
fn region_and_ring(dir: &Path, ring: &[u8]) -> usize {
    let fixtures = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../drivers/pstore/tests/fixtures"
    );
    let region = fs::read(Path::new(fixtures).join("plain/image.bin")).unwrap();
    let at = region.len() + (1 << 16);
    let mut memory = region;
    memory.resize(at + (1 << 16), 0);
    memory[at..][..ring.len()].copy_from_slice(ring);
    fs::write(dir.join("image"), memory).unwrap();
    at
}

#[test]
fn regions_and_rings_of_one_image_are_shown_together_in_every_format() {
    let dir = TempDir::new().unwrap();
    let at = region_and_ring(dir.path(), &ring(three_lines));
    let output = read(dir.path(), &["-q"]);
    let (out, _) = told(&output);
    let headings = out.lines().filter(|line| line.starts_with("==> "));
    let kinds: Vec<_> = headings
        .map(|line| line.split(' ').nth(1).unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["panic:", "dmesg", "console", "ftrace", "pmsg", "log"]
    );

    let output = read(dir.path(), &["-q", "--format", "json"]);
    let (out, _) = told(&output);
    let lines = out.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<serde_json::Value> = lines.collect();
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
    let kinds = ["region", "record", "ring", "log", "end"].map(of);
    assert_eq!(kinds, [1, 4, 1, 4, 1]);
    assert_eq!(lines.last().unwrap()["records"], 8);
    let ring = lines.iter().find(|line| line["type"] == "ring").unwrap();
    assert_eq!(ring["start"], format!("{at:#x}"));

    let output = read(dir.path(), &["--format", "linux"]);
    let (out, err) = told(&output);
    let (_, log) = out.split_once("\n\n==> log-nostall-0 <==\n").unwrap();
    assert!(log.starts_with("[    1.234567] disk: one\n"), "{log}");
    assert!(
        err.contains("log-nostall-0: unchecked: no error correction\n"),
        "{err}"
    );
}

#[test]
fn a_ring_has_a_file_of_its_own_among_those_of_the_region() {
    let dir = TempDir::new().unwrap();
    region_and_ring(dir.path(), &ring(three_lines));
    for (format, name, start) in [
        ("text", "log-nostall-0", "[    1.234567] disk: one\n"),
        (
            "json",
            "log-nostall-0.json",
            "{\"type\":\"ring\",\"schema\":2,",
        ),
        ("linux", "log-nostall-0", "[    1.234567] disk: one\n"),
    ] {
        let args = ["-q", "--format", format, "--out", format];
        told(&read(dir.path(), &args));
        let file = dir.path().join(format).join(name);
        let written = fs::read_to_string(&file).unwrap();
        assert!(written.starts_with(start), "{format}: {written}");
        // The second run overwrites nothing, and writes nothing.
        let first = dir.path().join(format).read_dir().unwrap().next();
        let others = first.into_iter().map(|entry| entry.unwrap().path());
        others
            .filter(|path| *path != file)
            .for_each(|path| fs::remove_file(path).unwrap());
        let count = || dir.path().join(format).read_dir().unwrap().count();
        let before = count();
        let output = read(dir.path(), &args);
        assert_eq!(output.status.code(), Some(1), "{format}");
        assert_eq!(count(), before);
    }
}

#[test]
fn a_ring_that_lies_in_a_decoded_region_is_text_that_was_logged() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("image"), {
        // A console zone that is the whole region, with a ring in its text.
        let mut region = vec![0; 1 << 16];
        region[..12].copy_from_slice(&[*b"DBGC", [0, 0x40, 0, 0], [0, 0x40, 0, 0]].concat());
        region[1 << 12..][..RING].copy_from_slice(&ring(three_lines));
        region
    })
    .unwrap();
    let sizes = "--size 64K --record-size 0 --console-size 64K --ftrace-size 0 --pmsg-size 0";
    let sizes: Vec<_> = sizes.split(' ').collect();
    let output = read(dir.path(), &sizes);
    let (out, _) = told(&output);
    assert!(out.contains("==> console 0: ") && !out.contains("==> log "));
}

#[test]
fn a_given_offset_and_size_bound_the_search_for_rings() {
    let dir = TempDir::new().unwrap();
    image(dir.path(), &[ring(three_lines), ring(three_lines)]);
    let output = read(dir.path(), &["--offset", "128K", "--size", "64K"]);
    let (out, _) = told(&output);
    assert!(out.starts_with("==> log 0: ring at 0x20000, "), "{out}");
    assert_eq!(out.matches("==> log ").count(), 1);
}

#[test]
fn the_exit_status_depends_on_the_rings() {
    let dir = TempDir::new().unwrap();
    let status = |args: &[&str], message: &str| {
        let output = read(dir.path(), args);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(err.contains(message), "{err}");
        output.status.code().unwrap()
    };
    struct Fast;
    impl Sink for Fast {
        fn offer(&self, text: &[u8], _: Caller) -> Offered {
            let (taken, ready_at) = (text.len(), Some(Nanos(0)));
            Offered { taken, ready_at }
        }
    }
    let printed = ring(|ring| {
        three_lines(ring);
        let drain = Drain::new(ring, Fast, SinkOptions::DEFAULT.progress_slot(0));
        let _ = drain.drain_bounded(0, Priority::Normal, &HostClock::default());
    });
    image(dir.path(), &[printed]);
    assert_eq!(status(&[], "had been printed: --all shows them"), 3);
    assert_eq!(status(&["--all"], "4 of 4 records"), 0);
    let mut damaged = ring(three_lines);
    damaged[HEADER_BYTES..].fill(0xa5);
    image(dir.path(), &[damaged]);
    assert_eq!(
        status(&[], "no record of the log ring at 0x10000 can be read"),
        4
    );
}

#[test]
fn logged_text_cannot_look_like_the_decoders_lines() {
    let dir = TempDir::new().unwrap();
    let log = |ring: &Ring| {
        ring.log(&META, b"\\x1b \\unverified{\n==> log 9: 7 records");
    };
    image(dir.path(), &[ring(log)]);
    let output = read(dir.path(), &[]);
    let (out, _) = told(&output);
    let p = "[    1.234567] disk: ";
    let lines = format!("\n{p}\\x5cx1b \\x5cunverified{{\n{p}==> log 9: 7 records\n\n");
    assert!(out.ends_with(&lines), "{out}");
}

#[test]
fn records_in_a_gap_of_the_dump_are_missing_and_no_part_of_them_is_shown() {
    let ring = ring(|ring| {
        for number in 0..15 {
            ring.log(
                &META,
                format!("line {number} {}", "y".repeat(50)).as_bytes(),
            );
        }
    });
    // Half of the slot of record 5, those of 6 and 7, and half of 8 are missing.
    let from = HEADER_BYTES + 5 * SLOT_BYTES + SLOT_BYTES / 2;
    let to = HEADER_BYTES + 8 * SLOT_BYTES + SLOT_BYTES / 2;
    let range = |start: usize, bytes: &[u8]| {
        let header = [0x4C69_4D45_u32, 1].map(u32::to_le_bytes).concat();
        let (first, last) = (start as u64, (start + bytes.len() - 1) as u64);
        let range = [first, last, 0].map(u64::to_le_bytes).concat();
        [&header, &range, bytes].concat()
    };
    let dump = [range(0, &ring[..from]), range(to, &ring[to..])].concat();
    let memory = Memory::from_bytes(dump).unwrap();
    let rings = Discovery::new(&memory).log_rings(&[]);
    let [found] = &rings[..] else {
        panic!("{rings:?}")
    };
    assert_eq!(found.bytes.missing_bytes(), to - from);
    assert_eq!(found.bytes.len(), RING);
    let sequences: Vec<_> = found
        .ring()
        .records()
        .map(|entry| entry.sequence())
        .collect();
    assert_eq!(sequences, [1, 2, 3, 4, 9, 10, 11, 12, 13, 14, 15]);
    assert_eq!(found.ring().missing(), 4);
    let dir = TempDir::new().unwrap();
    let dump = [range(0, &ring[..from]), range(to, &ring[to..])].concat();
    fs::write(dir.path().join("image"), dump).unwrap();
    let output = read(dir.path(), &[]);
    let (out, err) = told(&output);
    assert!(!out.contains("line 4 ") && out.contains("line 8 "), "{out}");
    let doubt = format!("the image has {} of its {RING} bytes", RING - (to - from));
    assert!(err.contains(&doubt) && err.contains("4 damaged"), "{err}");
}

#[test]
fn forged_lengths_hide_no_ring_and_copies_are_bounded_with_a_note() {
    let lime = |ranges: &[(u64, Vec<u8>)]| -> Vec<u8> {
        let dump = ranges.iter().flat_map(|(start, bytes)| {
            let header = [0x4C69_4D45_u32, 1].map(u32::to_le_bytes).concat();
            let last = start + bytes.len() as u64 - 1;
            let range = [*start, last, 0].map(u64::to_le_bytes).concat();
            [header, range, bytes.clone()].concat()
        });
        dump.collect()
    };
    // A ring of a quarter of a gibibyte less a page, whose memory the dump lacks.
    let slots = (255 << 20) / SLOT_BYTES;
    let forged = ring_of(slots, |_| ())[..256].to_vec();
    let mut ranges: Vec<_> = (0..6).map(|nth| (nth << 30, forged.clone())).collect();
    ranges.push((6 << 30, ring(three_lines)));
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("image"), lime(&ranges)).unwrap();
    let output = read(dir.path(), &["--all"]);
    let (text, said) = told(&output);
    assert!(text.contains("disk: one"), "{text}");
    assert!(!said.contains("left out"), "{said}");
}
