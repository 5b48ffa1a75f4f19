//! Traces of nostall-trace in images: of any kind, whole or damaged, in either byte order.

use crate::recorders as common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::Ordering;

use assert_cmd::cargo::cargo_bin;
use common::{memory, recorder, snapshot, swapped};
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::memory::Memory;
use nostall_postmortem::symbols::Symbols;
use nostall_postmortem::trace_region::{FirstTrace, HeaderState, TraceRegion};
use nostall_trace::layout::RegionHeader;
use nostall_trace::{Options, Region, Site};
use nostall_tracefile::model::{EventKind, Source};
use proptest::prelude::*;
use tempfile::TempDir;

static READY: Site = Site::new("uart ready", "m");
static SEND: Site = Site::new("send", "m");
static BYTES: Site = Site::new("bytes", "m");

const OPTIONS: Options<'_> = Options {
    zones: 2,
    names: 256,
    stop_when_full: false,
    zones_of_threads: false,
    ticks_per_second: 1_000_000_000,
    epoch: None,
    anchor: Some((0xffff_ffff_8020_0000, 0xffff_ffff_8000_0000)),
    boot: 7,
    build_id: &[0xab, 0xcd],
    program: "a kernel",
};

const MAP: &str = "\
ffffffff80000000 T _stext
ffffffff80001000 T console_write
ffffffff80002000 t uart_send
ffffffff80003000 T _etext
";

/// Returns a region of 2 zones with 64 slots each: `console_write` calls `uart_send` on CPU 0, and
/// CPU 1 counts bytes and waits.
fn region() -> Vec<u8> {
    region_of(&OPTIONS)
}

fn region_of(options: &Options<'_>) -> Vec<u8> {
    let (recorder, cpu) = recorder();
    let len = 512 + options.names as usize + options.zones as usize * (128 + 64 * 16);
    recorder.start(Region::format(memory(len), options).unwrap());
    let outer = recorder.enter(0xffff_ffff_8020_1000);
    let inner = recorder.enter_with(0xffff_ffff_8020_2004, 42);
    cpu.0.store(1, Ordering::Relaxed);
    recorder.counter(&BYTES, 16);
    recorder.stall(&READY, 3, &SEND);
    cpu.0.store(0, Ordering::Relaxed);
    recorder.exit(inner);
    recorder.exit(outer);
    snapshot(recorder)
}

/// Returns memory of zeros, a word that occurs in programs, and a region at `at`.
fn around(region: &[u8], at: usize) -> Vec<u8> {
    let mut memory = vec![0; 1 << 20];
    memory[0x80..0x88].copy_from_slice(b"NOSTRACE");
    memory[0xc0..0xc8].copy_from_slice(b"NOSTZONE");
    memory[at..][..region.len()].copy_from_slice(region);
    memory
}

const AT: usize = 0x2_0040;

fn found(image: &Memory) -> Vec<TraceRegion<'_>> {
    Discovery::within(image, 0..u64::MAX, None).traces(&[])
}

/// Returns the events as short texts.
fn told(source: &mut dyn Source) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(event) = source.next_event().unwrap() {
        let text = |name| source.catalog().text(name).to_owned();
        let kind = match event.kind {
            EventKind::Enter { function, .. } => format!("+{}", text(function)),
            EventKind::Exit { function, .. } => format!("-{}", text(function.unwrap())),
            EventKind::Counter { counter, value } => format!("{}={value}", text(counter)),
            EventKind::Stall {
                condition,
                place,
                duration,
            } => format!("{} in {} {duration}", text(condition), text(place.unwrap())),
            EventKind::Lost { records } => format!("lost {records}"),
            _ => unreachable!(),
        };
        all.push(format!("{} {kind}", event.cpu));
    }
    all
}

const NAMED: [&str; 6] = [
    "0 +console_write",
    "0 +uart_send",
    "1 bytes=16",
    "1 uart ready in send 3",
    "0 -uart_send",
    "0 -console_write",
];

/// Reads the only trace of an image, with symbols at their load address.
fn only(memory: Vec<u8>) -> (HeaderState, u64, Vec<String>) {
    let image = Memory::from_bytes(memory).unwrap();
    let all = found(&image);
    let [region] = &all[..] else {
        panic!("{} regions", all.len())
    };
    let offset = region.load_offset().unwrap_or(0x20_0000);
    let symbols = Symbols::parse(MAP.as_bytes()).unwrap().with_offset(offset);
    let events = told(&mut region.source(Some(&symbols)).unwrap());
    (region.state, region.start, events)
}

