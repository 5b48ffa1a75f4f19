//! Linux's persistent ring buffers: our output equals that of Linux's next boot, line for line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::ftrace_ring::{
    Entry, Kernel, Merge, MergeBy, RingBuffer, RingSource, load_formats,
};
use nostall_postmortem::kernel::KernelOffset;
use nostall_postmortem::memory::Memory;
use nostall_postmortem::symbols::Symbols;
use nostall_tracefile::linux::Formats;
use nostall_tracefile::model::{EventKind, Source};
use tempfile::TempDir;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ftrace-ring")
}

pub(crate) fn gunzip(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    assert_eq!(bytes[..3], [0x1f, 0x8b, 8]);
    let name = match bytes[3] {
        0 => 0,
        8 => bytes[10..].iter().position(|byte| *byte == 0).unwrap() + 1,
        flags => panic!("gzip flags {flags:#x}"),
    };
    miniz_oxide::inflate::decompress_to_vec(&bytes[10 + name..bytes.len() - 8]).unwrap()
}

fn region(name: &str) -> Vec<u8> {
    gunzip(&fixtures().join(name).join("region.bin.gz"))
}

/// Returns the body of Linux's `trace`, without the header's comments.
fn truth(name: &str) -> String {
    let text = String::from_utf8(gunzip(&fixtures().join(name).join("trace.txt.gz"))).unwrap();
    let lines = text
        .split_inclusive('\n')
        .skip_while(|line| line.starts_with('#'));
    lines.collect()
}

fn map() -> PathBuf {
    fixtures().join("System.map-6.12.gz")
}

fn postmortem(dir: &Path, args: &[&str]) -> Output {
    Command::new(cargo_bin("nostall-postmortem"))
        .args(["image", "--verbose"])
        .args(args)
        .current_dir(dir)
        .output()
        .unwrap()
}

/// Runs the command on an image, and returns the file of its first ring buffer.
fn linux(image: &[u8], folder: &str) -> String {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("image"), image).unwrap();
    let formats = fixtures().join(folder);
    let map = map_of(folder);
    let args = [
        "--symbols",
        map.to_str().unwrap(),
        "--event-formats",
        formats.to_str().unwrap(),
        "--format",
        "linux",
        "--out",
        "out",
    ];
    let output = postmortem(dir.path(), &args);
    assert!(output.status.success(), "{output:?}");
    fs::read_to_string(dir.path().join("out/ftrace-ring-0.trace")).unwrap()
}

#[track_caller]
fn same(ours: &str, truth: &str) {
    for (number, (ours, truth)) in ours.lines().zip(truth.lines()).enumerate() {
        assert_eq!(ours, truth, "line {number}");
    }
    assert_eq!(ours.lines().count(), truth.lines().count());
    assert_eq!(ours, truth);
}

/// Returns the kernel's symbol map for a recording.
fn map_of(name: &str) -> PathBuf {
    let own = fixtures().join(name).join("System.map");
    if own.exists() { own } else { map() }
}

/// Folder with the formats and the number of lines.
const WHOLE: [(&str, usize); 12] = [
    ("events-two-boots", 1115),
    ("events-2cpu", 914),
    ("events-gaps-2cpu", 3018),
    ("func-2cpu", 6900),
    ("func-2cpu-kaslr", 4272),
    ("func-2cpu-killed", 36446),
    ("func-2cpu-wrapped", 17789),
    ("graph-2cpu", 6593),
    ("sys-2cpu", 1884),
    ("userstack-2cpu", 196),
    ("func-masked-4cpu", 964),
    ("graph-4cpu-thresh", 154),
];

#[test]
fn each_recording_decodes_to_the_lines_of_linux_after_the_next_boot() {
    for (name, lines) in WHOLE {
        let truth = truth(name);
        assert_eq!(truth.lines().count(), lines, "{name}");
        same(&linux(&region(name), name), &truth);
    }
}

