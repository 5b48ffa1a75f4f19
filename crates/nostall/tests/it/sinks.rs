//! Every recording has the same rows in all outputs: text, JSON, Linux's files and Parquet.

#![cfg(feature = "parquet")]

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use assert_cmd::cargo::cargo_bin;
use nostall_console::{Level, Meta, Priority, Ring, layout};
use nostall_io::Nanos;
use nostall_trace::{Options, Region, Site};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

use crate::trace_image::common::{memory, recorder, snapshot};

/// Returns every recorded image, by name, and made ones of nostall's own kinds.
fn images() -> Vec<(String, Vec<u8>)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut images = Vec::new();
    for (folder, file) in [
        ("drivers/pstore/tests/fixtures", "image.bin"),
        (
            "records/postmortem/tests/fixtures/ftrace-ring",
            "region.bin.gz",
        ),
    ] {
        for entry in fs::read_dir(crates.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let Ok(bytes) = fs::read(path.join(file)) else {
                continue;
            };
            let image = match file.ends_with(".gz") {
                true => unpack(&bytes),
                false => bytes,
            };
            images.push((name, image));
        }
    }
    let rings = crates.join("records/postmortem/tests/fixtures/printk-ring");
    for name in [
        "6.1",
        "6.1-arm64",
        "6.12-wrapped",
        "6.1-reopened",
        "6.1-full",
    ] {
        let packed = fs::read(rings.join(format!("{name}.lime.gz"))).unwrap();
        images.push((format!("printk {name}"), unpack(&packed)));
    }
    images.push(("log ring".to_owned(), log_ring()));
    images.push(("trace".to_owned(), trace()));
    images
}

fn unpack(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(packed);
    decoder.read_to_end(&mut bytes).unwrap();
    bytes
}

fn log_ring() -> Vec<u8> {
    let len = layout::HEADER_BYTES + 16 * layout::SLOT_BYTES;
    let bytes = memory(len);
    let ring = Ring::in_memory(&mut *bytes).unwrap();
    for number in 0..9 {
        let meta = Meta {
            time: Nanos(1_000 * number),
            cpu: 1,
            level: Level::Info,
            priority: Priority::Normal,
            target: "disk",
        };
        ring.log(&meta, format!("line {number}").as_bytes());
    }
    bytes.to_vec()
}

fn trace() -> Vec<u8> {
    static BYTES: Site = Site::new("bytes", "m");
    let (recorder, _) = recorder();
    let options = Options {
        zones: 1,
        ticks_per_second: 1_000_000_000,
        ..Options::default()
    };
    recorder.start(Region::format(memory(8192), &options).unwrap());
    let outer = recorder.enter(0xffff_ffff_8020_1000);
    recorder.counter(&BYTES, 16);
    recorder.exit(recorder.enter(0xffff_ffff_8020_2000));
    recorder.exit(outer);
    snapshot(recorder)
}

fn nostall(arguments: &[&str], image: &Path) -> String {
    let mut command = Command::new(cargo_bin("nostall"));
    let output = command
        .arg("postmortem")
        .args(arguments)
        .arg(image)
        .output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{image:?}: {said}");
    // Linux's log may have any bytes.
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Rows of Parquet files.
struct Table(Vec<RecordBatch>);

impl Table {
    fn read(folder: &Path, name: &str) -> Self {
        let files = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let is_one = |path: &PathBuf| {
            let file = path.file_name().unwrap().to_str().unwrap();
            file.starts_with(&format!("{name}-"))
        };
        let batches = files.filter(is_one).flat_map(|path| {
            let file = File::open(path).unwrap();
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            reader.build().unwrap().map(Result::unwrap)
        });
        Self(batches.collect())
    }

    fn column<T>(&self, name: &str, read: impl Fn(&RecordBatch, usize) -> Vec<T>) -> Vec<T> {
        let columns = self.0.iter().map(|batch| {
            let index = batch.schema().index_of(name).unwrap();
            read(batch, index)
        });
        columns.flatten().collect()
    }

    fn texts(&self, name: &str) -> Vec<String> {
        self.column(name, |batch, index| {
            let column = batch.column(index).as_string::<i32>();
            column
                .iter()
                .map(|text| text.unwrap_or("").to_owned())
                .collect()
        })
    }

    fn ints(&self, name: &str) -> Vec<i64> {
        self.column(name, |batch, index| {
            let column = batch.column(index).as_primitive::<Int32Type>();
            column
                .iter()
                .map(|number| number.unwrap_or(-1).into())
                .collect()
        })
    }

    fn longs(&self, name: &str) -> Vec<i64> {
        self.column(name, |batch, index| {
            let column = batch.column(index).as_primitive::<Int64Type>();
            column.iter().map(|number| number.unwrap_or(-1)).collect()
        })
    }
}

/// A line of a log or an event: its source, its number there, its CPU and its time in nanoseconds
/// (-1 if unknown).
type Line = (String, i64, i64, i64);
/// A call: its source, CPU, stamp or time, function and caller (-1 if unknown).
type Call = (String, i64, i64, i64, i64);

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(-1)
}

