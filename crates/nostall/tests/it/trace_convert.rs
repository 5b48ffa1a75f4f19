//! `nostall trace convert`, and its outputs as the official tools read them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use flate2::read::GzDecoder;
use nostall_tracefile::export::{ExportError, Perfetto, Uftrace};
use nostall_tracefile::graph::{self, Match, Slice, Step};
use nostall_tracefile::model::{Catalog, Event, EventKind, Events, Source, Task, TimeUnit};
use nostall_tracefile::read::open_text;
use serde_json::{Value, json};

/// Returns a tool's path. Without it the test prints that it is skipped, and fails if
/// `NOSTALL_REQUIRE_TOOLS` is set.
fn tool(test: &str, path: PathBuf) -> Option<PathBuf> {
    let runs = Command::new(&path).arg("--version").output().is_ok();
    if runs {
        return Some(path);
    }
    let error = format!(
        "there is no {}: run scripts/setup trace-tools",
        path.display()
    );
    assert!(
        std::env::var_os("NOSTALL_REQUIRE_TOOLS").is_none(),
        "{test}: {error}"
    );
    // The test harness captures the output of std's macros, so they are not used here.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {error}");
    None
}

/// Python with Perfetto's classes, in cargo's target folder. A test for another processor has a folder
/// in that.
fn python(test: &str) -> Option<PathBuf> {
    let python = Path::new("trace-tools/bin/python");
    let folders = Path::new(env!("CARGO_TARGET_TMPDIR")).ancestors();
    let found = folders
        .map(|folder| folder.join(python))
        .find(|python| python.exists());
    tool(test, found.unwrap_or_else(|| python.to_owned()))
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../records/tracefile/tests/fixtures/text")
        .join(name)
}

fn unpacked(name: &str) -> Vec<u8> {
    let bytes = fs::read(fixture(name)).unwrap();
    let mut text = Vec::new();
    match name.ends_with(".gz") {
        true => std::io::copy(&mut GzDecoder::new(&bytes[..]), &mut text).unwrap(),
        false => return bytes,
    };
    text
}

fn run(program: impl AsRef<OsStr>, args: &[&OsStr]) -> Output {
    Command::new(program).args(args).output().unwrap()
}