#[test]
fn each_record_has_the_time_that_linux_has_in_nanoseconds() {
    for (name, _) in WHOLE {
        let raw = gunzip(&fixtures().join(name).join("trace_raw.txt.gz"));
        let raw = String::from_utf8_lossy(&raw).into_owned();
        let image = Memory::from_bytes(region(name)).unwrap();
        let buffer = &Discovery::within(&image, 0..u64::MAX, None).ring_buffers(&[])[0];
        let mut merge = Merge::new(&image, buffer, MergeBy::Linux);
        let mut records = 0;
        for line in raw.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let mut number = || words.next()?.parse::<u64>().ok();
            let (Some(pid), Some(cpu), Some(time)) = (number(), number(), number()) else {
                // The rest of a marker with several lines.
                continue;
            };
            let record = merge.next(&image, buffer).unwrap();
            let own = u32::from_le_bytes(record.payload[4..8].try_into().unwrap());
            assert_eq!(
                (u64::from(own), record.cpu as u64, record.time),
                (pid, cpu, time),
                "{name}"
            );
            records += 1;
        }
        assert!(merge.next(&image, buffer).is_none(), "{name}");
        assert_eq!(records, buffer.records(), "{name}");
    }
}

#[test]
fn a_bad_record_costs_its_page_and_not_its_cpu_and_the_gap_is_marked() {
    let (ours, truth) = (
        linux(&region("func-2cpu-damaged"), "func-2cpu"),
        truth("func-2cpu-damaged"),
    );
    let of = |text: &str, cpu: &str| {
        let lines = text.lines().filter(|line| line.contains(cpu));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(of(&ours, "[000]"), of(&truth, "[000]"));
    assert_eq!(of(&ours, "[000]").len(), 8926);
    // The undamaged recording has 8,863 records of CPU 1. The page of the bad one had 145.
    let undamaged = of(&self::truth("func-2cpu-wrapped"), "[001]");
    let kept = of(&ours, "[001]");
    assert_eq!((undamaged.len(), kept.len()), (8863, 8733));
    let gap = kept
        .iter()
        .zip(&undamaged)
        .take_while(|(a, b)| a == b)
        .count();
    assert_eq!(kept[gap..], undamaged[gap + 130..]);
    assert_eq!(ours.matches("CPU:1 [LOST EVENTS]\n").count(), 1);
    let lines: Vec<_> = ours.lines().collect();
    let mark = lines
        .iter()
        .position(|line| *line == "CPU:1 [LOST EVENTS]")
        .unwrap();
    assert_eq!(lines[mark + 1], kept[gap]);
}

#[test]
fn every_format_reports_the_unreadable_part_of_a_damaged_buffer() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("image"), region("func-2cpu-damaged")).unwrap();
    let notice = "CPU 1: sub-buffer 10 at 0x4b000 is damaged at byte 420 of its data: 15 records \
                  before that are unverified, and 3660 bytes are not read";
    let text = postmortem(dir.path(), &[]);
    let out = String::from_utf8(text.stdout).unwrap();
    assert!(out.contains(notice), "{out:.500}");
    assert!(out.contains("CPU 1: Linux drops all of it; 8733 records are kept here"));
    assert_eq!(out.matches(" (unverified)\n").count(), 15);
    assert_eq!(out.matches("==>   CPU 1: lost records\n").count(), 1);
    let linux = postmortem(dir.path(), &["--format", "linux"]);
    assert!(String::from_utf8(linux.stderr).unwrap().contains(notice));
    let json = postmortem(dir.path(), &["--format", "json"]);
    let lines: Vec<serde_json::Value> = String::from_utf8(json.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["type"], "buffer");
    assert_eq!(lines[0]["records"], 17659);
    assert_eq!(lines[0]["cpus"][0]["shown_by_linux"], true);
    let damaged = &lines[0]["cpus"][1];
    assert_eq!(damaged["shown_by_linux"], false);
    assert_eq!(
        damaged["damaged"][0],
        serde_json::json!({"subbuffer": 10, "state": "cut", "records": 15, "offset": 420, "unread_bytes": 3660})
    );
    let events: Vec<_> = lines
        .iter()
        .filter(|line| line["type"] == "entry")
        .collect();
    assert_eq!(events.len(), 17659);
    let count = |key: &str, value: serde_json::Value| {
        events.iter().filter(|event| event[key] == value).count()
    };
    assert_eq!(count("trust", "unverified".into()), 15);
    assert_eq!(count("lost_before", true.into()), 1);
    assert_eq!(lines.last().unwrap()["records"], 17659);
}

