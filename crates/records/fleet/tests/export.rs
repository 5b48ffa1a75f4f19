//! `nostall-fleet export`, on made fleets whose answers are known.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use memchr::memmem;
use nostall_fleet::synth::Fleet;
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::memory::Memory;
use nostall_pstore::{
    DumpHeader, FTRACE_PER_CPU, Layout, LinuxVersion, Matches, Params, Ram, Zone, ZoneOrder,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use tempfile::TempDir;

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_nostall-fleet"))
}

/// Runs an export, and returns its summary.
fn export(out: &Path, arguments: &[&str], inputs: &[&Path]) -> String {
    let mut command = command();
    command
        .arg("export")
        .arg("--out")
        .arg(out)
        .args(arguments)
        .args(inputs);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    // Not a terminal, so no bar.
    assert_eq!(error, "");
    String::from_utf8(output.stdout).unwrap()
}

/// A fleet in a directory, with its answers.
struct Made {
    folder: TempDir,
    answers: Value,
}

impl Made {
    fn new(dumps: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("fleet");
        let made = command()
            .args([
                "synth",
                "--dumps",
                &dumps.to_string(),
                "--seed",
                "7",
                "--out",
            ])
            .arg(&out)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let answers = serde_json::from_slice(&fs::read(out.join("answers.json")).unwrap()).unwrap();
        Self { folder, answers }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn dumps(&self) -> PathBuf {
        self.path("fleet/dumps")
    }
}

/// Returns the names and bytes of all files with tables.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    let tables = named.filter(|(name, _)| !name.starts_with('.') && !name.starts_with("manifest"));
    tables
        .map(|(name, path)| (name, fs::read(path).unwrap()))
        .collect()
}

/// Reads the rows of a table of Parquet files.
fn rows(folder: &Path, table: &str) -> Vec<RecordBatch> {
    let names = files(folder).into_keys();
    let names = names.filter(|name| name.starts_with(&format!("{table}-")));
    names
        .flat_map(|name| {
            let file = File::open(folder.join(name)).unwrap();
            let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            let metadata = builder
                .metadata()
                .file_metadata()
                .key_value_metadata()
                .unwrap();
            assert!(
                metadata
                    .iter()
                    .any(|it| { it.key == "nostall.schema" && it.value.as_deref() == Some("1") })
            );
            builder
                .build()
                .unwrap()
                .map(|batch| batch.unwrap())
                .collect::<Vec<_>>()
        })
        .collect()
}

fn texts(batches: &[RecordBatch], column: &str) -> Vec<Option<String>> {
    let text = |batch: &RecordBatch| {
        let column = batch
            .column_by_name(column)
            .unwrap()
            .as_string::<i32>()
            .clone();
        column
            .iter()
            .map(|text| text.map(str::to_owned))
            .collect::<Vec<_>>()
    };
    batches.iter().flat_map(text).collect()
}

fn numbers(batches: &[RecordBatch], column: &str) -> Vec<i64> {
    let number = |batch: &RecordBatch| {
        batch
            .column_by_name(column)
            .unwrap()
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    };
    batches.iter().flat_map(number).collect()
}

fn count(values: impl IntoIterator<Item = Option<String>>) -> BTreeMap<String, u64> {
    values
        .into_iter()
        .fold(BTreeMap::new(), |mut counts, value| {
            *counts.entry(value.unwrap_or_default()).or_default() += 1;
            counts
        })
}

#[test]
fn every_known_answer_of_a_fleet_is_in_the_tables_of_two_shards() {
    let made = Made::new(150);
    let out = made.path("out");
    let symbols = made.path("fleet/symbols");
    let symbols = symbols.to_str().unwrap();
    for shard in ["1/2", "2/2"] {
        export(
            &out,
            &["--shard", shard, "--symbols", symbols],
            &[&made.dumps()],
        );
    }
    let dumps = rows(&out, "dumps");
    let status: BTreeMap<String, u64> =
        serde_json::from_value(made.answers["status"].clone()).unwrap();
    assert_eq!(count(texts(&dumps, "status")), status);
    let corrected: i64 = numbers(&dumps, "corrected").iter().sum();
    assert_eq!(Some(corrected), made.answers["corrected"].as_i64());
    assert!(corrected > 0);
    let paths: BTreeSet<_> = texts(&dumps, "path").into_iter().collect();
    assert_eq!(paths.len(), 150, "each input is in one shard");
    let inputs: BTreeSet<_> = numbers(&dumps, "input").into_iter().collect();
    assert_eq!(inputs, (0..150).collect());

    let crashes = rows(&out, "crashes");
    let known = made.answers["crashes"].as_object().unwrap();
    let known = known
        .iter()
        .map(|(signature, it)| (signature.clone(), it["crashes"].as_u64().unwrap()));
    assert_eq!(count(texts(&crashes, "signature")), known.collect());
    let builds = texts(&dumps, "kernel")
        .into_iter()
        .zip(texts(&dumps, "kernel_build"));
    let builds = builds.filter_map(|(kernel, build)| Some(format!("{} {}", kernel?, build?)));
    let wanted = made.answers["builds"].as_object().unwrap();
    let wanted = wanted
        .iter()
        .map(|(build, it)| (build.clone(), it["dumps"].as_u64().unwrap()));
    assert_eq!(count(builds.map(Some)), wanted.collect());

    // Functions that were called before one crash alone, which needs symbols and KASLR offsets.
    let crashed: BTreeMap<i64, String> = numbers(&crashes, "input")
        .into_iter()
        .zip(texts(&crashes, "signature").into_iter().flatten())
        .collect();
    let calls = rows(&out, "calls");
    let mut before: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let inputs = numbers(&calls, "input");
    for (input, symbol) in inputs.iter().zip(texts(&calls, "symbol")) {
        if let (Some(symbol), Some(signature)) = (symbol, crashed.get(input)) {
            before.entry(symbol).or_default().insert(signature);
        }
    }
    let mut only: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (symbol, signatures) in &before {
        if let Some(signature) = signatures.first().filter(|_| signatures.len() == 1) {
            only.entry(signature).or_default().insert(symbol);
        }
    }
    let wanted: BTreeMap<&str, BTreeSet<&str>> =
        serde::Deserialize::deserialize(&made.answers["only_before"]).unwrap();
    // Recorded crashes have no symbols here, and a crash that none but they have has no calls.
    assert_eq!(only, wanted);
}

