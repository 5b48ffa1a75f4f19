//! `nostall spi bench` on a machine without SPI, as its user sees it: its help and its refusals.
//! Tests on a real Linux are in `spi_linux.rs`.

#![cfg(target_os = "linux")]

use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin("nostall"));
    command.args(["spi", "bench"]).args(args);
    command.stdin(Stdio::null()).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn the_help_says_what_is_sent_and_what_is_changed() {
    let help = bench(&["--help"]);
    assert!(help.status.success());
    // The help becomes one line, without its line breaks.
    let help = String::from_utf8(help.stdout).unwrap();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in [
        "Nothing is sent without",
        "--send",
        "--loopback",
        "--no-cs",
        "only the mode",
        "restores it",
        "spidev",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn a_file_that_is_no_spi_device_is_refused_in_one_line() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let file = file.path().to_str().unwrap();
    for (path, says) in [
        ("/dev/spidev4711.0", "there is no /dev/spidev4711.0"),
        ("/dev/null", "/dev/null is no SPI device"),
        ("/", "/ is no SPI device"),
        (file, "is no SPI device"),
        ("a\nb\u{1b}[2J", "there is no "),
    ] {
        for what in [&[][..], &["--send", "00"], &["--loopback"]] {
            let output = bench(&[&[path], what].concat());
            let stderr = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{stderr}");
            assert!(output.stdout.is_empty());
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
            assert!(stderr.contains(says), "{stderr}");
            assert!(!stderr.contains('\u{1b}'), "{stderr}");
        }
    }
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    for (args, says) in [
        (&["--send", "9"][..], "two digits each"),
        (&["--send", "00", "--loopback"], "cannot be used with"),
        (&["--send", "00", "--mode", "4"], "4 is not in"),
        (&["--send", "00", "--clock", "0"], "not a clock"),
        (&["--send", "00", "--bytes", "0"], "0 is not in"),
        (&["--threads", "65"], "65 is not in"),
        (&["--seconds", "0"], "0 is not in"),
        (&["--json", "x"], "required"),
        (&["--no-cs"], "required"),
    ] {
        let output = bench(&[&["/dev/spidev0.0"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
    assert_eq!(bench(&[]).status.code(), Some(2));
}
