//! The command as a newcomer and a shell see it: the first screen, completions, quiet and colours.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;

fn nostall(args: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("nostall"));
    command.args(args).stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    nostall(args).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// The names of the commands.
fn commands() -> Vec<String> {
    let command = nostall::command();
    let names = command
        .get_subcommands()
        .map(|one| one.get_name().to_owned());
    let gone = ["help", "run", "report"];
    names.filter(|name| !gone.contains(&&**name)).collect()
}

#[test]
fn without_a_command_one_screen_shows_every_command_and_three_examples() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(0));
    let screen = stdout(&output);
    assert!(screen.lines().count() <= 23, "a prompt follows: {screen}");
    for line in screen.lines() {
        assert!(line.chars().count() <= 79, "{line}");
    }
    for name in commands() {
        let row = format!("  {name} ");
        assert!(screen.lines().any(|line| line.starts_with(&row)), "{name}");
    }
    let examples = screen
        .lines()
        .filter_map(|line| line.strip_prefix("  nostall "));
    let examples = examples.map(|line| line.split("  ").next().unwrap());
    let examples = examples.collect::<Vec<_>>();
    assert_eq!(examples.len(), 3, "{screen}");
    for example in examples {
        let words = example.split(' ').chain(["--help"]).collect::<Vec<_>>();
        assert!(run(&words).status.success(), "{example}");
    }
}

#[test]
fn a_command_that_moved_says_where_it_is() {
    for (args, says) in [
        (&["run"][..], "`nostall run` is `nostall-lab run` now: "),
        (&["run", "uart", "--help"], "`nostall run` is "),
        (&["report", "-o", "page.html"], "`nostall report` is "),
    ] {
        let output = run(args);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains(says), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn each_shell_has_completions_with_every_command_and_option() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = run(&["completions", shell]);
        assert!(output.status.success(), "{shell}");
        let script = stdout(&output);
        for name in commands() {
            assert!(script.contains(&name), "{shell}: {name}");
        }
        for option in ["interval", "ftrace-size", "linux-version"] {
            assert!(script.contains(option), "{shell}: {option}");
        }
    }
    assert_eq!(run(&["completions", "ksh"]).status.code(), Some(2));
}

const IMAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../drivers/pstore/tests/fixtures/plain/image.bin"
);

#[test]
fn quiet_leaves_the_result_and_drops_the_explanation() {
    let loud = run(&["postmortem", IMAGE]);
    let quiet = run(&["--quiet", "postmortem", IMAGE]);
    assert_ne!(String::from_utf8_lossy(&loud.stderr), "");
    assert_eq!(String::from_utf8_lossy(&quiet.stderr), "");
    assert!(loud.status.success() && quiet.status.success());
    assert_eq!(quiet.stdout, loud.stdout);
    assert!(!quiet.stdout.is_empty());
    // An error is none of the explanations.
    for quiet in ["-q", "--quiet"] {
        let failed = run(&["postmortem", "/nonexistent", quiet]);
        assert_eq!(failed.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&failed.stderr).contains("/nonexistent"));
    }
}

#[test]
fn no_color_takes_the_colours_from_a_terminal_that_is_forced() {
    let help = |no_color: Option<&str>| {
        let mut command = nostall(&["--help"]);
        command.env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1");
        command.envs(no_color.map(|value| ("NO_COLOR", value)));
        command.output().unwrap().stdout
    };
    assert!(help(None).contains(&0x1b));
    assert!(!help(Some("1")).contains(&0x1b));
}

#[test]
fn color_decides_before_the_environment_and_the_terminal() {
    let has_colours = |args: &[&str], name: &str, value: &str| {
        let output = nostall(args).env(name, value).output().unwrap();
        [output.stdout, output.stderr].concat().contains(&0x1b)
    };
    for args in [
        &["postmortem", IMAGE][..],
        &["trace", "--help"],
        &["trace", "--bogus"],
    ] {
        let with = |colour| [&["--color", colour], args].concat();
        assert!(has_colours(&with("always"), "NO_COLOR", "1"), "{args:?}");
        assert!(
            !has_colours(&with("never"), "CLICOLOR_FORCE", "1"),
            "{args:?}"
        );
        assert!(!has_colours(&with("auto"), "NO_COLOR", "1"), "{args:?}");
    }
    let behind = ["postmortem", "--color=always", IMAGE];
    assert!(has_colours(&behind, "NO_COLOR", "1"));
    let wrong = run(&["--color", "sometimes", "trace"]);
    assert_eq!(wrong.status.code(), Some(2));
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(
        said.contains("[possible values: auto, always, never]"),
        "{said}"
    );
}