#[test]
fn files_are_the_same_for_any_number_of_threads() {
    let made = Made::new(60);
    for format in ["parquet", "jsonl"] {
        let [one, eight] = ["1", "8"].map(|jobs| {
            let out = made.path(&format!("{format}-{jobs}"));
            let arguments = ["--jobs", jobs, "--format", format, "--batch", "4M"];
            export(&out, &arguments, &[&made.dumps()]);
            files(&out)
        });
        assert!(
            one.len() >= 8,
            "two batches of four tables: {:?}",
            one.keys()
        );
        assert!(
            one == eight,
            "{format}: {:?} and {:?}",
            one.keys(),
            eight.keys()
        );
    }
}

#[test]
fn an_export_that_is_killed_and_run_again_gives_the_same_files() {
    let made = Made::new(120);
    let (whole, killed) = (made.path("whole"), made.path("killed"));
    let arguments = ["--jobs", "1", "--batch", "512K"];
    export(&whole, &arguments, &[&made.dumps()]);
    let whole = files(&whole);
    let mut child = command()
        .arg("export")
        .arg("--out")
        .arg(&killed)
        .args(arguments)
        .arg(made.dumps())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !killed.join("dumps-00001-00.parquet").exists() {
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before its second batch"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let half = files(&killed);
    assert!(half.len() < whole.len(), "it ended before it was killed");
    for (name, bytes) in &half {
        assert!(whole.get(name) == Some(bytes), "{name} is not complete");
    }
    let summary = export(&killed, &arguments, &[&made.dumps()]);
    assert!(!summary.contains(" 0 already there"), "{summary}");
    assert!(files(&killed) == whole);
    let hidden = fs::read_dir(&killed)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let parts: Vec<_> = hidden
        .filter(|name| name.to_string_lossy().ends_with(".part"))
        .collect();
    assert_eq!(parts, Vec::<std::ffi::OsString>::new());
    // A third run has nothing to do.
    let before = fs::metadata(killed.join("dumps-00000-00.parquet"))
        .unwrap()
        .modified()
        .unwrap();
    let summary = export(
        &killed,
        &["--jobs", "1", "--batch", "512K"],
        &[&made.dumps()],
    );
    assert!(summary.contains(" 0 batches written"), "{summary}");
    let after = fs::metadata(killed.join("dumps-00000-00.parquet"))
        .unwrap()
        .modified()
        .unwrap();
    assert_eq!(before, after);
}

#[test]
fn a_manifest_of_another_export_is_refused_with_what_differs() {
    let made = Made::new(10);
    let out = made.path("out");
    export(&out, &[], &[&made.dumps()]);
    for arguments in [
        &["--redact"][..],
        &["--format", "jsonl"],
        &["--batch", "1M"],
    ] {
        let again = command()
            .arg("export")
            .arg("--out")
            .arg(&out)
            .args(arguments)
            .arg(made.dumps())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&again.stderr);
        assert_eq!(again.status.code(), Some(1));
        assert!(error.contains("is of another export"), "{error}");
    }
    let manifest = out.join("manifest.jsonl");
    let sound = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, sound.replacen("{\"input\":5", "{\"inp", 1)).unwrap();
    let again = command()
        .arg("export")
        .arg("--out")
        .arg(&out)
        .arg(made.dumps())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&again.stderr);
    assert!(error.contains("its lines are not those"), "{error}");
    fs::write(&manifest, sound).unwrap();
    // The manifest alone is enough to go on.
    let summary = export(&out, &["--manifest", manifest.to_str().unwrap()], &[]);
    assert!(summary.contains("1 already there"), "{summary}");
}

#[test]
fn the_summary_counts_every_dump_without_records() {
    let made = Made::new(100);
    let all = made.path("all");
    let summary = export(&all, &[], &[&made.dumps()]);
    let count = |status| made.answers["status"][status].as_u64().unwrap();
    let (errors, without) = (count("error"), count("empty") + count("none"));
    let wanted = format!("100 dumps, {errors} of them unreadable, {without} without records: ");
    assert!(summary.starts_with(&wanted), "{summary}");

    let dumps = rows(&all, "dumps");
    let mut named = texts(&dumps, "path")
        .into_iter()
        .zip(texts(&dumps, "status"));
    let (path, _) = named
        .find(|(_, status)| status.as_deref() == Some("empty"))
        .unwrap();
    let mut region = fs::read(path.unwrap()).unwrap();
    region[8..12].fill(0xff); // the length of the first zone
    let (damaged, out) = (made.path("damaged"), made.path("out"));
    fs::write(&damaged, region).unwrap();
    let summary = export(&out, &[], &[&damaged]);
    let wanted = "1 dump, 0 of them unreadable, 1 without records: ";
    assert!(summary.starts_with(wanted), "{summary}");
    assert_eq!(
        texts(&rows(&out, "dumps"), "status"),
        [Some("damaged".to_owned())]
    );
}