fn nostall(args: &[&dyn AsRef<OsStr>]) -> Output {
    let args: Vec<_> = args.iter().map(|arg| arg.as_ref()).collect();
    let mut all = vec![OsStr::new("trace"), OsStr::new("convert")];
    all.extend(args);
    run(cargo_bin("nostall"), &all)
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Calls inside calls, in two tasks and on a CPU without one, with every kind of event, and with
/// missing records.
fn mixed() -> Events {
    let mut catalog = Catalog::default();
    let names = [
        "outer",
        "middle\n;\u{1b}[31m",
        "inner",
        "THR empty",
        "bytes",
    ];
    let names = names.map(|name| catalog.name(name));
    let tasks = [Task::NONE, catalog.task(7, "sh"), catalog.task(8, "dd")];
    let mut state = 1_u64;
    let mut next = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let mut time = 5_000_000_000;
    let events = (0..5_000).map(|_| {
        time += next(90);
        let function = names[next(3) as usize];
        let kind = match next(40) {
            0..19 => EventKind::Enter {
                function,
                depth: None,
                argument: (next(2) == 0).then_some(time),
            },
            19..37 => EventKind::Exit {
                function: Some(function),
                depth: None,
                duration: (next(2) == 0).then(|| next(80)),
            },
            37 => EventKind::Lost { records: next(3) },
            38 => EventKind::Stall {
                condition: names[3],
                place: Some(names[0]),
                duration: next(200),
            },
            _ => EventKind::Counter {
                counter: names[4],
                value: next(1000) as i64,
            },
        };
        Event {
            time,
            cpu: next(2) as u32,
            task: tasks[next(3) as usize],
            kind,
        }
    });
    let events = events.collect();
    Events::new(catalog, events, TimeUnit::Nanoseconds, Vec::new())
}

/// The slices of the graph as `slices.py` prints them, in any order.
fn slices_of_graph(source: &mut impl Source) -> Vec<String> {
    let mut open: HashMap<String, Vec<Value>> = HashMap::new();
    let mut all = Vec::new();
    let track = |catalog: &Catalog, task: Task, cpu: u32| {
        let task = catalog.task_name(task);
        match (&task.name[..], task.id) {
            ("", 0) => format!("CPU {cpu}"),
            (name, 0) => format!("{name} on CPU {cpu}"),
            ("", id) => format!("task {id}"),
            (name, id) => format!("{name} ({id})"),
        }
    };
    graph::walk(source, |catalog, step| {
        match step {
            Step::Enter(entry) => {
                let track = track(catalog, entry.task, entry.cpu);
                let name = catalog.text(entry.function);
                let slice = json!([
                    "Functions",
                    track,
                    name,
                    entry.time,
                    null,
                    entry.depth,
                    null
                ]);
                open.entry(track).or_default().push(slice);
            }
            Step::Leave(Slice {
                matched: Match::NoEntry,
                ..
            }) => {}
            Step::Leave(slice) => {
                let stack = open
                    .get_mut(&track(catalog, slice.task, slice.cpu))
                    .unwrap();
                let mut of = stack.pop().unwrap();
                match slice.matched {
                    Match::Paired => of[4] = slice.duration.map_or("unknown".into(), Value::from),
                    Match::Lost => of[6] = "lost".into(),
                    Match::Skipped => of[6] = "skipped".into(),
                    _ => {}
                }
                all.push(of.to_string());
            }
            Step::Event(Event {
                kind:
                    EventKind::Stall {
                        condition,
                        duration,
                        ..
                    },
                task,
                cpu,
                time,
            }) => {
                let (track, name) = (track(catalog, task, cpu), catalog.text(condition));
                let start = time - duration;
                all.push(json!(["Stalls", track, name, start, duration, 0, null]).to_string());
            }
            Step::Event(_) => {}
        }
        Ok::<_, ExportError>(())
    })
    .unwrap();
    all.sort();
    all
}

fn slices_of_perfetto(python: &Path, file: &Path) -> Vec<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/trace_convert/slices.py");
    let output = run(python, &[script.as_ref(), file.as_ref()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let read: Value = serde_json::from_slice(&output.stdout).unwrap();
    let slices = read["slices"].as_array().unwrap().iter();
    let mut slices: Vec<_> = slices.map(Value::to_string).collect();
    slices.sort();
    slices
}

#[test]
fn perfettos_own_classes_read_every_slice_of_the_graph() {
    let Some(python) = python("perfettos_own_classes_read_every_slice_of_the_graph") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.pftrace");
    let mut trace = mixed();
    let mut perfetto = Perfetto::new(fs::File::create(&file).unwrap());
    graph::walk(&mut trace, |catalog, step| perfetto.step(catalog, &step)).unwrap();
    perfetto.finish().unwrap();
    let slices = slices_of_graph(&mut mixed());
    assert!(slices.len() > 2_000);
    assert_eq!(slices_of_perfetto(&python, &file), slices);
}

#[test]
fn perfettos_own_classes_read_linuxs_traces_as_the_graph_has_them() {
    let Some(python) = python("perfettos_own_classes_read_linuxs_traces_as_the_graph_has_them")
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "000_a6df4bf415d4e851.txt",
        "004_640dd8fb3e5f4342.txt",
        "func-2cpu.trace.gz",
        "graph-2cpu.trace.gz",
    ] {
        let text = unpacked(name);
        let (input, out) = (folder.path().join("trace.txt"), folder.path().join(name));
        fs::write(&input, &text).unwrap();
        let output = nostall(&[&input, &"--to", &"perfetto", &"-o", &out]);
        assert!(output.status.success(), "{}", stderr(&output));
        let slices = slices_of_graph(&mut open_text(&text[..], text.len() as u64));
        assert_eq!(slices_of_perfetto(&python, &out), slices, "{name}");
    }
}

/// Nested calls that all end, of less than a millisecond in all: uftrace prints three decimals.
fn nested() -> Events {
    let mut catalog = Catalog::default();
    let names = [
        "main",
        "read it",
        "<impl Write for Uart>::write",
        "line\nend",
    ];
    let names = names.map(|name| catalog.name(name));
    let tasks = [catalog.task(7, "sh"), catalog.task(-3, "odd"), Task::NONE];
    let mut events = Vec::new();
    for (number, task) in (0_u64..).zip(tasks) {
        let mut event = |time, kind| {
            events.push(Event {
                time: 1_000_000_u64 * number + time,
                cpu: 0,
                task,
                kind,
            });
        };
        let enter = |function| EventKind::Enter {
            function,
            depth: None,
            argument: None,
        };
        let exit = EventKind::Exit {
            function: None,
            depth: None,
            duration: None,
        };
        event(0, enter(names[0]));
        for round in 0..10 {
            event(1_001 * round + 10, enter(names[1]));
            event(1_001 * round + 20, enter(names[2]));
            event(1_001 * round + 500, exit);
            event(1_001 * round + 700, exit);
        }
        event(20_000, enter(names[3]));
        event(20_123, exit);
        event(20_200, exit);
    }
    Events::new(catalog, events, TimeUnit::Nanoseconds, Vec::new())
}

#[test]
fn uftrace_reports_the_calls_and_times_of_the_table() {
    let Some(uftrace) = tool(
        "uftrace_reports_the_calls_and_times_of_the_table",
        "uftrace".into(),
    ) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut trace = nested();
    let mut export = Uftrace::new(folder.path());
    graph::walk(&mut trace, |catalog, step| export.step(catalog, &step)).unwrap();
    assert_eq!(export.finish(trace.catalog(), "the kernel").unwrap(), 0);

    let mut table: HashMap<String, (u64, u64, u64)> = HashMap::new();
    graph::walk(&mut nested(), |catalog, step| {
        if let Step::Leave(slice) = step {
            let name = catalog.text(slice.function.unwrap()).replace('\n', "\\n");
            let row = table.entry(name).or_default();
            row.0 += slice.duration.unwrap();
            row.1 += slice.own().unwrap();
            row.2 += 1;
        }
        Ok::<_, ExportError>(())
    })
    .unwrap();
    let micros = |nanos: u64| format!("{}.{:03} us", nanos / 1000, nanos % 1000);
    let mut expected: Vec<_> = table
        .iter()
        .map(|(name, (total, own, calls))| {
            [
                micros(*total),
                micros(*own),
                calls.to_string(),
                name.clone(),
            ]
        })
        .collect();
    expected.sort();

    let data: &[&OsStr] = &[
        "report".as_ref(),
        "--no-pager".as_ref(),
        "-d".as_ref(),
        folder.path().as_ref(),
    ];
    let output = run(&uftrace, data);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = text.lines().skip(2).map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        [
            words[..2].join(" "),
            words[2..4].join(" "),
            words[4].to_owned(),
            words[5..].join(" "),
        ]
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    assert_eq!(rows, expected, "{text}");

    let data: &[&OsStr] = &[
        "graph".as_ref(),
        "--no-pager".as_ref(),
        "-d".as_ref(),
        folder.path().as_ref(),
    ];
    let output = run(&uftrace, data);
    let text = String::from_utf8(output.stdout).unwrap();
    for call in [
        "(3) main",
        "(30) read it",
        "(30) <impl Write for Uart>::write",
        "(3) line\\n",
    ] {
        assert!(text.contains(call), "{call}: {text}");
    }
}

const TEXT: &str = "000_a6df4bf415d4e851.txt";

#[test]
fn an_output_that_exists_is_kept_without_force() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    for format in ["perfetto", "folded", "trace.dat", "uftrace"] {
        fs::write(&out, "precious").unwrap();
        let output = nostall(&[&fixture(TEXT), &"--to", &format, &"-o", &out]);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            stderr(&output).contains("give --force to overwrite it"),
            "{}",
            stderr(&output)
        );
        assert_eq!(fs::read(&out).unwrap(), b"precious");

        let output = nostall(&[&fixture(TEXT), &"--to", &format, &"-o", &out, &"--force"]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_ne!(fs::read(&out).unwrap_or_default(), b"precious");
        let _ = fs::remove_dir_all(&out);
    }
}