#[test]
fn json_has_functions_durations_and_texts() {
    let dir = TempDir::new().unwrap();
    let map = map();
    let formats = fixtures().join("events-2cpu/formats");
    let args = [
        "-q",
        "--format",
        "json",
        "--symbols",
        map.to_str().unwrap(),
        "--event-formats",
        formats.to_str().unwrap(),
    ];
    let events = |name: &str| -> Vec<serde_json::Value> {
        fs::write(dir.path().join("image"), region(name)).unwrap();
        let output = postmortem(dir.path(), &args);
        let out = String::from_utf8(output.stdout).unwrap();
        let lines = out.lines().map(|line| serde_json::from_str(line).unwrap());
        lines
            .filter(|line: &serde_json::Value| line["type"] == "entry")
            .collect()
    };
    let calls = events("func-2cpu-kaslr");
    let call = calls
        .iter()
        .find(|event| event["function"] == "schedule")
        .unwrap();
    assert_eq!(call["event"], "function");
    // With print formats, although Linux printed these fields in hexadecimal.
    assert!(
        calls
            .iter()
            .any(|event| event["text"] == "softirq_raise: vec=7 [action=SCHED]")
    );
    let graph = events("graph-2cpu");
    let exit = graph
        .iter()
        .find(|event| event["event"] == "funcgraph_exit")
        .unwrap();
    assert_eq!(exit["function"], "ksys_dup3");
    assert_eq!(exit["duration_ns"], 4_980_070);
    assert_eq!(exit["return_value"], "0x1");
}

/// Returns the region in the middle of other memory, as in a machine's whole RAM.
fn within(region: &[u8], before: usize, after: usize) -> Vec<u8> {
    let noise = |len: usize| (0..len).map(|at| ((at * 2_654_435_761) >> 13) as u8);
    noise(before)
        .chain(region.iter().copied())
        .chain(noise(after))
        .collect()
}

#[test]
fn a_region_is_found_at_any_offset_of_any_image() {
    let (region, truth) = (region("events-2cpu"), truth("events-2cpu"));
    for before in [0, 4096, 8 << 20, 12_345] {
        same(
            &linux(&within(&region, before, 100_000), "events-2cpu"),
            &truth,
        );
    }
    // LiME, in two ranges whose border lies in a sub-buffer.
    let lime = |start: u64, part: &[u8]| {
        let mut header = [0x4C69_4D45_u32.to_le_bytes(), 1_u32.to_le_bytes()].concat();
        header.extend(start.to_le_bytes());
        header.extend((start + part.len() as u64 - 1).to_le_bytes());
        header.extend([0; 8]);
        [&header, part].concat()
    };
    let (a, b) = region.split_at(0x1800);
    let image = [lime(0xFD5_3000, a), lime(0xFD5_3000 + a.len() as u64, b)].concat();
    same(&linux(&image, "events-2cpu"), &truth);
}

#[test]
fn two_regions_of_one_image_have_a_file_each() {
    let dir = TempDir::new().unwrap();
    let image = [
        region("events-2cpu"),
        vec![0; 4096],
        region("events-gaps-2cpu"),
    ]
    .concat();
    fs::write(dir.path().join("image"), image).unwrap();
    let (map, formats) = (map(), fixtures().join("events-2cpu"));
    let args = [
        "--format",
        "linux",
        "--out",
        "out",
        "--symbols",
        map.to_str().unwrap(),
        "--event-formats",
        formats.to_str().unwrap(),
    ];
    assert!(postmortem(dir.path(), &args).status.success());
    for (number, name) in [(0, "events-2cpu"), (1, "events-gaps-2cpu")] {
        let file = dir.path().join(format!("out/ftrace-ring-{number}.trace"));
        same(&fs::read_to_string(file).unwrap(), &truth(name));
    }
    // Nothing is written over without --force.
    assert_eq!(postmortem(dir.path(), &args).status.code(), Some(1));
}

#[test]
fn two_regions_of_the_same_size_that_touch_are_not_one() {
    let mut other = region("events-2cpu");
    // Another mapping in the kernel.
    for (cpu, at) in [0, 0x40000]
        .into_iter()
        .flat_map(|cpu| [(cpu, 24), (cpu, 32), (cpu, 40)])
    {
        let field = cpu + at;
        let address = u64::from_le_bytes(other[field..field + 8].try_into().unwrap());
        put(&mut other, field, &(address + 0x1000_0000).to_le_bytes());
    }
    let image = Memory::from_bytes([region("func-2cpu"), other].concat()).unwrap();
    let found = Discovery::within(&image, 0..u64::MAX, None).ring_buffers(&[]);
    let records: Vec<_> = found
        .iter()
        .map(|buffer| (buffer.cpus.len(), buffer.records()))
        .collect();
    assert_eq!(records, [(2, 6900), (2, 914)]);
}