/// Runs an export that is refused, and returns its error.
fn refused(out: &Path, arguments: &[&str], inputs: &[&Path]) -> String {
    let mut command = command();
    command.arg("export").arg("--out").arg(out);
    let output = command.args(arguments).args(inputs).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_directory_with_the_files_of_another_manifest_is_refused() {
    let made = Made::new(10);
    let (out, other) = (made.path("out"), made.path("other.jsonl"));
    let other = other.to_str().unwrap();
    export(&out, &[], &[&made.dumps()]);
    // The batches of the other manifest have the same names, and would not be decoded.
    for arguments in [
        &["--manifest", other][..],
        &["--manifest", other, "--redact"],
    ] {
        let error = refused(&out, arguments, &[&made.path("fleet/symbols")]);
        assert!(error.contains("files of another manifest"), "{error}");
        assert!(!Path::new(other).exists());
    }
    // Files of another format have other names.
    export(
        &out,
        &["--manifest", other, "--format", "jsonl"],
        &[&made.dumps()],
    );
}

#[test]
fn shards_of_one_directory_have_the_same_number_of_shards_and_inputs() {
    let made = Made::new(10);
    let (dumps, symbols) = (made.dumps(), made.path("fleet/symbols"));
    let (whole, half) = (made.path("whole"), made.path("half"));
    export(&whole, &[], &[&dumps]);
    export(&half, &["--shard", "1/2"], &[&dumps]);
    for (out, arguments, inputs) in [
        (&whole, &["--shard", "1/2"][..], &dumps),
        (&half, &["--shard", "1/3"], &dumps),
        (&half, &["--shard", "2/2"], &symbols),
        (&half, &["--shard", "2/2", "--redact"], &dumps),
        (&half, &[], &dumps),
    ] {
        let before = everything(out);
        let error = refused(out, arguments, &[inputs]);
        assert!(error.contains("number of shards"), "{arguments:?}: {error}");
        assert_eq!(everything(out), before, "{arguments:?}");
    }
    export(&half, &["--shard", "2/2"], &[&dumps]);
    let inputs: BTreeSet<_> = numbers(&rows(&half, "dumps"), "input")
        .into_iter()
        .collect();
    assert_eq!(inputs, (0..10).collect());
}

#[test]
fn two_exports_that_start_at_once_do_not_break_the_manifest() {
    let made = Made::new(20);
    let out = made.path("out");
    fs::create_dir(&out).unwrap();
    // The first export holds the lock, and has not listed its inputs yet.
    let first = File::create(out.join(".export-parquet")).unwrap();
    first.lock().unwrap();
    let error = refused(&out, &[], &[&made.dumps()]);
    assert!(error.contains("another export uses it"), "{error}");
    assert!(!out.join("manifest.jsonl").exists());
    assert!(!out.join("manifest.jsonl.part").exists());
    first.unlock().unwrap();
    export(&out, &[], &[&made.dumps()]);
}

#[test]
fn any_number_of_threads_decodes_all_inputs() {
    let made = Made::new(10);
    let out = made.path("out");
    export(
        &out,
        &["--jobs", &(1_u64 << 63).to_string()],
        &[&made.dumps()],
    );
    assert_eq!(texts(&rows(&out, "dumps"), "path").len(), 10);
}

#[test]
fn redacted_files_have_no_text_and_the_same_signatures() {
    let made = Made::new(60);
    let symbols = made.path("fleet/symbols");
    let symbols = ["--symbols", symbols.to_str().unwrap()];
    let (open, redacted) = (made.path("open"), made.path("redacted"));
    export(&open, &symbols, &[&made.dumps()]);
    export(
        &redacted,
        &[&symbols[..], &["--redact"]].concat(),
        &[&made.dumps()],
    );
    let jsonl = made.path("jsonl");
    export(
        &jsonl,
        &[&symbols[..], &["--redact", "--format", "jsonl"]].concat(),
        &[&made.dumps()],
    );
    let mut all = String::new();
    for (_, bytes) in files(&jsonl) {
        all += &String::from_utf8(zstd::decode_all(&bytes[..]).unwrap()).unwrap();
    }
    for text in [
        "Linux version",
        "apparmor",
        "host-0",
        ".bin",
        "Fatal",
        "not syncing",
        "audit",
        "BUG:",
        "BIOS",
        "user space started",
        "Kernel Offset",
        "jbd2/vda1",
        "the file is empty",
    ] {
        assert!(!all.contains(text), "{text}");
    }
    for (table, column) in [
        ("crashes", "signature"),
        ("crashes", "class"),
        ("calls", "symbol"),
        ("dumps", "kernel"),
    ] {
        let of = |out| count(texts(&rows(out, table), column));
        assert_eq!(of(&open), of(&redacted), "{column}");
        assert!(of(&redacted).len() > 2, "{column}");
    }
    for (table, column) in [("records", "bytes"), ("dumps", "calls")] {
        assert_eq!(
            numbers(&rows(&open, table), column),
            numbers(&rows(&redacted, table), column)
        );
    }
    for (table, column) in [
        ("records", "text"),
        ("dumps", "path"),
        ("dumps", "error"),
        ("crashes", "reason"),
        ("crashes", "panic"),
    ] {
        assert!(
            texts(&rows(&redacted, table), column)
                .iter()
                .all(Option::is_none),
            "{column}"
        );
        assert!(
            texts(&rows(&open, table), column)
                .iter()
                .any(Option::is_some),
            "{column}"
        );
    }
}

/// Returns the recording `name` after all occurrences of texts were replaced by others.
fn recording(name: &str, replaced: &[(&[u8], &[u8])]) -> Vec<u8> {
    let fixtures = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../drivers/pstore/tests/fixtures"
    );
    let mut image = fs::read(Path::new(fixtures).join(name).join("image.bin")).unwrap();
    for (old, new) in replaced {
        let finder = memchr::memmem::Finder::new(old);
        let places: Vec<_> = finder.find_iter(&image).collect();
        assert!(!places.is_empty());
        for at in places {
            image[at..at + new.len()].copy_from_slice(new);
        }
    }
    image
}

