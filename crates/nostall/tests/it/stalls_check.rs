//! `nostall stalls check` on the machine of the tests, whatever that is. Its verdicts are tested on
//! made machines, beside the code.

#![cfg(target_os = "linux")]

use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

use crate::terminal::on_terminal;

fn check(args: &[&str]) -> String {
    let mut command = Command::new(cargo_bin("nostall"));
    command.args(["stalls", "check"]).args(args);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert_eq!(error, "");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_machine_has_a_report_of_four_kinds_of_paths() {
    let text = check(&[]);
    assert!(text.starts_with("Linux "), "{text}");
    for path in ["\nconsole", "\nPCI: ", "\nSPI", "\ncrash records: "] {
        assert!(text.contains(path), "{path}: {text}");
    }
}

#[test]
fn a_terminal_gets_80_columns_and_no_colours() {
    let mut command = Command::new(cargo_bin("nostall"));
    command.args(["stalls", "check"]);
    let text = on_terminal(command, 80, true);
    let fits = |line: &str| line.chars().count() <= 80 && line.is_ascii();
    assert!(text.lines().all(fits) && !text.contains('\x1b'), "{text}");
}

#[test]
fn the_json_has_each_path_with_its_verdict_and_each_remedy_with_its_source() {
    let report: Value = serde_json::from_str(&check(&["--json"])).unwrap();
    assert_eq!(report["schema"], 1);
    let verdicts = ["stalls", "costs", "fine", "absent", "unknown"];
    let paths = report["paths"].as_array().unwrap();
    assert!(paths.len() >= 4, "{report}");
    for path in paths {
        let verdict = path["verdict"].as_str().unwrap();
        assert!(verdicts.contains(&verdict), "{path}");
        assert!(path["reason"].as_str().unwrap().ends_with('.'), "{path}");
    }
    for remedy in report["remedies"].as_array().unwrap() {
        assert!(!remedy["source"].as_str().unwrap().is_empty(), "{remedy}");
        assert!(paths.iter().any(|path| path["path"] == remedy["path"]));
    }
}

#[test]
fn the_help_says_that_nothing_is_changed() {
    let help = check(&["--help"]);
    for part in ["writes nothing", "opens no tty", "Examples:", "--json"] {
        assert!(help.contains(part), "{part}: {help}");
    }
}
