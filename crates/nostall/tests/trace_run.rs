//! `nostall trace run`. The program that records is this test again, with an environment variable.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::{env, fs, process, thread};

use nostall_trace::{ProgramOptions, ProgramTrace, trace_mark, trace_scope};
use rustix::process::{Pid, Signal, kill_process};

const CHILD: &str = "NOSTALL_TEST_CHILD";

/// In a child, records a function that is called `calls` times, and ends as `CHILD` says.
fn record() {
    let Some(end) = env::var_os(CHILD) else {
        return;
    };
    let trace = ProgramTrace::from_environment(&ProgramOptions::DEFAULT).unwrap();
    assert!(trace.is_some());
    for _ in 0..7 {
        trace_scope!("tested");
    }
    match end.to_str() {
        Some("killed") => {
            trace_scope!("interrupted");
            kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
            unreachable!()
        }
        Some("waits") => {
            println!("waits");
            loop {
                thread::park();
            }
        }
        Some(status) => process::exit(status.parse().unwrap()),
        None => unreachable!(),
    }
}

/// Runs the test `name` below `nostall trace run`.
fn run(options: &[&str], name: &str, end: &str) -> Output {
    let mut run = Command::new(env!("CARGO_BIN_EXE_nostall"));
    run.args(["trace", "run"]).args(options).arg("--");
    run.arg(env::current_exe().unwrap());
    run.args([name, "--exact", "--nocapture"]).env(CHILD, end);
    run.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_programs_functions_are_reported_and_its_status_is_passed_on() {
    record();
    let ran = run(
        &[],
        "a_programs_functions_are_reported_and_its_status_is_passed_on",
        "5",
    );
    let (stdout, stderr) = (text(&ran.stdout), text(&ran.stderr));
    assert_eq!(ran.status.code(), Some(5), "{stderr}");
    let row = stdout.lines().find(|line| line.ends_with(" tested"));
    let row = row.unwrap_or_else(|| panic!("{stdout}"));
    assert_eq!(row.split_whitespace().next(), Some("7"));
    assert!(!stderr.contains("recording is in"), "{stderr}");
}

#[test]
fn a_program_that_is_killed_is_reported_with_its_signal() {
    record();
    let name = "a_program_that_is_killed_is_reported_with_its_signal";
    let ran = run(&[], name, "killed");
    let (stdout, stderr) = (text(&ran.stdout), text(&ran.stderr));
    assert_eq!(ran.status.code(), Some(128 + 9), "{stderr}");
    assert!(
        stderr.contains("was killed by signal 9 (SIGKILL)"),
        "{stderr}"
    );
    assert!(
        stdout.lines().any(|line| line.ends_with(" tested")),
        "{stdout}"
    );
    assert!(
        stdout.lines().any(|line| line.ends_with(" interrupted")),
        "{stdout}"
    );
}

#[test]
fn a_command_that_is_told_to_end_ends_its_program_reports_and_leaves_nothing() {
    record();
    let name = "a_command_that_is_told_to_end_ends_its_program_reports_and_leaves_nothing";
    for (signal, number) in [(Signal::TERM, 15), (Signal::HUP, 1)] {
        let mut run = Command::new(env!("CARGO_BIN_EXE_nostall"));
        run.args(["trace", "run", "--"]);
        run.arg(env::current_exe().unwrap());
        run.args([name, "--exact", "--nocapture"])
            .env(CHILD, "waits");
        let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "waits"));
        let id = run.id();
        kill_process(Pid::from_child(&run), signal).unwrap();
        let row = lines.find(|line| line.as_ref().unwrap().ends_with(" tested"));
        assert!(row.is_some());
        assert_eq!(run.wait().unwrap().code(), Some(128 + number));
        let file = format!("nostall-{id}.trace");
        assert!(!Path::new("/dev/shm").join(&file).exists());
        assert!(!env::temp_dir().join(&file).exists());
    }
}

#[test]
fn a_recording_with_a_name_or_with_keep_stays_and_can_be_reported_again() {
    record();
    let name = "a_recording_with_a_name_or_with_keep_stays_and_can_be_reported_again";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a trace");
    fs::write(&file, "an older file").unwrap();
    let ran = run(&["--out", file.to_str().unwrap()], name, "0");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let again = report(&file);
    assert_eq!(
        text(&again.stdout).lines().last(),
        text(&ran.stdout).lines().last()
    );

    let kept = text(&run(&["--keep"], name, "0").stderr);
    let path = kept
        .split("the recording is in ")
        .nth(1)
        .unwrap_or_else(|| panic!("{kept}"));
    let path = Path::new(path.trim());
    assert!(report(path).status.success());
    fs::remove_file(path).unwrap();
}