#[test]
fn what_identifies_a_kernel_is_neither_from_pmsg_nor_from_unverified_bytes() {
    let forged = b"Linux version 9.9.9 (a) #1 x\nKernel Offset: 0x5000000 from 0x1\n";
    let by_user = recording(
        "nocompress",
        &[
            (b"Kernel Offset:", b"Kernel 0ffset:"),
            (b"pmsg line 0 from init", forged),
        ],
    );
    // More bytes than the parity of a block can correct.
    let damaged = recording(
        "ecc16",
        &[(
            b"RBP: 000000001b355e00 R08: fefefefefefefeff R09: ",
            b"Linux version 9.9.999 (XXXXXXXXXXXXXXXX) ",
        )],
    );
    for (image, offset) in [(by_user, false), (damaged, true)] {
        let source = nostall_fleet::decode::Source::Bytes(&image);
        let [dumps, ..] = nostall_fleet::decode::tables(source, &Default::default()).unwrap();
        assert_eq!(texts(&dumps, "kernel"), [Some("6.1.192".to_owned())]);
        let known = dumps[0]
            .column_by_name("kernel_offset")
            .unwrap()
            .null_count()
            == 0;
        assert_eq!(known, offset);
    }
}

#[test]
fn the_length_of_a_text_is_that_of_the_recorded_bytes() {
    let log = b"Panic#1 Part1\n<6>[    1.000000] a\xff\xffb\n";
    let source = nostall_fleet::decode::Source::Bytes(log);
    let [_, records, ..] = nostall_fleet::decode::tables(source, &Default::default()).unwrap();
    assert_eq!(
        texts(&records, "text")[1].as_deref(),
        Some("a\u{fffd}\u{fffd}b")
    );
    assert_eq!(numbers(&records, "bytes"), [13, 4]);
}

#[test]
fn the_text_of_a_log_has_the_crash_and_the_signature_of_its_dump() {
    let fixtures = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../postmortem/tests/fixtures/printk-ring"
    );
    for name in ["6.1", "6.1-arm64", "6.12-wrapped"] {
        let dump = fs::read(format!("{fixtures}/{name}.lime.gz")).unwrap();
        let memory = Memory::from_bytes(dump.clone()).unwrap();
        let logs = Discovery::new(&memory).kernel_logs(&[]);
        // `dmesg.txt` has levels. Kdump's tools write none, and indent further lines.
        let [mut with_levels, mut without] = [Vec::new(), Vec::new()];
        for message in logs[0].messages() {
            let (priority, micros) = (message.priority(), message.time_ns / 1000);
            let time = format!("[{:5}.{:06}] ", micros / 1_000_000, micros % 1_000_000);
            let indent = " ".repeat(time.len());
            for (nth, line) in message.text.split(|&byte| byte == b'\n').enumerate() {
                let before = format!("<{priority}>{time}");
                with_levels.extend([before.as_bytes(), line, b"\n"].concat());
                let before = if nth == 0 { &time } else { &indent };
                without.extend([before.as_bytes(), line, b"\n"].concat());
            }
        }
        let crashes = [dump, with_levels, without].map(|bytes| {
            let source = nostall_fleet::decode::Source::Bytes(&bytes);
            let options = Default::default();
            let [dumps, .., crashes] = nostall_fleet::decode::tables(source, &options).unwrap();
            let columns = ["kind", "class", "reason", "panic", "signature", "taint"];
            let crash = columns.map(|column| texts(&crashes, column));
            assert_eq!(texts(&crashes, "signature").len(), 1, "{name}");
            (texts(&dumps, "kernel"), crash)
        });
        assert_eq!(crashes[0], crashes[1], "{name}");
        assert_eq!(crashes[0], crashes[2], "{name}");
    }
}

/// Adds a range of memory to a LiME dump.
fn add_to_lime(dump: &mut Vec<u8>, start: u64, bytes: &[u8]) {
    dump.extend(b"EMiL\x01\0\0\0");
    dump.extend(start.to_le_bytes());
    dump.extend((start + bytes.len() as u64 - 1).to_le_bytes());
    dump.extend([0; 8]);
    dump.extend(bytes);
}