#[test]
fn the_map_of_another_build_is_refused_with_both_offsets() {
    let map = String::from_utf8(gunzip(&map())).unwrap();
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("image"), region("func-2cpu-kaslr")).unwrap();
    let refused = |map: &str, parts: &[&str]| {
        fs::write(dir.path().join("map"), map).unwrap();
        let output = postmortem(
            dir.path(),
            &["--symbols", "map", "--format", "linux", "--out", "out"],
        );
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        for part in parts {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!dir.path().join("out/ftrace-ring-0.trace").exists());
    };
    // The object moved, the function did not.
    let other = map.replace(
        "ffffffff81a66b88 b rb_data_ptr",
        "ffffffff81a66b80 b rb_data_ptr",
    );
    refused(
        &other,
        &[
            "symbols are of another kernel build",
            "rb_meta_init_text_addr gives the offset 0x14c00000",
            "rb_data_ptr gives the offset 0x14c00008",
        ],
    );
    // Both moved alike, but not by a multiple of 2 MiB.
    let other = other.replace(
        "ffffffff8111cf50 t rb_meta_init_text_addr",
        "ffffffff8111cf48 t rb_meta_init_text_addr",
    );
    refused(&other, &["gives the offset 0x14c00008"]);
}

#[test]
fn without_formats_events_are_named_by_number_and_without_symbols_functions_by_address() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("image"), region("func-2cpu-kaslr")).unwrap();
    let output = postmortem(dir.path(), &[]);
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(
        out.contains(": event 75: [no format: 07 00 00 00]\n"),
        "{out:.3000}"
    );
    assert!(out.contains(" 0xffffffff95fc33c4 <-0xffffffff95fc86f1\n"));
    // With numbers and names alone.
    let ids = fs::read(fixtures().join("func-2cpu-kaslr/event_ids")).unwrap();
    let formats = dir.path().join("formats");
    fs::write(
        &formats,
        "name: none\nID: 9999\nformat:\n\nprint fmt: \"\"\n",
    )
    .unwrap();
    fs::write(dir.path().join("event_ids"), ids).unwrap();
    let output = postmortem(dir.path(), &["--event-formats", "formats"]);
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains(": softirq_raise: [no format: 07 00 00 00]\n"));
}

#[test]
fn a_copy_of_the_directory_events_serves_as_well_as_formats_in_a_row() {
    let all = fs::read_to_string(fixtures().join("events-2cpu/formats")).unwrap();
    let dir = TempDir::new().unwrap();
    for event in all.split("name: ").skip(1) {
        let name = event.lines().next().unwrap();
        let folder = dir.path().join("events/system").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("format"), format!("name: {event}")).unwrap();
        let id = event.lines().nth(1).unwrap().strip_prefix("ID: ").unwrap();
        fs::write(folder.join("id"), format!("{id}\n")).unwrap();
    }
    let tree = load_formats(&dir.path().join("events")).unwrap();
    assert_eq!(tree.len(), all.matches("name: ").count());
    fs::write(dir.path().join("image"), region("events-2cpu")).unwrap();
    let map = map();
    let args = [
        "--symbols",
        map.to_str().unwrap(),
        "--event-formats",
        "events",
        "--format",
        "linux",
    ];
    let out = String::from_utf8(postmortem(dir.path(), &args).stdout).unwrap();
    same(out.split_once(" <==\n").unwrap().1, &truth("events-2cpu"));
    assert!(load_formats(&dir.path().join("events/system/print/id")).is_err());
    let output = postmortem(dir.path(), &["--event-formats", "nothing-here"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("--event-formats nothing-here")
    );
}

