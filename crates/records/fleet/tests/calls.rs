//! The table `calls`, of traces of nostall-trace and of Linux's persistent ring buffer.

#[path = "../../../drivers/trace/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use common::{memory, recorder, snapshot};
use nostall_fleet::decode::{Options, Source, tables};
use nostall_fleet::names::Maps;
use nostall_trace::{Region, Site};
use serde_json::{Map, Value};

type Row = Map<String, Value>;

/// Decodes bytes, and returns the rows of each table.
fn rows(bytes: &[u8], map: Option<&Path>, redact: bool) -> [Vec<Row>; 4] {
    let options = Options {
        maps: map.map_or(Maps::None, |map| Maps::load(map).unwrap()),
        redact,
        timings: false,
    };
    let tables = tables(Source::Bytes(bytes), &options).unwrap();
    tables.map(|batches| {
        let mut json = arrow_json::ArrayWriter::new(Vec::new());
        json.write_batches(&batches.iter().collect::<Vec<_>>())
            .unwrap();
        json.finish().unwrap();
        match &json.into_inner()[..] {
            [] => Vec::new(),
            text => serde_json::from_slice(text).unwrap(),
        }
    })
}

fn text<'r>(row: &'r Row, column: &str) -> Option<&'r str> {
    row.get(column)?.as_str()
}

fn number(row: &Row, column: &str) -> Option<i64> {
    row.get(column)?.as_i64()
}

static SEND: Site = Site::new("uart::Port::send", "m");
static WORDS: Site = Site::new("my secret words", "m");

const MAP: &str = "\
ffffffff80000000 T _stext
ffffffff80001000 T console_write
ffffffff80002000 t uart_send
ffffffff80003000 T _etext
";

/// A trace of a kernel that was moved by 2 MiB: two functions with addresses, two with names.
fn trace() -> Vec<u8> {
    let (recorder, cpu) = recorder();
    let options = nostall_trace::Options {
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
    let len = 512 + 256 + 2 * (128 + 64 * 16);
    recorder.start(Region::format(memory(len), &options).unwrap());
    let outer = recorder.enter(0xffff_ffff_8020_1000);
    let inner = recorder.enter(0xffff_ffff_8020_2004);
    cpu.0.store(1, Ordering::Relaxed);
    let named = recorder.enter_site(&SEND, None);
    recorder.exit(recorder.enter_site(&WORDS, None));
    recorder.exit(named);
    cpu.0.store(0, Ordering::Relaxed);
    recorder.exit(inner);
    recorder.exit(outer);
    let mut image = vec![0; 0x1_0040];
    image.extend(snapshot(recorder));
    image
}

#[test]
fn a_trace_of_nostall_has_addresses_symbols_offsets_and_times() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("System.map");
    fs::write(&map, MAP).unwrap();
    let [dumps, _, calls, _] = rows(&trace(), Some(&map), false);
    assert_eq!(number(&dumps[0], "kernel_offset"), Some(0x20_0000));
    assert_eq!(text(&dumps[0], "build_id"), Some("abcd"));
    let enters = calls
        .iter()
        .filter(|row| text(row, "kind") == Some("enter"))
        .map(|row| {
            let address = number(row, "address").map(|address| address as u64);
            let cpu = number(row, "cpu");
            (cpu, address, text(row, "symbol"), number(row, "offset"))
        });
    let wanted = [
        (
            Some(0),
            Some(0xffff_ffff_8020_1000),
            Some("console_write"),
            Some(0),
        ),
        (
            Some(0),
            Some(0xffff_ffff_8020_2004),
            Some("uart_send"),
            Some(4),
        ),
        // Functions with names of their own have no address in the trace.
        (Some(1), None, Some("uart::Port::send"), None),
        (Some(1), None, Some("my secret words"), None),
    ];
    assert_eq!(enters.collect::<Vec<_>>(), wanted);
    for row in &calls {
        assert!(number(row, "time").is_some() && number(row, "stamp").is_none());
        // No record has a caller.
        assert_eq!(
            (number(row, "parent"), text(row, "parent_symbol")),
            (None, None)
        );
    }
    let exits: Vec<_> = calls
        .iter()
        .filter(|row| text(row, "kind") == Some("exit"))
        .filter_map(|row| text(row, "symbol"))
        .collect();
    assert_eq!(
        exits,
        [
            "my secret words",
            "uart::Port::send",
            "uart_send",
            "console_write"
        ]
    );
}

#[test]
fn a_trace_without_symbols_keeps_its_addresses() {
    let [_, _, calls, _] = rows(&trace(), None, false);
    let first = &calls[0];
    assert_eq!(
        number(first, "address"),
        Some(0xffff_ffff_8020_1000_u64 as i64)
    );
    assert_eq!(
        (text(first, "symbol"), number(first, "offset")),
        (None, None)
    );
}