/// Debian's layout is `/var/crash/TIME/dump.TIME`.
#[test]
fn the_time_and_the_machine_of_a_crash_are_those_of_kdump() {
    let dump = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../postmortem/tests/fixtures/printk-ring/6.1.lime.gz"
    );
    let memory = Memory::open(dump).unwrap();
    let mut lime = Vec::new();
    for (start, bytes) in memory.data() {
        let mut bytes = bytes.into_owned();
        // Linux writes its time at the end of the text.
        if let Some(text) = memmem::find(&bytes, b"OSRELEASE=") {
            let end = text + memmem::find(&bytes[text..], b"\0").unwrap();
            let time = b"CRASHTIME=1700000000\n";
            bytes[end..][..time.len()].copy_from_slice(time);
        }
        add_to_lime(&mut lime, start, &bytes);
    }
    let folder = TempDir::new().unwrap();
    let crash = folder.path().join("web1/202311142213");
    fs::create_dir_all(&crash).unwrap();
    fs::write(crash.join("dump.202311142213"), lime).unwrap();
    fs::write(folder.path().join("web1/kexec_cmd"), "/sbin/kexec -p").unwrap();
    let out = folder.path().join("out");
    export(&out, &[], &[&folder.path().join("web1")]);
    let dumps = rows(&out, "dumps");
    assert_eq!(texts(&dumps, "machine"), [Some("web1".to_owned())]);
    for table in ["dumps", "crashes"] {
        let rows = rows(&out, table);
        let times = rows[0].column_by_name("time").unwrap();
        let times = times.as_primitive::<TimestampMicrosecondType>();
        assert_eq!(times.values()[..], [1_700_000_000_000_000], "{table}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_input_that_is_no_dump_is_a_row_with_its_error() {
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let inputs = path("inputs");
    fs::create_dir_all(inputs.join("a/b")).unwrap();
    symlink(&inputs, inputs.join("a/b/loop")).unwrap();
    symlink("self", inputs.join("self")).unwrap();
    fs::write(inputs.join("a/nothing"), b"").unwrap();
    fs::write(inputs.join("a/text"), b"no dump\n").unwrap();
    fs::write(inputs.join("packed.gz"), b"\x1f\x8b\x08\0\0\0\0\0\0\0").unwrap();
    let fifo = path("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let list = path("list");
    let mut lines = format!("{}\n/dev/zero\n/nonexistent\n", fifo.display()).into_bytes();
    lines.extend(b"a\0b\n\n/\xff\n");
    // A file is no directory. A superuser can read every file, so permissions prove nothing.
    lines.extend(inputs.join("a/text/below").to_str().unwrap().bytes());
    fs::write(&list, &lines).unwrap();
    let out = path("out");
    let at_list = PathBuf::from(format!("@{}", list.display()));
    export(&out, &[], &[&inputs, &at_list, &inputs.join("self")]);
    let dumps = rows(&out, "dumps");
    let name = |path: Option<String>| {
        let path = path.unwrap();
        Path::new(&path)
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    let names = texts(&dumps, "path").into_iter().map(name);
    let found: Vec<_> = names
        .zip(texts(&dumps, "status").into_iter().flatten())
        .zip(texts(&dumps, "error").into_iter().flatten())
        .collect();
    let wanted = [
        ("nothing", "error", "the file is empty"),
        ("text", "none", "no log, region"),
        ("packed.gz", "error", "gzip"),
        ("fifo", "error", "a pipe or device"),
        ("zero", "error", "a pipe or device"),
        ("nonexistent", "error", "No such file"),
        ("a\0b", "error", "NUL byte"),
        ("\u{fffd}", "error", "No such file"),
        ("below", "error", "Not a directory"),
        ("self", "error", "symbolic links"),
    ];
    assert_eq!(found.len(), wanted.len(), "{found:#?}");
    for (((name, status), error), wanted) in found.iter().zip(wanted) {
        assert_eq!((&**name, &**status), (wanted.0, wanted.1));
        assert!(error.contains(wanted.2), "{name}: {error}");
    }

    let endless = command()
        .args(["export", "@/dev/zero", "--out"])
        .arg(path("zero"))
        .output()
        .unwrap();
    assert_eq!(endless.status.code(), Some(1));
    let error = String::from_utf8_lossy(&endless.stderr);
    assert!(error.contains("is this a list?"), "{error}");
}

#[test]
fn a_manifest_that_another_export_makes_or_reads_is_refused_until_that_ends() {
    let made = Made::new(10);
    let manifest = made.path("shared.jsonl");
    let arguments = ["--manifest", manifest.to_str().unwrap()];
    // The other export lists its inputs.
    let part = File::create(made.path("shared.jsonl.part")).unwrap();
    part.lock().unwrap();
    let error = refused(&made.path("first"), &arguments, &[&made.dumps()]);
    assert!(
        error.contains("shared.jsonl: another export makes it"),
        "{error}"
    );
    assert!(!manifest.exists());
    // Other tests start commands, which have a closed file's lock for a moment.
    part.unlock().unwrap();
    export(&made.path("first"), &arguments, &[&made.dumps()]);
    // It decodes.
    let read = File::open(&manifest).unwrap();
    read.lock().unwrap();
    let error = refused(&made.path("second"), &arguments, &[]);
    assert!(error.contains("another export uses it"), "{error}");
    read.unlock().unwrap();
    export(&made.path("second"), &arguments, &[]);
    assert!(files(&made.path("first")) == files(&made.path("second")));
    assert!(!made.path("shared.jsonl.part").exists());
}

#[test]
fn the_directory_of_the_tables_is_no_input() {
    let made = Made::new(10);
    let dumps = made.dumps();
    let list = made.path("list");
    fs::write(&list, format!("{}/.\n", dumps.display())).unwrap();
    let at_list = PathBuf::from(format!("@{}", list.display()));
    for input in [&dumps, &at_list] {
        let error = refused(&dumps, &[], &[input]);
        assert!(
            error.contains("the directory of the tables is no input"),
            "{error}"
        );
        assert!(!dumps.join("manifest.jsonl").exists());
    }
    // A directory around it is one, without the tables.
    let out = dumps.join("tables");
    export(&out, &[], &[&dumps]);
    assert_eq!(texts(&rows(&out, "dumps"), "path").len(), 10);
}

#[test]
fn a_batch_of_no_bytes_is_refused() {
    let out = tempfile::tempdir().unwrap();
    let mut command = command();
    command.args(["export", "--batch", "0", "input", "--out"]);
    let output = command.arg(out.path().join("out")).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("a batch has one byte at least"), "{error}");
}

#[test]
fn a_list_of_windows_lines_is_read_and_a_path_listed_twice_is_two_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("dump"), "Panic#1 Part1\n").unwrap();
    let line = format!("{}\r\n", path("dump").display());
    // The last line has no end.
    fs::write(path("list"), format!("{line}\r\n{line}{}", line.trim())).unwrap();
    let at_list = PathBuf::from(format!("@{}", path("list").display()));
    export(&path("out"), &[], &[&at_list]);
    let dumps = rows(&path("out"), "dumps");
    assert_eq!(
        count(texts(&dumps, "status")),
        [("records".to_owned(), 3)].into()
    );
    assert_eq!(numbers(&dumps, "input"), [0, 1, 2]);
    // Queries count such a dump once by its hash.
    assert_eq!(count(texts(&dumps, "dump")).len(), 1);
}

