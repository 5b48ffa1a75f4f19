//! `nostall trace run`. The program that records is this test again, with an environment variable.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::{env, fs, process};

use nostall_trace::{ProgramOptions, ProgramTrace, trace_scope};

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
            let me = process::id().to_string();
            Command::new("kill").args(["-KILL", &me]).status().unwrap();
            unreachable!()
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

#[test]
fn a_live_report_ends_with_a_program_that_does_not_freeze_its_recording() {
    let name = "a_live_report_ends_with_a_program_that_does_not_freeze_its_recording";
    if env::var_os(CHILD).is_some() {
        ProgramTrace::from_environment(&ProgramOptions::DEFAULT).unwrap();
        trace_scope!("before");
        println!("recording");
        // The parent closes the pipe when the report reads.
        std::io::stdin().read_line(&mut String::new()).unwrap();
        (0..7).for_each(|_| {
            trace_scope!("tested");
        });
        process::abort();
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    File::create(&file).unwrap();
    let mut program = Command::new(env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, "aborted")
        .env(nostall_trace::VARIABLE, &file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(program.stdout.as_mut().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    assert!(lines.any(|line| line.ends_with("recording")));
    let mut live = Command::new(env!("CARGO_BIN_EXE_nostall"))
        .args(["trace", "report", "--live", "--interval", "20ms", "--json"])
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(live.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    drop(program.stdin.take());
    program.wait().unwrap();
    let calls = lines.map(|line| {
        let interval: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        interval["calls"].as_u64().unwrap()
    });
    assert_eq!(calls.sum::<u64>(), 7);
    assert!(live.wait().unwrap().success());
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