#[test]
fn a_directory_of_other_files_is_kept_even_with_force() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("info"), "precious").unwrap();
    for format in ["perfetto", "uftrace"] {
        let output = nostall(&[&fixture(TEXT), &"--to", &format, &"-o", &out, &"--force"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("is a directory that uftrace did not write"));
        assert_eq!(fs::read(out.join("info")).unwrap(), b"precious");
    }
}

#[test]
fn a_directory_of_uftrace_is_replaced_with_force() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    for _ in 0..2 {
        let output = nostall(&[&fixture(TEXT), &"--to", &"uftrace", &"-o", &out, &"--force"]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let mut names: Vec<_> = fs::read_dir(&out)
        .unwrap()
        .map(|file| file.unwrap().file_name())
        .collect();
    names.sort();
    let task = |name: &OsStr| name.to_string_lossy().ends_with(".dat");
    names.retain(|name| !task(name));
    let expected = [
        "000_a6df4bf415d4e851.sym",
        "default.opts",
        "info",
        "sid-006e6f7374616c6c.map",
        "task.txt",
    ];
    assert_eq!(names, expected);
}

#[test]
fn nothing_is_left_where_a_trace_cannot_be_converted() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input");
    // Calls without exits have no durations.
    fs::write(&input, unpacked("func-2cpu.trace.gz")).unwrap();
    let out = folder.path().join("out");
    let output = nostall(&[&input, &"--to", &"folded", &"-o", &out]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("--calls counts calls"),
        "{}",
        stderr(&output)
    );
    let output = nostall(&[&input, &"--to", &"uftrace", &"-o", &out]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("no function with an entry"),
        "{}",
        stderr(&output)
    );
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");

    let output = nostall(&[&input, &"--to", &"folded", &"--calls", &"-o", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn folded_stacks_have_the_self_times_of_the_graph() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let output = nostall(&[&fixture(TEXT), &"--to", &"folded", &"-o", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = fs::read_to_string(&out).unwrap();
    let stack = "serial8250_console_write;uart_console_write;serial8250_console_putchar 343";
    assert!(text.lines().any(|line| line.ends_with(stack)), "{text}");
}

#[test]
fn trace_cmd_reports_every_call_of_the_graph() {
    let Some(trace_cmd) = tool(
        "trace_cmd_reports_every_call_of_the_graph",
        "trace-cmd".into(),
    ) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (folder.path().join("in"), folder.path().join("trace.dat"));
    fs::write(&input, unpacked("graph-2cpu.trace.gz")).unwrap();
    let output = nostall(&[&input, &"--to", &"trace.dat", &"-o", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = run(trace_cmd, &["report".as_ref(), "-i".as_ref(), out.as_ref()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let calls = |text: &str| {
        let has_call = |line: &&str| line.contains("|  ") && line.contains("()");
        text.lines().filter(has_call).count()
    };
    let text = String::from_utf8(unpacked("graph-2cpu.trace.gz")).unwrap();
    assert!(calls(&text) > 4_000);
    assert_eq!(
        calls(&String::from_utf8(output.stdout).unwrap()),
        calls(&text)
    );
}

fn flame(input: &Path) -> Output {
    let args: [&OsStr; 5] = [
        "trace".as_ref(),
        "report".as_ref(),
        "--view".as_ref(),
        "flame".as_ref(),
        input.as_ref(),
    ];
    run(cargo_bin("nostall"), &args)
}

#[test]
fn a_flame_graph_has_a_frame_for_each_function_with_a_duration() {
    let output = flame(&fixture(TEXT));
    assert!(output.status.success(), "{}", stderr(&output));
    let svg = String::from_utf8(output.stdout).unwrap();
    assert!(svg.starts_with("<?xml") && svg.contains("<svg"), "{svg}");
    for function in [
        "uart_console_write",
        "serial8250_console_putchar",
        "io_serial_in",
    ] {
        assert!(
            svg.contains(&format!("<title>{function} (")),
            "{function}: {svg}"
        );
    }
}

#[test]
fn a_flame_graph_of_calls_without_exits_counts_them() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input");
    fs::write(&input, unpacked("func-2cpu.trace.gz")).unwrap();
    let output = flame(&input);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains(" calls, ")
    );
}

#[test]
fn a_flame_graph_draws_one_whole_trace() {
    let run_with = |more: &[&str]| {
        let input = fixture(TEXT);
        let mut args: Vec<&OsStr> = vec!["trace".as_ref(), "report".as_ref()];
        args.extend(["--view", "flame"].map(OsStr::new));
        args.push(input.as_ref());
        args.extend(more.iter().map(OsStr::new));
        run(cargo_bin("nostall"), &args)
    };
    for more in [
        &["--json"][..],
        &["--function", "a"],
        &["--cpu", "0"],
        &["--limit", "1"],
    ] {
        let output = run_with(more);
        assert_eq!(output.status.code(), Some(1), "{more:?}");
        assert!(
            stderr(&output).contains("draws the whole trace"),
            "{}",
            stderr(&output)
        );
    }
    let output = run_with(&["another"]);
    assert!(
        stderr(&output).contains("draws one input"),
        "{}",
        stderr(&output)
    );
}