#[cfg(unix)]
#[test]
fn a_name_in_a_list_may_end_in_a_carriage_return() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("dump\r"), "Panic#1 Part1\n").unwrap();
    fs::write(path("other"), "Panic#1 Part1\n").unwrap();
    let lines = ["dump\r\n", "other\r\n", "dump\r"].map(path);
    let lines = lines.map(|path| path.to_str().unwrap().to_owned());
    fs::write(path("list"), lines.concat()).unwrap();
    let at_list = PathBuf::from(format!("@{}", path("list").display()));
    export(&path("out"), &[], &[&at_list]);
    let dumps = rows(&path("out"), "dumps");
    let wanted = ["dump\r", "other", "dump\r"].map(|name| path(name).to_str().map(str::to_owned));
    assert_eq!(texts(&dumps, "path"), wanted);
    assert_eq!(
        count(texts(&dumps, "status")),
        [("records".to_owned(), 3)].into()
    );
}

#[test]
fn inputs_without_any_file_are_refused_and_leave_no_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("list"), "\n\r\n").unwrap();
    fs::create_dir(path("empty")).unwrap();
    let at_list = PathBuf::from(format!("@{}", path("list").display()));
    for input in [at_list, path("empty")] {
        let error = refused(&path("out"), &[], &[&input]);
        assert!(error.contains("there is no file in the inputs"), "{error}");
        assert!(!path("out/manifest.jsonl").exists());
        assert!(!path("out/manifest.jsonl.part").exists());
    }
    // Dumps that come later are exported.
    fs::write(path("empty/dump"), "Panic#1 Part1\n").unwrap();
    export(&path("out"), &[], &[&path("empty")]);
    // A shard may have no input.
    let summaries =
        ["1/2", "2/2"].map(|shard| export(&path("shards"), &["--shard", shard], &[&path("empty")]));
    assert!(
        summaries
            .iter()
            .any(|summary| summary.starts_with("0 dumps")),
        "{summaries:?}"
    );
}

#[test]
fn words_in_the_place_of_a_release_do_not_pass_into_redacted_tables() {
    let log = b"Panic#1 Part1\n\
        <6>[    0.000000] Linux version my-secret (root@vm) #my password\n\
        <0>[    1.000000] Kernel panic - not syncing: x\n\
        <0>[    1.000001] CPU: 0 PID: 1 Comm: x Tainted: G SECRET hidden.words #1\n\
        <0>[    1.000002] Call Trace:\n\
        <0>[    1.000003]  a_function+0x1/0x2\n\
        <0>[    1.000004]  mail@example.org+0x1/0x2\n";
    let options = nostall_fleet::decode::Options {
        redact: true,
        ..Default::default()
    };
    let source = nostall_fleet::decode::Source::Bytes(log);
    let [dumps, _, _, crashes] = nostall_fleet::decode::tables(source, &options).unwrap();
    for column in ["kernel", "kernel_build"] {
        assert_eq!(texts(&dumps, column), [None], "{column}");
    }
    assert_eq!(texts(&crashes, "kernel"), [None]);
    assert_eq!(texts(&crashes, "taint"), [Some("GSRCET".to_owned())]);
    let stack = crashes[0].column_by_name("stack").unwrap().as_list::<i32>();
    let stack = stack.value(0);
    let stack: Vec<_> = stack.as_string::<i32>().iter().collect();
    assert_eq!(stack, [Some("a_function")]);
}

#[test]
fn a_fleet_is_the_same_for_the_same_seed_and_another_for_another() {
    let bytes = |seed| {
        let fleet = Fleet::new(20, seed);
        let mut answers = Default::default();
        (0..20)
            .map(|number| fleet.dump(number, &mut answers).unwrap())
            .collect::<Vec<_>>()
    };
    assert!(bytes(1) == bytes(1));
    assert!(bytes(1) != bytes(2));
}

#[test]
fn recorded_dumps_are_those_of_the_fixtures() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in ["plain", "ecc16"] {
        let packed = File::open(here.join(format!("fixtures/{name}.bin.zst"))).unwrap();
        let fixture = here.join(format!(
            "../../drivers/pstore/tests/fixtures/{name}/image.bin"
        ));
        assert!(
            zstd::decode_all(packed).unwrap() == fs::read(fixture).unwrap(),
            "{name}"
        );
    }
}

