//! `nostall uart probe` as its user sees it: its help and its refusals. Its findings are tested
//! on the model, beside the code.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;

fn probe(args: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin("nostall"));
    command.args(["uart", "probe"]).args(args);
    command.stdin(Stdio::null()).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns the one line on stderr of a command that failed.
fn error(args: &[&str]) -> String {
    let output = probe(args);
    let stderr = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(output.stdout.is_empty());
    stderr
}

#[test]
fn the_help_says_what_is_written_and_with_which_rights() {
    let help = probe(&["--help"]);
    assert!(help.status.success());
    let help = String::from_utf8(help.stdout).unwrap();
    for word in [
        "Reads only",
        "--send",
        "--port",
        "--tty",
        "root",
        "/dev/port",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn a_tty_that_has_no_port_is_one_line() {
    assert!(error(&["--tty", "ttyS4711"]).contains("there is no tty ttyS4711"));
    assert!(error(&["--tty", "/etc/passwd"]).contains("there is no tty"));
    if Path::new("/sys/class/tty/tty0").exists() {
        assert!(error(&["--tty", "tty0"]).contains("not a serial port"));
    }
}

#[test]
fn a_missing_dev_port_is_one_line_that_says_what_to_do() {
    // A port of the host may be in use, so the test does not touch it.
    if Path::new("/dev/port").exists() {
        eprintln!("a_missing_dev_port_is_one_line_that_says_what_to_do: not run, there is one");
        return;
    }
    let error = error(&["--port", "0x100"]);
    assert!(error.contains("there is no /dev/port"), "{error}");
    assert!(error.contains("on the host itself"), "{error}");
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    for (args, says) in [
        (&["--port", "0xfff9"][..], "not an I/O port"),
        (&["--port", "com1"], "not an I/O port"),
        (
            &["--port", "0x3f8", "--tty", "ttyS0"],
            "cannot be used with",
        ),
        (&["--send", "--baud", "9600"], "cannot be used with"),
        (&["--baud", "0"], "0 is not in"),
    ] {
        let output = probe(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
}