#[test]
fn a_redacted_trace_has_names_of_functions_and_no_other_text() {
    let [_, _, calls, _] = rows(&trace(), None, true);
    let names: Vec<_> = calls.iter().filter_map(|row| text(row, "symbol")).collect();
    assert_eq!(names, ["uart::Port::send", "uart::Port::send"]);
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../postmortem/tests/fixtures/ftrace-ring")
}

fn gunzip(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    assert_eq!(bytes[..3], [0x1f, 0x8b, 8]);
    let name = match bytes[3] {
        0 => 0,
        8 => bytes[10..].iter().position(|byte| *byte == 0).unwrap() + 1,
        flags => panic!("gzip flags {flags:#x}"),
    };
    miniz_oxide::inflate::decompress_to_vec(&bytes[10 + name..bytes.len() - 8]).unwrap()
}

/// A recording, and a file of Linux's that shows it.
fn recording(name: &str, shown: &str) -> (Vec<u8>, String) {
    let folder = fixtures().join(name);
    let shown = String::from_utf8(gunzip(&folder.join(shown))).unwrap();
    (gunzip(&folder.join("region.bin.gz")), shown)
}

/// Counts values.
fn count<T: Ord>(values: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    values
        .into_iter()
        .fold(BTreeMap::new(), |mut counts, value| {
            *counts.entry(value).or_default() += 1;
            counts
        })
}

#[test]
fn a_function_graph_has_each_entry_and_exit_with_the_time_and_duration_that_linux_shows() {
    let map = fixtures().join("System.map-6.12.gz");
    let (region, raw) = recording("graph-2cpu", "trace_raw.txt.gz");
    let [dumps, _, calls, _] = rows(&region, Some(&map), false);
    assert_eq!(number(&dumps[0], "traces"), Some(1));
    // Lines are a PID, a CPU, a time and a type: 11 for entries, 10 for exits in that kernel.
    let wanted = raw.lines().filter_map(|line| {
        let words: Vec<_> = line.split(' ').collect();
        let kind = match words[..] {
            [.., "type:", "11"] => "enter",
            [.., "type:", "10"] => "exit",
            _ => return None,
        };
        Some((words[1].parse().ok()?, words[2].parse().ok()?, kind))
    });
    let wanted: BTreeMap<(i64, i64, &str), usize> = count(wanted);
    assert!(wanted.len() > 5000);
    let found = calls.iter().map(|row| {
        let (cpu, time) = (number(row, "cpu").unwrap(), number(row, "time").unwrap());
        (cpu, time, text(row, "kind").unwrap())
    });
    assert_eq!(count(found), wanted);
    // Linux shows a function without callees, and its duration, on one line.
    let (_, shown) = recording("graph-2cpu", "trace.txt.gz");
    let mut leaves = 0;
    for line in shown.lines().filter(|line| line.ends_with("();")) {
        let (before, name) = line.rsplit_once("|").unwrap();
        let micros = before.trim_end().strip_suffix(" us").unwrap();
        let micros = micros.rsplit(' ').next().unwrap();
        let Some((whole, part)) = micros.split_once('.').filter(|(_, part)| part.len() == 3) else {
            continue;
        };
        let duration = whole.parse::<i64>().unwrap() * 1000 + part.parse::<i64>().unwrap();
        let name = name.trim().trim_end_matches("();");
        let is_it = |row: &&Row| {
            text(row, "symbol") == Some(name) && number(row, "duration") == Some(duration)
        };
        assert!(calls.iter().any(|row| is_it(&row)), "{line}");
        leaves += 1;
        if leaves == 200 {
            break;
        }
    }
    assert_eq!(leaves, 200);
    assert!(calls.iter().all(|row| number(row, "address").is_some()));
}

#[test]
fn calls_of_a_moved_kernel_have_the_names_of_both_functions() {
    let map = fixtures().join("System.map-6.12.gz");
    let (region, shown) = recording("func-2cpu-kaslr", "trace.txt.gz");
    let [dumps, records, calls, _] = rows(&region, Some(&map), false);
    assert_eq!(number(&dumps[0], "kernel_offset"), Some(0x14c0_0000));
    let wanted = shown.lines().filter_map(|line| {
        let (function, caller) = line.rsplit_once(": ")?.1.split_once(" <-")?;
        Some((function, caller))
    });
    let wanted = count(wanted);
    let found = calls.iter().map(|row| {
        (
            text(row, "symbol").unwrap(),
            text(row, "parent_symbol").unwrap(),
        )
    });
    assert_eq!(count(found), wanted);
    assert!(wanted.len() > 20, "{}", wanted.len());
    let lines = shown.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(calls.len() + records.len(), lines);
}
