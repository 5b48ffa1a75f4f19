//! `nostall trace report` as its user sees it: on Linux's text, on a recording that grows, on a
//! terminal, and on files that are no traces.

#![cfg(target_os = "linux")]

use crate::terminal;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use assert_cmd::cargo::cargo_bin;
use flate2::read::GzDecoder;
use nostall_io::Processor;
use nostall_trace::{
    Image, Options, ProgramOptions, ProgramTrace, Recorder, Region, Site, Ticks, trace_scope,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;
use terminal::on_terminal;

/// The article on the serial console: the trace of one byte, and the tail of a longer one.
fn article() -> PathBuf {
    let fixtures =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../records/tracefile/tests/fixtures");
    fixtures.join("text/004_640dd8fb3e5f4342.txt")
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("nostall"));
    command.args(["trace", "report"]).args(args);
    command
}

fn report(input: &Path, args: &[&str]) -> Output {
    command(args).arg(input).output().unwrap()
}

fn printed(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn fails(output: &Output, status: i32, text: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{errors}");
    assert!(errors.contains(text), "{errors}");
}

#[test]
fn the_articles_graph_has_the_durations_printed_in_it() {
    let graph = printed(&report(&article(), &["--view", "graph"]));
    for line in [
        " 0)   0.384 us    |    _raw_spin_lock_irqsave();",
        " 0)   1.870 us    |          io_serial_in();",
        " 0)   4.318 us    |      }",
        " 0) ! 411.342 us  |    }",
        " 8)   1.666 us    |          }",
        " 8) + 12.787 us   |        io_serial_in();",
    ] {
        assert!(graph.contains(line), "{line}\n{graph}");
    }
}

#[test]
fn the_articles_table_has_each_function() {
    let output = report(&article(), &["--json", "--function", "io_serial_*"]);
    let document: Value = serde_json::from_str(&printed(&output)).unwrap();
    assert_eq!(document["schema"], 1);
    assert_eq!(document["view"], "table");
    let trace = &document["traces"][0];
    assert_eq!(trace["unit"], "ns");
    let rows = trace["rows"].as_array().unwrap();
    let functions: Vec<_> = rows.iter().map(|row| &row["function"]).collect();
    assert_eq!(functions, ["io_serial_in", "io_serial_out"]);
    assert_eq!(rows[0]["calls"], 8);
    assert_eq!(rows[0]["max"], 12_787);
    let sum = 1836 + 1870 + 1635 + 1683 + 1671 + 1710 + 12_787 + 1743;
    assert_eq!(rows[0]["total"], sum);
}

#[test]
fn every_view_prints_text_and_json() {
    for view in ["table", "graph", "histogram", "rate", "stalls"] {
        let text = printed(&report(&article(), &["--view", view]));
        assert!(!text.is_empty(), "{view}");
        assert!(!text.contains('\x1b'), "{view}");
        let json = printed(&report(&article(), &["--view", view, "--json"]));
        match view {
            "graph" | "rate" => {
                for line in json.lines() {
                    serde_json::from_str::<Value>(line).unwrap();
                }
            }
            _ => {
                let document: Value = serde_json::from_str(&json).unwrap();
                assert_eq!(document["view"], view);
            }
        }
    }
    let path = article();
    let diff = [
        "--view",
        "diff",
        "--json",
        "--limit",
        "3",
        path.to_str().unwrap(),
    ];
    let document: Value = serde_json::from_str(&printed(&report(&path, &diff))).unwrap();
    assert_eq!(document["rows"].as_array().unwrap().len(), 3);
}

#[test]
fn inputs_that_are_no_traces_are_errors_that_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no\x1bfile");
    fails(&report(&missing, &[]), 1, "no\\x1bfile");
    fails(&report(folder.path(), &[]), 1, "this is a directory");
    let text = folder.path().join("letter.txt");
    fs::write(&text, "Dear reader,\n").unwrap();
    fails(&report(&text, &[]), 1, "no trace of a known kind");
    let pipe = folder.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fails(&report(&pipe, &[]), 1, "not a file");
    fails(
        &report(&article(), &["--view", "diff"]),
        1,
        "compares two inputs",
    );
    fails(
        &report(&article(), &["--time"]),
        1,
        "--time is for --view graph",
    );
    fails(
        &report(&article(), &["--interval", "1"]),
        2,
        "not a length of time",
    );
    fails(&report(&article(), &["--view", "pie"]), 2, "pie");
    // The input that can be read is reported nevertheless.
    let both = command(&[]).args([&text, &article()]).output().unwrap();
    fails(&both, 1, "letter.txt");
    assert!(String::from_utf8_lossy(&both.stdout).contains("io_serial_in"));
}

#[test]
fn a_reader_that_stops_early_ends_the_work_without_a_message() {
    // Closed before the command writes.
    let (_, closed) = std::io::pipe().unwrap();
    let output = command(&["--view", "graph"])
        .args([article(), article()])
        .stdout(closed)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(128 + 13));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn standard_input_is_reported_and_converted_like_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let dat = folder.path().join("trace.dat");
    let packed = article().with_file_name("../dat/graph-2cpu.dat.gz");
    let mut unpacked = Vec::new();
    let mut packed = GzDecoder::new(File::open(packed).unwrap());
    packed.read_to_end(&mut unpacked).unwrap();
    fs::write(&dat, unpacked).unwrap();
    let from = |mut command: Command, file: &Path| {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let bytes = fs::read(file).unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        child.wait_with_output().unwrap()
    };
    for file in [&article(), &dat] {
        for args in [&[][..], &["--view", "graph"], &["--view", "flame"]] {
            let mut command = command(args);
            command.arg("-");
            let piped = printed(&from(command, file));
            let of_file = printed(&report(file, args));
            let named = of_file.replace(file.to_str().unwrap(), "standard input");
            assert!(piped == named && piped.len() > 100, "{args:?}: {piped}");
        }
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        let convert = |input: &Path, out: &Path| {
            let mut command = Command::new(cargo_bin("nostall"));
            command.args(["trace", "convert", "--force", "--to", "perfetto"]);
            command.arg(input).arg("-o").arg(out);
            command
        };
        printed(&convert(file, &one).output().unwrap());
        printed(&from(convert(Path::new("-"), &other), file));
        assert_eq!(fs::read(one).unwrap(), fs::read(other).unwrap());
    }
    let nothing = command(&["-"]).stdin(Stdio::null()).output().unwrap();
    fails(&nothing, 1, "standard input: the file is empty");
}