/// Returns everything in a directory, hidden files included.
fn everything(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_foreign_file_in_the_directory_is_refused_before_anything_is_written() {
    let made = Made::new(10);
    let other = Made::new(20);
    export(&other.path("out"), &[], &[&other.dumps()]);
    let foreign = other.path("out/dumps-00000-00.parquet");
    for name in ["dumps-00000-00.parquet", "records-00007-00.parquet"] {
        for kind in ["another fleet's", "empty", "directory"] {
            let out = made.path("out");
            fs::create_dir(&out).unwrap();
            match kind {
                "empty" => fs::write(out.join(name), "").unwrap(),
                "directory" => fs::create_dir(out.join(name)).unwrap(),
                _ => drop(fs::copy(&foreign, out.join(name)).unwrap()),
            }
            let error = refused(&out, &[], &[&made.dumps()]);
            assert!(error.contains(name), "{kind} {name}: {error}");
            assert!(error.contains("no export into this directory"), "{error}");
            assert_eq!(everything(&out), [name.to_owned()].into(), "{kind}");
            fs::remove_dir_all(&out).unwrap();
        }
    }
}

#[test]
fn a_changed_file_of_a_complete_batch_is_refused_by_name() {
    let made = Made::new(10);
    let out = made.path("out");
    // Digits that do not compress well: the file is longer than its index.
    let words = (1..20_000_u64).map(|line| line.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let log: String = words.map(|word| format!("{word:x}\n")).collect();
    fs::write(
        made.dumps().join("log"),
        "Panic#1 Part1\n".to_owned() + &log,
    )
    .unwrap();
    export(&out, &[], &[&made.dumps()]);
    let path = out.join("records-00000-00.parquet");
    let sound = fs::read(&path).unwrap();
    let flipped = |at: usize| {
        let mut changed = sound.clone();
        changed[at] ^= 1;
        changed
    };
    let (first, last) = (flipped(1_000), flipped(sound.len() - 1));
    for bytes in [&first[..], &last, &sound[1..], b""] {
        fs::write(&path, bytes).unwrap();
        let error = refused(&out, &[], &[&made.dumps()]);
        assert!(error.contains("records-00000-00.parquet"), "{error}");
        assert!(error.contains("was changed"), "{error}");
    }
    fs::write(&path, &sound).unwrap();
    assert!(export(&out, &[], &[&made.dumps()]).contains("1 already there"));
    // A batch without one of its files is exported again, whole.
    let whole = files(&out);
    fs::remove_file(out.join("dumps-00000-00.parquet")).unwrap();
    assert!(export(&out, &[], &[&made.dumps()]).contains("1 batch written"));
    assert!(files(&out) == whole);
}

#[test]
fn a_changed_manifest_is_refused() {
    let made = Made::new(30);
    let out = made.path("out");
    let shared = made.path("shared.jsonl");
    let arguments = ["--manifest", shared.to_str().unwrap()];
    export(&out, &arguments, &[&made.dumps()]);
    let sound = fs::read_to_string(&shared).unwrap();
    let lines: Vec<_> = sound.lines().collect();
    let shortened = [&lines[..10], &lines[15..]].concat();
    let ended = [&lines[..10], &lines[31..], &lines[10..]].concat();
    let numbered = sound.replace("\"batch\":0", "\"batch\":3");
    for (changed, name) in [
        (sound.replacen("}\n{", "}{", 1), "two lines are joined"),
        (shortened.join("\n") + "\n", "lines are deleted"),
        (ended.join("\n") + "\n", "an end in the middle"),
        (numbered, "other numbers of batches"),
        (sound.replace('\n', "\r\n"), "line ends of Windows"),
        (sound.replace('\n', " \n"), "spaces at the ends of lines"),
        (sound.replacen('\n', " \n", 1), "a space after the options"),
        (sound.clone() + "\n", "a line without text"),
        (sound.trim_end().to_owned(), "no end of the last line"),
        (
            sound.replace("\"inputs\":30", "\"inputs\":31"),
            "another sum",
        ),
    ] {
        assert!(changed != sound, "{name}");
        fs::write(&shared, changed).unwrap();
        let new = made.path("new");
        let error = refused(&new, &arguments, &[]);
        assert!(error.contains("its lines are not those"), "{name}: {error}");
        assert_eq!(files(&new), BTreeMap::new(), "{name}");
        fs::remove_dir_all(new).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn inputs_with_similar_names_or_in_another_directory_are_of_another_export() {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt;

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let not_utf8 = |name: &[u8]| OsStr::from_bytes(name).to_owned();
    for directory in ["one", "two"] {
        fs::create_dir(path(directory)).unwrap();
        fs::write(path(directory).join("dump"), "Panic#1 Part1\n").unwrap();
    }
    for name in [b"one/dump\xff", b"one/dump\xfe"] {
        fs::write(folder.path().join(not_utf8(name)), "Panic#1 Part1\n").unwrap();
    }
    fs::write(path("list"), "dump\n").unwrap();
    let export_in = |directory: &str, out: &str, arguments: &[OsString]| {
        let mut command = command();
        command.arg("export").arg("--out").arg(path(out));
        let output = command
            .args(arguments)
            .current_dir(path(directory))
            .output();
        let output = output.unwrap();
        let [text, error] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        text + &error
    };
    let manifest = format!("--manifest={}", path("manifest/manifest.jsonl").display());
    let list = OsString::from(format!("@{}", path("list").display()));
    for (out, [directory, other], [inputs, others]) in [
        (
            "bytes",
            ["one"; 2],
            [not_utf8(b"dump\xff"), not_utf8(b"dump\xfe")],
        ),
        ("relative", ["one", "two"], ["dump".into(), "dump".into()]),
        ("listed", ["one", "two"], [list.clone(), list]),
        ("manifest", ["one", "two"], ["dump".into(), manifest.into()]),
    ] {
        let inputs = [inputs];
        let done = export_in(directory, out, &inputs);
        assert!(done.contains("1 batch written"), "{out}: {done}");
        let refused = export_in(other, out, &[others]);
        let is_refused = ["of another export", "are relative to"]
            .iter()
            .any(|it| refused.contains(it));
        assert!(is_refused, "{out}: {refused}");
        let again = export_in(directory, out, &inputs);
        assert!(again.contains("1 already there"), "{out}: {again}");
    }
    let absolute = export_in("one", "relative", &[path("one/dump").into()]);
    assert!(absolute.contains("1 already there"), "{absolute}");
    let manifest = fs::read_to_string(path("bytes/manifest.jsonl")).unwrap();
    assert!(manifest.contains(",255]"), "{manifest}");
}

#[test]
fn a_large_file_that_grows_while_it_is_hashed_is_a_row_with_its_error_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (dump, out) = (folder.path().join("dump"), folder.path().join("out"));
    let mut file = File::create(&dump).unwrap();
    file.set_len(256 << 20).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                file.write_all(b"x").unwrap();
            }
        });
        export(&out, &[], &[&dump]);
        is_done.store(true, Ordering::Relaxed);
    });
    let dumps = rows(&out, "dumps");
    assert_eq!(texts(&dumps, "status"), [Some("error".to_owned())]);
    assert_eq!(texts(&dumps, "dump"), [None]);
    let error = texts(&dumps, "error").remove(0).unwrap();
    assert!(error.contains("changed while it was read"), "{error}");
    assert!(rows(&out, "records").is_empty());
}

#[test]
fn an_input_that_does_not_exist_is_refused_before_anything_is_written() {
    let made = Made::new(10);
    let out = made.path("out");
    let mistyped = made.path("fleet/dump");
    let error = refused(&out, &[], &[&made.dumps(), &mistyped]);
    assert!(error.contains("fleet/dump: "), "{error}");
    assert!(error.contains("No such file"), "{error}");
    assert!(!out.exists());
}

