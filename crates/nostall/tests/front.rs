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
    names.filter(|name| name != "help").collect()
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
fn each_shell_has_completions_with_every_command_and_option() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = run(&["completions", shell]);
        assert!(output.status.success(), "{shell}");
        let script = stdout(&output);
        for name in commands() {
            assert!(script.contains(&name), "{shell}: {name}");
        }
        for option in ["uart-mode", "ftrace-size", "linux-version"] {
            assert!(script.contains(option), "{shell}: {option}");
        }
    }
    assert_eq!(run(&["completions", "ksh"]).status.code(), Some(2));
}

#[test]
fn quiet_leaves_the_result_and_drops_the_explanation() {
    // The second description of a function counts, which is explained.
    let dump = tempfile::NamedTempFile::new().unwrap();
    let zeros = " 00".repeat(16);
    let function = format!(
        "00:00.0 Host bridge\n00: 86 80 37 12{}\n10:{zeros}\n20:{zeros}\n30:{zeros}\n\n",
        " 00".repeat(12)
    );
    fs::write(dump.path(), function.repeat(2)).unwrap();
    let dump = dump.path().to_str().unwrap();
    let loud = run(&["pci", "list", "--dump", dump]);
    let quiet = run(&["--quiet", "pci", "list", "--dump", dump]);
    assert!(String::from_utf8_lossy(&loud.stderr).contains("functions that come again"));
    assert_eq!(String::from_utf8_lossy(&quiet.stderr), "");
    assert!(loud.status.success() && quiet.status.success());
    assert_eq!(quiet.stdout, loud.stdout);
    assert!(!quiet.stdout.is_empty());
    // An error is none of the explanations.
    for quiet in ["-q", "--quiet"] {
        let failed = run(&["pci", "list", "--dump", "/nonexistent", quiet]);
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
fn the_exit_status_is_0_1_or_2_as_the_reference_says() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/commands.md");
    let book = fs::read_to_string(book).unwrap();
    for (args, status) in [
        (&["run", "uart", "--on", "model", "--bytes", "100"][..], 0),
        (&["pci", "list", "--dump", "/nonexistent"], 1),
        (&["run", "uart", "--bogus"], 2),
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

/// Returns the help of a command as Markdown.
fn options(path: &str, command: &clap::Command) -> String {
    let command = command.clone().bin_name(path).term_width(80);
    let help = command.disable_help_subcommand(true).render_help();
    let help = help.to_string();
    let help = help.lines().map(str::trim_end).collect::<Vec<_>>();
    let help = help.join("\n");
    format!("\n## {path}\n\n```text\n{}\n```\n", help.trim_end())
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn the_options_in_the_book_are_those_of_the_command() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/options.md");
    let mut page = "# Options of every command\n\n`make reference` writes this page. The behaviour behind the \
         options is in the [command reference](commands.md).\n"
        .to_owned();
    let mut command = nostall::command();
    // Global options are in the help of each command.
    command.build();
    walk(&command, "", &mut |path, below| {
        page.push_str(&options(path, below))
    });
    if std::env::var_os("NOSTALL_RECORD").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let book = fs::read_to_string(&path).unwrap_or_default();
    let line = book
        .lines()
        .zip(page.lines())
        .find(|(book, now)| book != now);
    assert!(book == page, "make reference: first difference {line:?}");
}