fn address(value: &Value) -> i64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
    digits.map_or(-1, |digits| {
        u64::from_str_radix(digits, 16).unwrap().cast_signed()
    })
}

/// The rows of an image, as JSON has them.
#[derive(Default)]
struct Rows {
    /// Lines of logs, as recorded.
    texts: Vec<(String, String)>,
    lines: Vec<Line>,
    calls: Vec<Call>,
}

impl Rows {
    fn of_json(json: &str) -> Self {
        let mut rows = Self::default();
        for line in json.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            match line["type"].as_str().unwrap() {
                "record" if line["kind"] != "ftrace" => {
                    let source = line["kind"].as_str().unwrap();
                    for text in line["text"].as_str().unwrap().lines() {
                        rows.texts.push((source.to_owned(), text.to_owned()));
                    }
                }
                "call" => rows.calls.push((
                    "ftrace".to_owned(),
                    number(&line["cpu"]),
                    number(&line["stamp"]),
                    address(&line["ip"]),
                    address(&line["parent"]),
                )),
                "log" => {
                    let text = line["text"].as_str().unwrap();
                    rows.texts.push(("ring".to_owned(), text.to_owned()));
                }
                "kernel_message" if line["state"] != "no_room" => {
                    let text = line["text"].as_str().unwrap();
                    rows.texts.push(("printk".to_owned(), text.to_owned()));
                    let caller = line["caller"].as_str().unwrap();
                    let cpu = caller.strip_prefix('C').map(|cpu| cpu.parse().unwrap());
                    let (sequence, time) = (number(&line["sequence"]), number(&line["time_ns"]));
                    let line = ("printk".to_owned(), sequence, cpu.unwrap_or(-1), time);
                    rows.lines.push(line);
                }
                "event" if line.get("function").is_none() => rows.line("trace", &line, "time"),
                "event" => rows.call("trace", &line, "time", |_| -1),
                "entry" if line.get("ip").is_none() => rows.line("ftrace-ring", &line, "time_ns"),
                "entry" => {
                    rows.call("ftrace-ring", &line, "time_ns", |line| address(&line["ip"]));
                }
                _ => {}
            }
        }
        rows
    }

    fn line(&mut self, source: &str, line: &Value, time: &str) {
        let before = self.lines.len() as i64;
        let (cpu, time) = (number(&line["cpu"]), number(&line[time]));
        self.lines.push((source.to_owned(), before, cpu, time));
    }

    fn call(&mut self, source: &str, line: &Value, time: &str, ip: fn(&Value) -> i64) {
        let (cpu, time) = (number(&line["cpu"]), number(&line[time]));
        let parent = address(&line["parent"]);
        self.calls
            .push((source.to_owned(), cpu, time, ip(line), parent));
    }

    /// Compares with the tables of an export.
    fn compare_tables(&self, folder: &Path, name: &str) {
        let records = Table::read(folder, "records");
        let sources = records.texts("source");
        let is_text = |source: &str| !matches!(source, "trace" | "ftrace-ring");
        let texts = sources.iter().cloned().zip(records.texts("text"));
        let texts: Vec<_> = texts.filter(|(source, _)| is_text(source)).collect();
        assert_eq!(texts.len(), self.texts.len(), "{name}");
        for ((source, text), whole) in texts.iter().zip(&self.texts) {
            // The table has the level and the time of a line in columns of their own.
            assert_eq!(*source, whole.0, "{name}");
            assert!(whole.1.ends_with(text), "{name}: {whole:?} {text}");
        }
        let times = records.longs("time");
        let all = sources.iter().cloned().zip(records.longs("sequence"));
        let all = all.zip(records.ints("cpu")).zip(times);
        let lines: Vec<Line> = all
            .map(|(((source, sequence), cpu), time)| (source, sequence, cpu, time))
            .filter(|(source, ..)| source == "printk" || !is_text(source))
            .collect();
        assert_eq!(lines, self.lines, "{name}");
        let calls = Table::read(folder, "calls");
        let stamps = calls.longs("stamp").into_iter().zip(calls.longs("time"));
        let all = calls.texts("source").into_iter().zip(calls.ints("cpu"));
        let all = all.zip(stamps).zip(calls.longs("address"));
        let all = all.zip(calls.longs("parent"));
        let all: Vec<Call> = all
            .map(|((((source, cpu), (stamp, time)), ip), parent)| {
                let is_named = source == "trace";
                (
                    source,
                    cpu,
                    stamp.max(time),
                    if is_named { -1 } else { ip },
                    parent,
                )
            })
            .collect();
        assert_eq!(all, self.calls, "{name}");
    }

    /// Compares with the text, and with Linux's files.
    fn compare_texts(&self, text: &str, linux: &str, name: &str) {
        let is_plain = |text: &str| text.chars().all(|c| (' '..='~').contains(&c) && c != '\\');
        let texts = self.texts.iter().map(|(_, text)| &**text);
        let texts: Vec<_> = texts.filter(|text| is_plain(text)).collect();
        for (output, from) in [(text, "text"), (linux, "linux")] {
            let mut lines = output.lines();
            for text in &texts {
                assert!(
                    lines.any(|line| line.ends_with(text)),
                    "{name}, {from}: {text}"
                );
            }
            let is_call = |(source, ..): &&Call| source == "ftrace";
            let calls = self.calls.iter().filter(is_call).count();
            // One graph has lines for its ends, and one line for a function without calls.
            let shown = match calls {
                0 => output.lines().filter(|line| line.contains("<-0x")).count(),
                _ => output
                    .lines()
                    .filter(|line| line.contains(" <- 0x"))
                    .count(),
            };
            let with_parent = self.calls.iter().filter(|call| call.4 != -1).count();
            // Linux's file also has calls from blocks that failed error correction.
            let is_same = shown == with_parent || from == "linux" && shown > with_parent;
            assert!(is_same, "{name}, {from}: {shown} of {with_parent}");
        }
        let mut lines = text.lines();
        for (source, cpu, stamp, ip, parent) in &self.calls {
            if source == "ftrace" {
                let call = format!("{stamp} CPU {cpu} ");
                let from = format!("{ip:#x} <- {parent:#x}");
                let is_it =
                    |line: &str| line.trim_start().starts_with(&call) && line.contains(&from);
                assert!(lines.any(is_it), "{name}: {call} {from}");
            }
        }
    }
}

#[test]
fn every_recording_has_the_same_rows_in_all_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let images = images();
    let (mut texts, mut lines, mut calls) = (0, 0, 0);
    for (name, image) in &images {
        let path = folder.path().join("image");
        fs::write(&path, image).unwrap();
        let rows = Rows::of_json(&nostall(&["--format", "json"], &path));
        let tables = folder.path().join(name);
        nostall(&["export", "--out", tables.to_str().unwrap()], &path);
        rows.compare_tables(&tables, name);
        let linux = nostall(&["--format", "linux"], &path);
        rows.compare_texts(&nostall(&[], &path), &linux, name);
        texts += rows.texts.len();
        lines += rows.lines.len();
        calls += rows.calls.len();
    }
    // No comparison was of nothing.
    assert!(
        images.len() > 20 && texts > 5_000 && lines > 500 && calls > 20_000,
        "{texts} {lines} {calls}"
    );
}