#[test]
fn linuxs_choice_among_several_names_for_an_address_is_used() {
    let symbols = Symbols::load(map()).unwrap();
    // The recording `func-2cpu-killed` shows the first of each pair for the common address.
    let map = String::from_utf8(gunzip(&map())).unwrap();
    for (wanted, alias) in [
        ("__do_sys_getuid", "__x64_sys_getuid"),
        ("__do_sys_rt_sigreturn", "__x64_sys_rt_sigreturn"),
    ] {
        let address = |name: &str| {
            let line = map
                .lines()
                .find(|line| line.ends_with(&format!(" {name}")))
                .unwrap();
            u64::from_str_radix(&line[..16], 16).unwrap()
        };
        assert_eq!(address(wanted), address(alias));
        assert_eq!(symbols.lookup(address(alias)).unwrap().name, wanted);
    }
    let made = "81000000 T _stext\n81000010 W weak\n81000010 T __two\n81000010 t _b\n81000010 T _a\n81000020 T _etext\n";
    let symbols = Symbols::parse(made.as_bytes()).unwrap();
    assert_eq!(symbols.lookup(0x8100_0018).unwrap().name, "_b");
}

/// Writes a number into a region.
fn put(region: &mut [u8], at: usize, bytes: &[u8]) {
    region[at..at + bytes.len()].copy_from_slice(bytes);
}

#[test]
fn a_cpu_whose_description_is_gone_keeps_its_records() {
    let truth = truth("func-2cpu-wrapped");
    // The magic number; the whole description with its table; the table; head and commit.
    for (at, len) in [(0, 4), (0, 0x200), (56, 8), (32, 16)] {
        for cpu in [0, 0x40000] {
            let mut region = region("func-2cpu-wrapped");
            put(&mut region, cpu + at, &vec![0xFF; len]);
            let image = Memory::from_bytes(region.clone()).unwrap();
            let found = Discovery::within(&image, 0..u64::MAX, None).ring_buffers(&[]);
            assert_eq!(found.len(), 1, "{at:#x} {len} {cpu:#x}");
            let buffer = &found[0];
            assert_eq!(buffer.records(), 17789, "{at:#x} {len} {cpu:#x}");
            assert_eq!(buffer.cpus.len(), 2);
            assert!(!buffer.cpus[usize::from(cpu > 0)].problems.is_empty());
            assert!(buffer.cpus[usize::from(cpu == 0)].problems.is_empty());
            same(&linux(&region, "func-2cpu-wrapped"), &truth);
        }
    }
}

#[test]
fn a_page_with_an_impossible_commit_or_time_does_not_disturb_the_others() {
    let region = region("func-2cpu-wrapped");
    let read = |region: Vec<u8>| {
        let image = Memory::from_bytes(region).unwrap();
        Discovery::within(&image, 0..u64::MAX, None)
            .ring_buffers(&[])
            .remove(0)
    };
    let page = 0x1000 + 20 * 0x1000;
    let mut bad = region.clone();
    put(&mut bad, page + 8, &5000_u64.to_le_bytes());
    let buffer = read(bad);
    assert_eq!(buffer.cpus[0].records(), 8926 - 145);
    assert_eq!((buffer.boots(), buffer.cpus[0].damaged().count()), (1, 1));
    for time in [5_u64, u64::MAX / 4] {
        let mut bad = region.clone();
        put(&mut bad, page, &time.to_le_bytes());
        let buffer = read(bad);
        assert_eq!(buffer.records(), 17789);
        assert_eq!(
            (buffer.boots(), buffer.cpus[0].damaged().count()),
            (1, 1),
            "{time}"
        );
    }
}

/// Moves the times of a CPU's sub-buffers.
fn at_time(region: &mut [u8], first: usize, pages: std::ops::Range<usize>, start: u64) {
    for page in pages {
        let at = first + page * 0x1000;
        let time = u64::from_le_bytes(region[at..at + 8].try_into().unwrap());
        if time > 0 {
            put(region, at, &(time - start).to_le_bytes());
        }
    }
}

