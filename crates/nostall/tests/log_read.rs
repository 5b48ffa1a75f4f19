//! `nostall log read`: what a dead machine had logged and not printed.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use nostall_console::{
    Drain, Level, Meta, Offered, Options, Priority, Ring, Sink, layout::HEADER_BYTES,
    layout::SLOT_BYTES,
};
use nostall_io::Nanos;
use tempfile::TempDir;

/// Of a ring of 16 slots.
const RING: usize = HEADER_BYTES + 16 * SLOT_BYTES;

fn read(dir: &Path, args: &[&str]) -> Output {
    Command::new(cargo_bin("nostall"))
        .args(["log", "read", "image"])
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

/// Takes a line or two, and then nothing.
struct Slow;

impl Sink for Slow {
    fn offer(&self, text: &[u8], _: Priority) -> Offered {
        let end = text.iter().position(|&byte| byte == b'\n');
        Offered {
            taken: end.map_or(0, |end| end + 1),
            ready_at: Some(Nanos(u64::MAX)),
        }
    }
}

/// A ring's memory, at a 64-byte boundary, after `log` has been at it.
fn ring(log: impl FnOnce(&Ring)) -> Vec<u8> {
    let mut memory = vec![0_u8; RING + 64];
    let skip = memory.as_ptr().align_offset(64);
    log(Ring::in_memory(&mut memory[skip..][..RING]).unwrap());
    memory[skip..][..RING].to_vec()
}

fn three_lines(ring: &Ring) {
    for text in ["one", "two \x1b[2J", &"x".repeat(120)] {
        ring.log(&META, text.as_bytes());
    }
}

/// A machine's memory of 1 MiB with these rings in it, from 64 KiB on, 64 KiB apart.
fn image(dir: &Path, rings: &[Vec<u8>]) {
    let mut memory = vec![0; 1 << 20];
    for (n, ring) in rings.iter().enumerate() {
        memory[(n + 1) << 16..][..ring.len()].copy_from_slice(ring);
    }
    // The words alone, as a program has them among its constants.
    memory[0x400..0x410].copy_from_slice(b"nostall log ring");
    fs::write(dir.join("image"), memory).unwrap();
}

#[test]
fn without_a_place_every_record_is_shown() {
    let dir = TempDir::new().unwrap();
    image(dir.path(), &[ring(three_lines)]);
    let output = read(dir.path(), &[]);
    let (out, err) = told(&output);
    let p = "[    1.234567] disk: ";
    let long = "x".repeat(120);
    assert_eq!(out, format!("{p}one\n{p}two \\x1b[2J\n{p}{long}\n"));
    assert_eq!(err, "nostall: a log ring at 0x10000: 4 of 4 records\n");
}

#[test]
fn what_had_been_printed_is_left_out_unless_all_is_asked_for() {
    let dir = TempDir::new().unwrap();
    let ring = ring(|ring| {
        three_lines(ring);
        let drain = Drain::new(ring, Slow, Options::DEFAULT.place(2));
        let _ = drain.slice(0, Priority::Normal, Nanos(0));
    });
    image(dir.path(), &[ring]);
    let output = read(dir.path(), &[]);
    let (out, err) = told(&output);
    assert!(!out.contains("one") && out.contains("two"), "{out}");
    assert!(err.contains("3 of 4 records, printed up to 1\n"), "{err}");
    let output = read(dir.path(), &["--all", "--json"]);
    let (out, _) = told(&output);
    let lines: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let printed: Vec<_> = lines.iter().map(|line| &line["printed"]).collect();
    assert_eq!(printed, [true, false, false, false]);
    let first = serde_json::json!({
        "schema": 1, "ring": "0x10000", "sequence": 1, "time_ns": 1_234_567_890_u64, "cpu": 3,
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
fn several_rings_are_told_apart_and_damage_is_counted() {
    let dir = TempDir::new().unwrap();
    let mut damaged = ring(three_lines);
    // The second record's slot, the third's state: begun, not completed.
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
    assert!(out.starts_with("==> ring at 0x10000 <==\n"), "{out}");
    assert!(out.contains("\n\n==> ring at 0x20000 <==\n"), "{out}");
    assert!(out.ends_with("disk: \\xff\\xfe\n"), "{out}");
    let output = read(dir.path(), &["--json"]);
    let (out, _) = told(&output);
    assert!(out.contains(r#""sequence":3,"unfinished":true"#), "{out}");
    assert!(out.contains(r#""text_hex":"fffe""#), "{out}");
}

#[test]
fn an_image_without_a_ring_is_told_in_a_line() {
    let dir = TempDir::new().unwrap();
    let fails = |why: &str| {
        let output = read(dir.path(), &[]);
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        assert!(err.starts_with("nostall: ") && err.contains(why), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    };
    fails("image");
    fs::write(dir.path().join("image"), b"").unwrap();
    fails("image");
    image(dir.path(), &[]);
    fails("image: there is no log ring in it");
    // Cut off in the middle of one.
    let whole = ring(three_lines);
    fs::write(dir.path().join("image"), &whole[..RING / 2]).unwrap();
    fails("image: there is no log ring in it");
    fs::remove_file(dir.path().join("image")).unwrap();
    fs::create_dir(dir.path().join("image")).unwrap();
    fails("image is a directory, not an image");
}