#[test]
fn a_whole_trace_of_either_byte_order_is_found_and_named_by_symbols_and_its_own_names() {
    for region in [region(), swapped(&region())] {
        let (state, start, events) = only(around(&region, AT));
        assert_eq!((state, start), (HeaderState::Sound, AT as u64));
        assert_eq!(events, NAMED);
    }
}

#[test]
fn a_header_that_lost_only_its_magic_is_restored() {
    for region in [region(), swapped(&region())] {
        let mut memory = around(&region, AT);
        memory[AT..AT + 16].fill(0xff);
        let (state, start, events) = only(memory);
        assert_eq!((state, start), (HeaderState::Sound, AT as u64));
        assert_eq!(events, NAMED);
    }
}

#[test]
fn a_damaged_header_counts_if_a_zone_agrees_with_it() {
    let mut memory = around(&region(), AT);
    memory[AT + 0x80] ^= 1; // the program's name
    let (state, start, events) = only(memory.clone());
    assert_eq!((state, start), (HeaderState::Damaged, AT as u64));
    assert_eq!(events, NAMED);

    // Lengths that fit no zone: the zones are found alone, with the names before them.
    memory[AT + 0x5c] ^= 0x40;
    let (state, start, events) = only(memory);
    assert_eq!((state, start), (HeaderState::Names, AT as u64));
    assert_eq!(events, NAMED);
}

#[test]
fn without_a_header_zones_and_names_are_found() {
    for region in [region(), swapped(&region())] {
        let mut memory = around(&region, AT);
        memory[AT..AT + 512].fill(0x5a);
        let (state, start, events) = only(memory.clone());
        assert_eq!((state, start), (HeaderState::Names, AT as u64));
        assert_eq!(events, NAMED);

        // Nor the names.
        let zones = AT + 512 + 256;
        memory[AT + 512..zones].fill(0x5a);
        let (state, start, events) = only(memory);
        assert_eq!((state, start), (HeaderState::Lost, zones as u64));
        assert_eq!(events[..2], NAMED[..2]);
        assert_eq!(events[2], "1 name 1=16");
    }
}

#[test]
fn a_restored_header_covers_the_zones_after_a_damaged_one() {
    let region = region_of(&Options {
        zones: 3,
        ..OPTIONS
    });
    let mut memory = around(&region, AT);
    memory[AT] ^= 1;
    let zone_1 = AT + 512 + 256 + 128 + 1024;
    memory[zone_1..zone_1 + 32].fill(0);
    let (state, start, events) = only(memory);
    assert_eq!((state, start), (HeaderState::Sound, AT as u64));
    assert_eq!(events, NAMED);
}

#[test]
fn a_single_zone_is_found_with_its_cpu() {
    for region in [region(), swapped(&region())] {
        let zone = &region[512 + 256 + 128 + 1024..];
        let (state, start, events) = only(around(zone, AT));
        assert_eq!((state, start), (HeaderState::Lost, AT as u64));
        assert_eq!(events, ["1 name 1=16", "1 name 3 in name 5 3"]);
    }
}

#[test]
fn zones_of_two_boots_side_by_side_are_two_traces() {
    let other = region_of(&Options { boot: 8, ..OPTIONS });
    let first = 512 + 256;
    let second = first + 128 + 1024;
    let memory = around(&[&region()[first..second], &other[second..]].concat(), AT);
    let image = Memory::from_bytes(memory).unwrap();
    let boots: Vec<_> = found(&image).iter().map(|it| it.header.boot).collect();
    assert_eq!(boots, [7, 8]);
}

#[test]
fn a_trace_that_the_image_cuts_keeps_the_zones_that_are_there() {
    let region = region();
    let mut memory = around(&region, AT);
    // All slots of CPU 1 and half of its header are missing.
    memory.truncate(AT + region.len() - 1024 - 64);
    let image = Memory::from_bytes(memory).unwrap();
    let all = found(&image);
    assert_eq!((all.len(), all[0].bytes.missing_bytes()), (1, 1024 + 64));
    let symbols = Symbols::parse(MAP.as_bytes()).unwrap();
    let symbols = symbols.with_offset(0x20_0000);
    let mut source = all[0].source(Some(&symbols)).unwrap();
    let events = told(&mut source);
    assert_eq!(events, [&NAMED[..2], &NAMED[4..]].concat());
    assert!(source.notes().is_empty(), "{:?}", source.notes());
}