#[test]
fn records_of_two_boots_in_one_buffer_are_distinguished() {
    // The later half of each CPU gets times of another boot, which start anew.
    let mut region = region("func-2cpu");
    at_time(&mut region, 0x1000, 10..23, 2_200_000_000);
    at_time(&mut region, 0x41000, 15..28, 2_200_000_000);
    let image = Memory::from_bytes(region.clone()).unwrap();
    let buffer = Discovery::within(&image, 0..u64::MAX, None)
        .ring_buffers(&[])
        .remove(0);
    assert_eq!(buffer.boots(), 2);
    assert!(!buffer.is_damaged());
    let mut merge = Merge::new(&image, &buffer, MergeBy::Boot);
    let mut before = (0, 0);
    let mut boots = [0; 2];
    while let Some(record) = merge.next(&image, &buffer) {
        let now = (record.boot, record.time);
        assert!(now >= before, "{now:?} after {before:?}");
        boots[record.boot as usize] += 1;
        before = now;
    }
    assert_eq!(boots.iter().sum::<u64>(), buffer.records());
    assert!(boots.iter().all(|records| *records > 1000), "{boots:?}");
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("image"), region).unwrap();
    let output = postmortem(dir.path(), &[]);
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("the records are of 2 boots"));
    assert_eq!(out.matches("==>   boot 1\n").count(), 1);
}

#[test]
fn two_recorded_boots_are_distinguished() {
    let image = Memory::from_bytes(region("events-two-boots")).unwrap();
    let buffer = Discovery::within(&image, 0..u64::MAX, None)
        .ring_buffers(&[])
        .remove(0);
    assert_eq!(buffer.boots(), 2);
    assert!(!buffer.is_damaged());
    let mut merge = Merge::new(&image, &buffer, MergeBy::Boot);
    let mut markers = Vec::new();
    while let Some(record) = merge.next(&image, &buffer) {
        if let Entry::Print { text, .. } = kernel_of(&image, &buffer).entry(&record.payload) {
            markers.push((record.boot, String::from_utf8(text.to_vec()).unwrap()));
        }
    }
    let boot_of = |start: &str| {
        let marker = markers.iter().find(|(_, text)| text.starts_with(start));
        marker.map(|(boot, _)| *boot)
    };
    assert_eq!(
        (boot_of("first"), boot_of("second")),
        (Some(0), Some(1)),
        "{markers:?}"
    );
}

fn kernel_of(image: &Memory, buffer: &RingBuffer) -> Kernel {
    Kernel::new(image, buffer, None, Formats::default(), None).unwrap()
}

#[test]
fn a_cpu_that_recorded_in_one_of_two_boots_only_belongs_to_the_nearer_one() {
    let mut region = region("func-2cpu");
    at_time(&mut region, 0x1000, 10..23, 2_200_000_000);
    at_time(&mut region, 0x41000, 0..28, 2_200_000_000);
    let image = Memory::from_bytes(region).unwrap();
    let buffer = Discovery::within(&image, 0..u64::MAX, None)
        .ring_buffers(&[])
        .remove(0);
    assert_eq!(buffer.boots(), 2);
    assert!(buffer.cpus[1].pages.iter().all(|page| page.boot == 1));
}

#[test]
fn a_buffer_that_a_reader_permuted_is_read_in_its_order() {
    // The reader's sub-buffer and two of the ring change places, as a consuming reader does it.
    let mut region = region("func-2cpu-wrapped");
    let truth = truth("func-2cpu-wrapped");
    let swap = |region: &mut [u8], a: usize, b: usize| {
        for at in 0..0x1000 {
            region.swap(0x1000 + a * 0x1000 + at, 0x1000 + b * 0x1000 + at);
        }
        for entry in region[56..56 + 4 * 63].chunks_exact_mut(4) {
            match entry[0] as usize {
                value if value == a => entry[0] = b as u8,
                value if value == b => entry[0] = a as u8,
                _ => {}
            }
        }
    };
    swap(&mut region, 0, 30);
    swap(&mut region, 30, 7);
    // Head was 2 and commit 1, and neither moved.
    same(&linux(&region, "func-2cpu-wrapped"), &truth);
}

/// Puts the CPUs of a recording into the layout of Linux 6.15.
fn as_6_15(region: &[u8], word: u32) -> Vec<u8> {
    let meta = (word & 0xffff) as usize;
    let mut made = vec![0; 0x80000];
    put(&mut made, 0, &0x0BAD_FEED_u32.to_le_bytes());
    put(&mut made, 4, &word.to_le_bytes());
    put(&mut made, 8, &0x80000_u64.to_le_bytes());
    let first = 24 + 24;
    put(&mut made, 16, &(first as u64).to_le_bytes());
    for (cpu, at) in [(0, first), (0x40000, 0x40000)] {
        put(&mut made, at, &region[cpu + 24..cpu + 56]);
        put(&mut made, at + meta, &region[cpu + 56..cpu + 56 + 4 * 63]);
        let pages = cpu + 0x1000..cpu + 0x40000;
        made[pages.clone()].copy_from_slice(&region[pages]);
    }
    made
}