#[test]
fn the_manifest_is_no_input() {
    let made = Made::new(10);
    let manifest = made.dumps().join("list.jsonl");
    let arguments = ["--manifest", manifest.to_str().unwrap()];
    let summary = export(&made.path("out"), &arguments, &[&made.dumps()]);
    assert!(summary.starts_with("10 dumps, "), "{summary}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_error_of_writing_names_the_file() {
    let made = Made::new(30);
    // Files of at most this number of KiB, as on a full disk.
    for (most, name) in [(0, "manifest.jsonl.part"), (12, ".parquet.part")] {
        let script = format!("trap '' XFSZ; ulimit -f {most}; exec \"$0\" \"$@\"");
        let output = Command::new("bash")
            .args([
                "-c",
                &script,
                env!("CARGO_BIN_EXE_nostall-fleet"),
                "export",
                "--out",
            ])
            .args([made.path(&format!("out{most}")), made.dumps()])
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(name), "{most}: {error}");
        assert!(error.contains("File too large"), "{most}: {error}");
        assert!(!error.contains("fleet/dumps"), "{most}: {error}");
    }
}

#[test]
fn files_of_json_have_no_character_that_controls_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let (dumps, out) = (folder.path().join("dumps"), folder.path().join("tables"));
    let harmful = ['\u{202e}', '\u{9b}', '\u{7f}'];
    fs::create_dir(&dumps).unwrap();
    let name = format!("log{}", String::from_iter(harmful));
    let log = "Panic#1 Part1\n".to_owned() + &String::from_iter(harmful) + "text\n";
    fs::write(dumps.join(&name), &log).unwrap();
    export(&out, &["--format", "jsonl"], &[&dumps]);
    let mut texts: Vec<_> = files(&out)
        .into_values()
        .map(|bytes| String::from_utf8(zstd::decode_all(&bytes[..]).unwrap()).unwrap())
        .collect();
    let paths = texts.iter().flat_map(|text| text.lines());
    let paths = paths.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let paths: Vec<_> = paths
        .filter_map(|row| Some(row.get("path")?.as_str()?.to_owned()))
        .collect();
    assert_eq!(paths, [dumps.join(&name).to_str().unwrap()]);
    texts.push(fs::read_to_string(out.join("manifest.jsonl")).unwrap());
    for text in texts {
        assert!(!text.contains(harmful), "{text:?}");
    }
    // The manifest is read back.
    let summary = export(&out, &["--format", "jsonl"], &[&dumps]);
    assert!(summary.contains("1 already there"), "{summary}");
}

#[test]
fn an_error_has_no_character_that_controls_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    for args in [["no\x1b[31m", "out"], [".", "no\x1b[31m"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_nostall-fleet"))
            .arg("export")
            .args([args[0], "--out", args[1]])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(!error.contains('\x1b'), "{error:?}");
    }
}

/// Returns a region of ramoops with a panic's log.
fn region(log: &str) -> Vec<u8> {
    let layout = Layout::new(&Params {
        mem_size: 0x2_0000,
        record_size: 0x8000,
        console_size: 0,
        ftrace_size: 0,
        pmsg_size: 0,
        ecc: 0,
        cpus: 1,
        flags: FTRACE_PER_CPU,
        zone_order: ZoneOrder::Linux6_2,
    });
    let mut memory = vec![0; 0x2_0000];
    for (place, memory) in layout.unwrap().split(Ram::of(&mut memory)) {
        let linux = LinuxVersion::new(6, 1, 0);
        let (mut zone, _) = Zone::attach(memory, place.kind, linux, None).unwrap();
        if place.index == 0 {
            let mut room = vec![0; place.division.data()];
            let header = DumpHeader {
                seconds: 1_700_000_000,
                ..DumpHeader::PANIC
            };
            let mut matches = Box::new(Matches::new());
            zone.write_dmesg_deflated(&header, log.as_bytes(), &mut matches, &mut room);
        }
    }
    memory
}

#[test]
fn a_crash_in_the_ring_and_in_ramoops_is_one_row_if_eight_records_are_in_both() {
    const RING: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../postmortem/tests/fixtures/printk-ring/6.1.lime.gz"
    );
    let memory = Memory::open(RING).unwrap();
    let logs = Discovery::new(&memory).kernel_logs(&[]);
    let lines: Vec<_> = logs[0].messages().collect();
    let dump = |log: &str| {
        let mut dump = Vec::new();
        for (start, bytes) in memory.data() {
            add_to_lime(&mut dump, start, &bytes);
        }
        add_to_lime(&mut dump, 0xf000_0000, &region(log));
        dump
    };
    let panic = lines
        .iter()
        .position(|it| it.text.starts_with(b"Kernel panic - not"));
    let panic = panic.unwrap();
    // The log of ramoops from a record on. Records before the panic may be of another boot.
    let log = |first: usize, shift: u64| {
        let lines = (first..=panic).map(|nth| {
            let shift = if nth < panic { shift } else { 0 };
            let micros = lines[nth].time_ns / 1000 + shift;
            let text = String::from_utf8_lossy(&lines[nth].text);
            let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
            format!("<0>[{seconds:5}.{micros:06}] {text}\n")
        });
        lines.collect::<String>()
    };
    for (first, shift, wanted) in [
        (panic - 40, 0, 1),
        (panic - 7, 0, 1),
        // Seven records, and records of an earlier boot.
        (panic - 6, 0, 2),
        (panic - 40, 1, 2),
    ] {
        let folder = TempDir::new().unwrap();
        let (image, out) = (folder.path().join("image"), folder.path().join("out"));
        fs::write(&image, dump(&log(first, shift))).unwrap();
        export(&out, &[], &[&image]);
        let crashes = rows(&out, "crashes");
        assert_eq!(texts(&crashes, "reason").len(), wanted, "{first}, {shift}");
    }
}