#[test]
fn a_trace_inside_a_found_region_or_outside_of_the_window_is_skipped() {
    let memory = around(&region(), AT);
    let image = Memory::from_bytes(memory).unwrap();
    let find = |within, besides: &[_]| {
        Discovery::within(&image, within, None)
            .traces(besides)
            .len()
    };
    assert_eq!(find(0..AT as u64, &[]), 0);
    assert_eq!(find(AT as u64..u64::MAX, &[]), 1);
    let (start, end) = (AT as u64, AT as u64 + 0x4000);
    assert_eq!(find(0..u64::MAX, std::slice::from_ref(&(start..end))), 0);
}

#[test]
fn a_forged_length_hides_no_other_trace() {
    let header = RegionHeader::decode(region().first_chunk().unwrap()).unwrap();
    let zone_len = 128 + (16 << 14);
    let forged = RegionHeader {
        zone_len,
        len: header.first_zone() + 2 * zone_len,
        ..header
    };
    let mut memory = around(&region(), AT);
    memory[0x1000..][..512].copy_from_slice(&forged.encode());
    let image = Memory::from_bytes(memory).unwrap();
    let starts: Vec<_> = found(&image).iter().map(|trace| trace.start).collect();
    assert_eq!(starts, [0x1000, AT as u64]);
}

/// A dump of memory at `PHYSICAL`.
const PHYSICAL: u64 = 0x1_2345_6000;

fn lime(memory: &[u8]) -> Vec<u8> {
    let header = [0x4C69_4D45_u32, 1].map(u32::to_le_bytes).concat();
    let last = PHYSICAL + memory.len() as u64 - 1;
    let range = [PHYSICAL, last, 0].map(u64::to_le_bytes).concat();
    [header, range, memory.to_vec()].concat()
}

/// Returns a core file with two segments that are adjacent in memory but not in the file.
fn elf_core(memory: &[u8], cut: usize) -> Vec<u8> {
    const HEADERS: u64 = 64 + 2 * 56;
    const GAP: u64 = 24;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    elf.extend([4_u16, 62].map(u16::to_le_bytes).concat());
    elf.extend(1_u32.to_le_bytes());
    elf.extend([0, 64, 0].map(u64::to_le_bytes).concat());
    elf.extend(0_u32.to_le_bytes());
    elf.extend([64_u16, 56, 2, 0, 0, 0].map(u16::to_le_bytes).concat());
    let (first, second) = memory.split_at(cut);
    let parts = [
        (HEADERS, PHYSICAL, first.len() as u64),
        (
            HEADERS + cut as u64 + GAP,
            PHYSICAL + cut as u64,
            second.len() as u64,
        ),
    ];
    for (offset, physical, len) in parts {
        elf.extend([1_u32, 6].map(u32::to_le_bytes).concat());
        let words = [offset, physical, physical, len, len, 0];
        elf.extend(words.map(u64::to_le_bytes).concat());
    }
    [elf, first.to_vec(), vec![0; GAP as usize], second.to_vec()].concat()
}

fn command(folder: &Path, args: &[&str]) -> Output {
    Command::new(cargo_bin("nostall-postmortem"))
        .args(["image", "--verbose"])
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(output: &Output) -> (&str, &str) {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{err}");
    (out, err)
}

fn folder(image: &[u8]) -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("image"), image).unwrap();
    fs::write(folder.path().join("System.map"), MAP).unwrap();
    folder
}

#[test]
fn text_has_the_function_graph_with_names_at_the_load_address() {
    let dumps = [
        (around(&region(), AT), AT as u64),
        (lime(&around(&region(), AT)), PHYSICAL + AT as u64),
        // The region lies in both segments.
        (
            elf_core(&around(&region(), AT), AT + 0x300),
            PHYSICAL + AT as u64,
        ),
    ];
    for (dump, at) in dumps {
        let folder = folder(&dump);
        let output = command(folder.path(), &["--symbols", "System.map"]);
        let (out, err) = text(&output);
        let line = "a kernel, 2 CPUs, 6 events; whole header";
        assert_eq!(err, format!("nostall: a trace at {at:#x}: {line}\n"));
        let heading = format!("==> trace 0: region at {at:#x}, {line}; unchecked: ");
        assert!(out.starts_with(&heading), "{out}");
        for part in ["console_write() {", "uart_send(", "bytes", "uart ready"] {
            assert!(out.contains(part), "{part}: {out}");
        }
    }
}