#[test]
fn later_layouts_are_recognised_and_named() {
    let region = region("func-2cpu-wrapped");
    let truth = truth("func-2cpu-wrapped");
    for (word, name) in [
        (0x0018_0020, "Linux 6.15"),
        (0x0018_0028, "Linux after 6.15"),
    ] {
        let made = as_6_15(&region, word);
        let image = Memory::from_bytes(made.clone()).unwrap();
        let found = Discovery::within(&image, 0..u64::MAX, None).ring_buffers(&[]);
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!(found[0].version.name(), name);
        assert!(found[0].notes()[0].contains("was not compared"));
        // The offset is found from the traced addresses.
        same(&linux(&made, "func-2cpu-wrapped"), &truth);
    }
    // 6.14.9 has the KASLR offset in place of both addresses.
    let mut made = region.clone();
    for cpu in [0, 0x40000] {
        put(&mut made, cpu + 4, &48_u32.to_le_bytes());
        put(&mut made, cpu + 8, &0_u64.to_le_bytes());
        made.copy_within(cpu + 24..cpu + 56 + 4 * 63, cpu + 16);
    }
    let image = Memory::from_bytes(made.clone()).unwrap();
    assert_eq!(
        Discovery::within(&image, 0..u64::MAX, None).ring_buffers(&[])[0]
            .version
            .name(),
        "Linux 6.14.9"
    );
    same(&linux(&made, "func-2cpu-wrapped"), &truth);
}

#[test]
fn a_buffer_that_never_recorded_is_empty_and_a_cut_one_reports_the_missing_part() {
    let mut region = region("func-2cpu");
    for cpu in [0, 0x40000] {
        put(&mut region, cpu + 32, &[0; 16]);
        for page in 0..63 {
            put(&mut region, cpu + 0x1000 + page * 0x1000, &[0; 16]);
        }
    }
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("image"), &region).unwrap();
    let output = postmortem(dir.path(), &[]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("the ring buffer at 0x0 is empty")
    );
    let region = self::region("func-2cpu-wrapped");
    fs::write(dir.path().join("image"), &region[..0x50000]).unwrap();
    let output = postmortem(dir.path(), &[]);
    assert_eq!(output.status.code(), Some(0));
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("is not in the image"), "{out:.800}");
}

#[test]
fn the_records_are_a_source_for_the_reports() {
    let symbols = || Some(Symbols::load(map()).unwrap());
    let open = |name: &str, formats: Formats| {
        let image = Memory::from_bytes(region(name)).unwrap();
        let buffer = Discovery::within(&image, 0..u64::MAX, None)
            .ring_buffers(&[])
            .remove(0);
        RingSource::new(image, buffer, symbols(), formats).unwrap()
    };
    let mut source = open("graph-2cpu", Formats::default());
    let (mut enters, mut exits, mut others) = (0, 0, 0);
    let mut longest = 0;
    let mut before = 0;
    while let Some(event) = source.next_event().unwrap() {
        assert!(event.time >= before);
        before = event.time;
        match event.kind {
            EventKind::Enter { depth, .. } => {
                assert!(depth.is_some());
                enters += 1;
            }
            EventKind::Exit {
                duration, function, ..
            } => {
                assert!(!source.catalog().text(function.unwrap()).starts_with("0x"));
                longest = longest.max(duration.unwrap());
                exits += 1;
            }
            EventKind::Mark { text } => {
                assert_eq!(
                    source.catalog().text(text),
                    "tracing_mark_write: marker before the crash"
                );
                others += 1;
            }
            kind => panic!("{kind:?}"),
        }
    }
    assert_eq!((enters, exits, others), (4651, 4645, 1));
    assert!(longest > 10_000_000);
    assert_eq!(source.progress().done, source.progress().total);

    let formats = load_formats(&fixtures().join("events-2cpu")).unwrap();
    let mut source = open("func-2cpu-damaged", formats);
    let mut lost = 0;
    while let Some(event) = source.next_event().unwrap() {
        lost += usize::from(matches!(event.kind, EventKind::Lost { .. }));
    }
    assert_eq!(lost, 1);
    assert!(
        source
            .notes()
            .iter()
            .any(|note| note.contains("Linux drops all of it"))
    );
}