/// Returns the value of the mark that a thread records in this step.
const fn pattern(step: u64) -> u64 {
    step.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
fn a_running_programs_recording_is_converted_without_invented_records() {
    const NAME: &str = "a_running_programs_recording_is_converted_without_invented_records";
    if env::var_os(CHILD).is_some() {
        let options = ProgramOptions {
            threads: 2,
            slots: 1 << 12,
            ..ProgramOptions::DEFAULT
        };
        ProgramTrace::from_environment(&options).unwrap();
        println!("recording");
        for step in 0.. {
            trace_mark!("step", pattern(step));
            // A reader takes about as long for a lap.
            (0..200).for_each(|_| std::hint::spin_loop());
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("live.trace");
    let copy = folder.path().join("copy.dat");
    File::create(&file).unwrap();
    let mut program = Command::new(env::current_exe().unwrap())
        .args([NAME, "--exact", "--nocapture"])
        .env(CHILD, "records")
        .env(nostall_trace::VARIABLE, &file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("recording")));
    let mut read = 0;
    for _ in 0..1_000 {
        let mut convert = Command::new(env!("CARGO_BIN_EXE_nostall"));
        convert.args(["trace", "convert", "--force", "--to", "trace.dat", "-o"]);
        let converted = convert.args([&copy, &file]).output().unwrap();
        let notes = text(&converted.stderr);
        assert!(converted.status.success(), "{notes}");
        assert!(!notes.contains("neighbours"), "{notes}");
        let mut graph = Command::new(env!("CARGO_BIN_EXE_nostall"));
        graph
            .args(["trace", "report", "--view", "graph"])
            .arg(&copy);
        let graph = text(&graph.output().unwrap().stdout);
        let marks = graph.lines().filter_map(|line| line.split("step: ").nth(1));
        let mut steps = marks.map(|mark| {
            let value: u64 = mark.split_whitespace().next().unwrap().parse().unwrap();
            value.wrapping_mul(0xf1de_83e1_9937_733d)
        });
        // The program may have overwritten all records before a paused reader read them.
        let Some(mut before) = steps.next() else {
            continue;
        };
        for step in steps {
            assert!((before + 1..before + 1_000_000).contains(&step));
            before = step;
        }
        read += 1;
        if read == 20 {
            break;
        }
    }
    assert_eq!(read, 20);
    program.kill().unwrap();
    program.wait().unwrap();
}

fn report(file: &Path) -> Output {
    let mut report = Command::new(env!("CARGO_BIN_EXE_nostall"));
    report.args(["trace", "report"]).arg(file).output().unwrap()
}

#[test]
fn a_program_that_records_nothing_or_does_not_exist_is_an_error_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    for (program, expected) in [
        (
            "true",
            "true has recorded nothing: it has to call ProgramTrace::from_environment",
        ),
        ("/nonexistent/program", "/nonexistent/program"),
    ] {
        let mut run = Command::new(env!("CARGO_BIN_EXE_nostall"));
        run.args(["trace", "run", "--out"])
            .arg(&file)
            .args(["--", program]);
        let ran = run.output().unwrap();
        let stderr = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1));
        assert!(stderr.contains(expected), "{stderr}");
        assert!(!file.exists());
    }
}

#[inline(never)]
fn recorded_by_address() -> u32 {
    std::hint::black_box(17)
}

unsafe extern "C" {
    /// A function of a shared object.
    safe fn getpid() -> i32;
}

/// In a child, records calls of a function of its own and of one of a shared object, both by
/// address.
fn record_addresses() {
    if env::var_os(CHILD).is_none() {
        return;
    }
    let trace = ProgramTrace::from_environment(&ProgramOptions::DEFAULT).unwrap();
    let trace = trace.unwrap();
    for _ in 0..3 {
        let entered = trace.enter(recorded_by_address as fn() -> u32 as usize);
        recorded_by_address();
        trace.exit(entered);
    }
    let entered = trace.enter(getpid as extern "C" fn() -> i32 as usize);
    getpid();
    trace.exit(entered);
    process::exit(0);
}