#[test]
fn every_message_begins_with_the_name_of_the_command() {
    for (args, status) in [
        (&["--bogus"][..], 2),
        (&["bogus"], 2),
        (&["pstore", "bogus"], 2),
        (&["pstore", "plan", "--bogus"], 2),
        (&["run", "uart", "--bogus"], 1),
        (&["postmortem", "/nonexistent"], 1),
        (&["postmortem"], 2),
        (&["postmortem", "export"], 2),
        (&["trace", "report", "/nonexistent"], 1),
        (&["console", "join", "/nonexistent"], 1),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(status), "{args:?}");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.starts_with("nostall: "), "{args:?}: {stderr}");
        assert!(!stderr.contains("error: "), "{args:?}: {stderr}");
    }
}

#[test]
fn the_version_names_the_commit_the_target_and_the_features() {
    let number = env!("CARGO_PKG_VERSION");
    assert_eq!(stdout(&run(&["-V"])), format!("nostall {number}\n"));
    let output = run(&["--version"]);
    let lines = stdout(&output).lines().collect::<Vec<_>>();
    let [first, commit, target, features] = lines[..] else {
        panic!("{lines:?}");
    };
    assert_eq!(first, format!("nostall {number}"));
    assert!(commit.starts_with("commit: "), "{commit}");
    let target = target.strip_prefix("target: ").unwrap();
    assert!(target.starts_with(std::env::consts::ARCH), "{target}");
    let parquet = if cfg!(feature = "parquet") {
        "features: parquet"
    } else {
        "features: none"
    };
    assert_eq!(features, parquet);
}

#[cfg(target_os = "linux")]
#[test]
fn help_that_cannot_be_written_is_an_error() {
    for args in [
        &["--help"][..],
        &["--version"],
        &["trace", "--help"],
        &["help", "trace"],
        &[],
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let output = nostall(args).stdout(full.unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.starts_with("nostall: standard output: No space left"),
            "{said}"
        );
    }
}

#[test]
fn the_exit_status_is_0_1_or_2_as_the_reference_says() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/commands.md");
    let book = fs::read_to_string(book).unwrap();
    for (args, status) in [
        (&["pstore", "plan", "--size", "1M", "--cpus", "4"][..], 0),
        (&["console", "join", "/nonexistent"], 1),
        (&["pstore", "plan", "--bogus"], 2),
    ] {
        assert_eq!(run(args).status.code(), Some(status), "{args:?}");
        assert!(book.contains(&format!("\n| {status} | ")), "{status}");
    }
}

/// Calls `each` with a command and those below it, except `help`, and with their names.
fn walk(command: &clap::Command, path: &str, each: &mut impl FnMut(&str, &clap::Command)) {
    let path = format!("{path}{}", command.get_name());
    each(&path, command);
    for below in command.get_subcommands() {
        if below.get_name() != "help" {
            walk(below, &format!("{path} "), each);
        }
    }
}

/// A paragraph is one line, which clap breaks, or is broken by hand.
#[test]
fn every_hand_broken_line_of_a_help_page_fits_80_columns() {
    let mut wide = Vec::new();
    walk(&nostall::command(), "", &mut |name, command| {
        let texts = [command.get_after_help(), command.get_after_long_help()];
        let texts = texts.into_iter().flatten().map(ToString::to_string);
        for text in texts {
            for paragraph in text.split("\n\n").filter(|text| text.contains('\n')) {
                let lines = paragraph.lines().filter(|line| line.chars().count() > 80);
                wide.extend(lines.map(|line| format!("{name}: {line}")));
            }
        }
    });
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}