#[test]
fn the_buffer_provides_the_kernels_offset() {
    let image = Memory::from_bytes(region("func-2cpu-kaslr")).unwrap();
    let buffer = &Discovery::within(&image, 0..u64::MAX, None).ring_buffers(&[])[0];
    let kernel = |offset| {
        let symbols = Symbols::load(map()).unwrap();
        Kernel::new(&image, buffer, Some(symbols), Formats::default(), offset)
    };
    let found = Some(KernelOffset::InRing(0x14c0_0000));
    assert_eq!(kernel(None).unwrap().offset(), found);
    assert_eq!(kernel(Some(0x14c0_0000)).unwrap().offset(), found);
    assert!(kernel(Some(0)).is_err());
}

/// A kernel with a banner and constants 64 KiB behind its code's start, and a format with a
/// pointer to a constant.
#[test]
fn a_string_in_the_kernels_constants_is_read_from_an_image_that_has_them() {
    const CODE: usize = 4 << 20;
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    let own = fs::read_to_string(map_of("sys-2cpu")).unwrap();
    let own = own.replace("__start_rodata", "elsewhere");
    let constants = "ffffffff81010000 R __start_rodata
ffffffff81010100 R linux_banner
ffffffff81011000 R __end_rodata
";
    fs::write(path("System.map"), own + constants).unwrap();
    let formats = fs::read_to_string(fixtures().join("sys-2cpu/formats")).unwrap();
    let before = "\"%s\", __get_str(msg)";
    assert!(formats.contains(before));
    let formats = formats.replace(before, "\"%s|%s\", 0xffffffff81010200, 0xffffffff81010ffe");
    fs::write(path("formats"), formats).unwrap();
    let args = [
        "--symbols",
        "System.map",
        "--event-formats",
        "formats",
        "--format",
        "linux",
    ];
    let shown = |image: &[u8]| {
        fs::write(path("image"), image).unwrap();
        let output = postmortem(dir.path(), &args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let mut image = vec![0; CODE + (64 << 10)];
    image.extend([0; 0x1000]);
    image.extend(region("sys-2cpu"));
    let without = shown(&image);
    assert!(without.contains("console: msg="), "{without}");
    let at = CODE + (64 << 10);
    put(&mut image, at + 0x100, b"Linux version 6.12.117");
    put(&mut image, at + 0x200, b"Start scheduler-tick\0");
    // A string at the end of the constants does not reach behind them.
    put(&mut image, at + 0xffe, b"ab");
    let with = shown(&image);
    assert!(
        with.contains("console: Start scheduler-tick|ab\n"),
        "{with}"
    );
    // A banner at another place is another kernel's.
    let mut moved = vec![0; 4096];
    moved.extend(&image);
    assert!(shown(&moved).contains("console: msg="));
}

#[test]
fn a_buffer_with_records_is_found_behind_any_number_of_empty_headers() {
    let region = region("userstack-2cpu");
    let mut image = Vec::new();
    for _ in 0..200 {
        image.extend(&region[..64]);
        image.resize(image.len().next_multiple_of(1 << 18), 0);
    }
    let at = image.len() as u64;
    image.extend(&region);
    let image = Memory::from_bytes(image).unwrap();
    let found = Discovery::within(&image, 0..u64::MAX, None).ring_buffers(&[]);
    assert_eq!(found.len(), nostall_postmortem::ftrace_ring::MOST);
    let last = found.last().unwrap();
    assert_eq!((last.address, last.index), (at, found.len() - 1));
    assert!(last.records() > 0);
}

#[test]
fn a_copy_in_a_decoded_region_hides_no_buffer() {
    let buffer = region("graph-2cpu");
    let copied = 0x4000;
    for len in [64, 0x1000, copied] {
        let mut memory = vec![0; copied];
        memory[..len].copy_from_slice(&buffer[..len]);
        memory.extend(&buffer);
        let image = Memory::from_bytes(memory).unwrap();
        let taken = 0..copied as u64;
        let found = Discovery::within(&image, 0..u64::MAX, None).ring_buffers(&[taken]);
        let places: Vec<_> = found.iter().map(|found| found.address).collect();
        assert_eq!(places, [copied as u64], "{len:#x}");
    }
}