/// The calls of each function in a report.
fn calls(report: &Output) -> Vec<(String, u64)> {
    assert!(report.status.success(), "{}", text(&report.stderr));
    let stdout = text(&report.stdout);
    let rows = stdout.lines().map(|line| {
        let mut words = line.split_whitespace();
        let calls = words.next()?.parse().ok()?;
        Some((words.next_back()?.to_owned(), calls))
    });
    rows.flatten().collect()
}

const NAMED: &str = "trace_run::recorded_by_address";

/// Copies a program in a process of its own. A file that this process writes is also open in each
/// child that another test starts, until its `exec`, and cannot be run meanwhile (`ETXTBSY`).
fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").args([from, to]).status().unwrap();
    assert!(copied.success());
}

#[test]
fn functions_that_are_recorded_by_address_have_the_names_in_the_programs_file() {
    record_addresses();
    let name = "functions_that_are_recorded_by_address_have_the_names_in_the_programs_file";
    let ran = run(&[], name, "0");
    let calls = calls(&ran);
    assert!(calls.contains(&(NAMED.to_owned(), 3)), "{calls:?}");
    let of_objects = calls.iter().filter(|(name, _)| name.starts_with("0x"));
    assert_eq!(of_objects.count(), 1, "{calls:?}");
    let stderr = text(&ran.stderr);
    let note = "functions shown as addresses: 1; trace_run-";
    assert!(stderr.contains(note), "{stderr}");
    let rest = " has no symbol for them; those of shared objects are not read";
    assert!(stderr.contains(rest), "{stderr}");
}

#[test]
fn a_programs_names_come_from_a_file_of_its_build_only() {
    record_addresses();
    let name = "a_programs_names_come_from_a_file_of_its_build_only";
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (program, trace) = (at("program"), at("a.trace"));
    fs::create_dir(at("elsewhere")).unwrap();
    copy_program(&env::current_exe().unwrap(), &program);
    File::create(&trace).unwrap();
    let mut recorded = Command::new(&program);
    recorded
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, "0");
    recorded.env(nostall_trace::VARIABLE, &trace);
    assert!(recorded.output().unwrap().status.success());
    let found = |trace: &Path, symbols: Option<&Path>| {
        let mut report = Command::new(env!("CARGO_BIN_EXE_nostall"));
        report.args(["trace", "report"]).arg(trace);
        symbols.map(|file| report.arg("--symbols").arg(file));
        let report = report.output().unwrap();
        let is_named = calls(&report).contains(&(NAMED.to_owned(), 3));
        (is_named, text(&report.stderr))
    };
    let (is_named, notes) = found(&trace, None);
    assert!(is_named, "{notes}");

    // Another program at the recorded path.
    let moved = at("elsewhere/kept");
    fs::rename(&program, &moved).unwrap();
    copy_program(Path::new(env!("CARGO_BIN_EXE_nostall")), &program);
    let (is_named, notes) = found(&trace, None);
    assert!(!is_named, "{notes}");
    let other = "program: not used for names: it is of another build";
    assert!(notes.contains(other), "{notes}");
    let wanted = "functions shown as addresses: 2; give --symbols FILE, of program with build ID ";
    assert!(notes.contains(wanted), "{notes}");
    let (is_named, notes) = found(&trace, Some(&program));
    assert!(!is_named, "{notes}");
    assert_eq!(notes.matches(other).count(), 1, "{notes}");
    assert!(found(&trace, Some(&moved)).0);

    // No program there, and then one beside the recording.
    fs::remove_file(&program).unwrap();
    let (is_named, notes) = found(&trace, None);
    assert!(!is_named && !notes.contains("another build"), "{notes}");
    let copy = at("elsewhere/a.trace");
    fs::rename(&moved, at("elsewhere/program")).unwrap();
    fs::copy(&trace, &copy).unwrap();
    assert!(found(&copy, None).0);

    // A table has no build ID: it counts, and a note says so.
    let table = at("table");
    fs::write(&table, "0000000000000000 T everything\n").unwrap();
    let (_, notes) = found(&trace, Some(&table));
    let unproved = "table: used for names, without a build ID to compare";
    assert!(notes.contains(unproved), "{notes}");
}