#[test]
fn a_sparse_file_and_a_mapped_program_file_are_read() {
    use std::os::unix::fs::FileExt;
    let folder = folder(&region());
    let output = command(folder.path(), &[]);
    assert!(text(&output).1.contains("a trace at 0x0: a kernel"));

    let file = fs::File::create(folder.path().join("image")).unwrap();
    file.set_len(8 << 30).unwrap();
    file.write_all_at(&region(), 6 << 30).unwrap();
    let output = command(folder.path(), &[]);
    let (out, err) = text(&output);
    assert!(err.contains("a trace at 0x180000000: a kernel"), "{err}");
    assert!(out.contains("0xffffffff80201000() {"), "{out}");
}

#[test]
fn json_has_a_line_for_the_trace_and_one_for_each_event() {
    let folder = folder(&around(&region(), AT));
    let output = command(
        folder.path(),
        &["--symbols", "System.map", "--format", "json"],
    );
    let (out, _) = text(&output);
    let lines: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [trace, events @ .., end] = &lines[..] else {
        panic!("{out}")
    };
    for (key, value) in [
        ("type", "trace"),
        ("start", "0x20040"),
        ("header", "sound"),
        ("program", "a kernel"),
        ("build_id", "abcd"),
        ("load_offset", "0x200000"),
        ("unit", "nanoseconds"),
        ("name", "trace-nostall-0"),
        ("trust", "unchecked"),
    ] {
        assert_eq!(trace[key], value, "{trace}");
    }
    assert_eq!((&trace["events"], &trace["boot"]), (&6.into(), &7.into()));
    let function = |event: &serde_json::Value| event["function"].clone();
    assert_eq!(events.len(), 6);
    assert_eq!(events[1]["argument"], 42);
    assert_eq!(events[1]["kind"], "enter");
    assert_eq!(function(&events[1]), "uart_send");
    assert_eq!(events[2]["value"], 16);
    assert_eq!(events[3]["condition"], "uart ready");
    assert_eq!(events[3]["place"], "send");
    assert_eq!(
        (&end["status"], &end["records"]),
        (&"records".into(), &6.into())
    );
}

#[test]
fn out_has_a_file_for_each_trace_and_overwrites_none_unasked() {
    let two = [&around(&region(), AT)[..], &around(&region(), AT)].concat();
    let folder = folder(&two);
    let args = ["--symbols", "System.map", "--out", "out"];
    let output = command(folder.path(), &args);
    let (out, _) = text(&output);
    assert_eq!(out.lines().count(), 2, "{out}");
    for index in 0..2 {
        let path = folder.path().join(format!("out/trace-nostall-{index}"));
        let graph = fs::read_to_string(path).unwrap();
        assert!(graph.contains("console_write() {"), "{graph}");
        assert!(!graph.contains("==>"), "{graph}");
    }
    let output = command(folder.path(), &args);
    assert_eq!(output.status.code(), Some(1));
    let output = command(folder.path(), &[&args[..], &["--force", "-q"]].concat());
    assert_eq!(text(&output).1, "");
    let json = ["--out", "out", "--format", "json"];
    text(&command(folder.path(), &json));
    assert!(folder.path().join("out/trace-nostall-1.json").exists());
}