#[test]
fn a_terminal_gets_colour_and_lines_that_fit() {
    for columns in [80, 200] {
        for args in [&["--view", "graph", "--time"][..], &[], &["--view", "rate"]] {
            let report = |colour| {
                let mut command = command(args);
                command.arg(article());
                on_terminal(command, columns, colour)
            };
            let plain = report(false);
            assert!(!plain.contains('\x1b'), "{plain}");
            let longest = plain.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(columns.into()), "{plain}");
            let coloured = report(true);
            assert!(coloured.contains("\x1b[1m"), "{coloured}");
        }
    }
}

/// One test, because a process has one recording.
#[test]
fn a_recording_is_reported_while_it_grows_and_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let options = ProgramOptions {
        slots: 1 << 12,
        ..ProgramOptions::DEFAULT
    };
    let trace = ProgramTrace::create(&path, &options).unwrap();
    let call = || {
        trace_scope!("outer");
        trace_scope!("inner\x1b[2J");
    };
    call();

    let document = printed(&report(&path, &["--json"]));
    let document: Value = serde_json::from_str(&document).unwrap();
    let rows = document["traces"][0]["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["calls"] == 1), "{document}");
    (0..100).for_each(|_| call());
    trace.freeze();

    let document = printed(&report(&path, &["--json"]));
    assert!(!document.contains('\x1b'));
    let document: Value = serde_json::from_str(&document).unwrap();
    let rows = document["traces"][0]["rows"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["function"] == name).unwrap();
    for name in ["outer", "inner\x1b[2J"] {
        assert_eq!(row(name)["calls"], 101, "{name}");
        assert_eq!(row(name)["unmatched"], 0, "{name}");
    }
    let (outer, inner) = (row("outer"), row("inner\x1b[2J"));
    let number = |value: &Value| value.as_u64().unwrap();
    let own = number(&outer["total"]) - number(&inner["total"]);
    assert_eq!(number(&outer["self"]), own);
    let graph = printed(&report(&path, &["--view", "graph", "--limit", "6"]));
    // The heading, the thread's name, and six lines.
    assert_eq!(graph.lines().count(), 8, "{graph}");
    assert!(graph.contains("  inner\\x1b[2J();"), "{graph}");
}

#[test]
fn calls_of_unknown_threads_have_their_own_durations() {
    /// A clock that advances with each read.
    #[derive(Default)]
    struct Count(AtomicU64);
    impl Ticks for Count {
        fn now(&self) -> u64 {
            self.0.fetch_add(1, Ordering::Relaxed)
        }
    }
    /// The thread's zone.
    struct Zone<'z>(&'z AtomicUsize);
    impl Processor for Zone<'_> {
        fn id(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
        fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
            critical()
        }
    }
    static CALL: Site = Site::new("call", "tests");
    #[repr(align(64))]
    struct Memory([u8; 4096]);

    let zone = AtomicUsize::new(0);
    let mut memory = Memory([0; 4096]);
    let recorder = Recorder::new(Count::default(), Zone(&zone));
    let options = Options {
        zones: 2,
        names: 256,
        zones_of_threads: true,
        ticks_per_second: 1_000_000_000,
        ..Options::default()
    };
    recorder.start(Region::format(&mut memory.0, &options).unwrap());
    let on = |number| zone.store(number, Ordering::Relaxed);
    let entered = [0, 1].map(|number| {
        on(number);
        recorder.enter_site(&CALL, None)
    });
    for (number, entered) in entered.into_iter().enumerate() {
        on(number);
        recorder.exit(entered);
    }
    let live = recorder.dump().unwrap();
    let mut bytes = vec![0; live.len() as usize];
    assert!(live.read(0, &mut bytes));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    fs::write(&path, bytes).unwrap();

    let lines = printed(&report(&path, &["--view", "graph", "--json"]));
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let calls: Vec<_> = lines
        .map(|line: Value| {
            let [start, duration, task] =
                ["start", "duration", "task"].map(|name| line[name].as_i64());
            (start, duration, task, line["matched"].clone())
        })
        .collect();
    let start = calls[0].0.unwrap();
    let expected = [(start, -1), (start + 1, -2)]
        .map(|(start, task)| (Some(start), Some(2), Some(task), "paired".into()));
    assert_eq!(calls, expected);

    let graph = printed(&report(&path, &["--view", "graph"]));
    // The calls overlap, and each thread has its own lines.
    assert_eq!(
        graph,
        "#   THREAD  DURATION         FUNCTION CALLS\n\
         \x20    -1)  unknown thread of zone 0\n\
         \x20    -1)   0.002 us    |  call();\n\
         \x20    -2)  unknown thread of zone 1\n\
         \x20    -2)   0.002 us    |  call();\n"
    );
}