#[test]
fn an_empty_trace_has_status_3_and_its_damage_is_reported() {
    let (recorder, _) = recorder();
    recorder.start(Region::format(memory(8192), &OPTIONS).unwrap());
    let mut empty = snapshot(recorder);
    empty[0x28] ^= 1; // the clock's rate
    let folder = folder(&around(&empty, AT));
    let output = command(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(3));
    let err = String::from_utf8(output.stderr).unwrap();
    for part in [
        "damaged header",
        "wrong checksum",
        "the trace at 0x20040 is empty",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
}

#[test]
fn a_lost_header_leaves_the_load_address_to_an_option() {
    let mut memory = around(&region(), AT);
    memory[AT..AT + 512].fill(0);
    let folder = folder(&memory);
    let output = command(folder.path(), &["--symbols", "System.map"]);
    let (out, err) = text(&output);
    assert!(out.contains("0xffffffff80201000() {"), "{out}");
    assert!(err.contains("--kaslr-offset sets it"), "{err}");
    let options = ["--symbols", "System.map", "--kaslr-offset", "2M"];
    let output = command(folder.path(), &options);
    let (out, err) = text(&output);
    assert!(out.contains("console_write() {"), "{out}");
    assert!(!err.contains("--kaslr-offset"), "{err}");
}

fn first(image: Memory, symbols: Option<Symbols>) -> Option<Box<dyn Source>> {
    let traces = Discovery::within(&image, 0..u64::MAX, None).traces(&[]);
    FirstTrace::of(traces)?.open(image, symbols)
}

#[test]
fn an_opened_image_gives_its_first_trace_and_names_the_number_of_others() {
    let symbols = || Symbols::parse(MAP.as_bytes()).ok();
    let whole = around(&region(), AT);
    let mut without_header = whole.clone();
    without_header[AT..AT + 512].fill(0);
    for (memory, others) in [
        (whole.clone(), 0),
        ([&whole[..], &whole].concat(), 1),
        (without_header, 0),
    ] {
        let image = Memory::from_bytes(memory).unwrap();
        let mut source = first(image, symbols()).unwrap();
        let events = told(&mut source);
        assert_eq!(events[2..4], NAMED[2..4]);
        let notes = source.notes().join("\n");
        assert_eq!(notes.contains("1 more traces"), others == 1, "{notes}");
    }
    let nothing = Memory::from_bytes(vec![0; 4096]).unwrap();
    assert!(first(nothing, None).is_none());
}

/// Reads all of an image in every way.
fn read_all(memory: Vec<u8>) {
    let len = memory.len() as u64;
    let image = Memory::from_bytes(memory).unwrap();
    for region in found(&image) {
        assert!(region.bytes.missing_bytes() <= region.bytes.len());
        if let Ok(mut source) = region.source(None) {
            let mut events = 0;
            while source.next_event().unwrap().is_some() {
                events += 1;
            }
            // A slot is an event at most, and each zone may have one for its losses.
            assert!(events <= len / 16 + u64::from(region.header.zones));
        }
    }
    if let Some(mut source) = first(image, None) {
        while source.next_event().unwrap().is_some() {}
    }
}

#[test]
fn forged_headers_cost_no_more_than_the_image() {
    let header = RegionHeader::decode(region().first_chunk().unwrap()).unwrap();
    for (zones, len) in [(u32::MAX, u64::MAX), (1 << 20, 1 << 40), (2, 1 << 29)] {
        let forged = RegionHeader {
            zones,
            len,
            ..header
        };
        let mut memory = around(&region(), AT);
        memory[AT..AT + 512].copy_from_slice(&forged.encode());
        read_all(memory);
    }
    // Headers in every line, each with an impossible zone count or length.
    let forged = RegionHeader {
        len: 1 << 40,
        zones: 1 << 20,
        ..header
    };
    read_all(forged.encode().repeat(2_000));
    let zone = &region()[512 + 256..][..128];
    read_all(zone.repeat(10_000));
    read_all(vec![b'N'; 1 << 20]);
    read_all(b"NOSTRACE".repeat(1 << 15));
    read_all(b"NOSTZONE".repeat(1 << 15));
}

proptest! {
    #[test]
    fn arbitrary_damage_never_panics(
        flips in proptest::collection::vec((0usize..512 + 256 + 2 * 1152, any::<u8>()), 1..40),
        cut in 0usize..4096,
    ) {
        let mut region = region();
        for (at, byte) in flips {
            region[at] = byte;
        }
        region.truncate(region.len().saturating_sub(cut).max(1));
        read_all(region);
    }
}

#[test]
fn a_trace_whose_zone_headers_are_damaged_has_its_events() {
    let mut region = region();
    for zone in 0..2 {
        region[512 + 256 + zone * (128 + 64 * 16) + 0x10] ^= 1;
    }
    let image = Memory::from_bytes(around(&region, AT)).unwrap();
    let all = found(&image);
    assert_eq!(all.len(), 1);
    let mut source = all[0].source(None).unwrap();
    assert!(told(&mut source).len() > 3);
    // So no bytes behind the header are taken from others.
    assert_eq!(all[0].taken(), AT as u64..AT as u64 + 512);
}
