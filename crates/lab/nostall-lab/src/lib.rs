//! The `nostall-lab` command, as a library for its tests. See `nostall-lab --help`.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod experiments;
mod host;
mod kernel;
mod report;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use nostall_postmortem::cli::{escape, output};

/// The answer to a command line without a command.
const FRONT: &str = "\
nostall-lab measures ways of doing I/O, and shows what a stall costs.

  run         Compare ways of doing I/O on QEMU, KVM or a model
  report      Make a page with charts from figures of `nostall-lab run`

Examples:
  nostall-lab run                         every experiment in about a minute
  nostall-lab run uart --on model         four ways to print on a serial port
  nostall-lab report uart.json -o a.html  a page of recorded figures

`nostall-lab COMMAND --help` lists options. `-q` prints only results and errors.
";

/// Measures ways of doing I/O, on QEMU, KVM or a model.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    /// Print only results and errors: no explanations and no progress
    #[arg(long, short, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Returns the command line's description.
#[must_use]
pub fn command() -> clap::Command {
    output::with_color(Cli::command())
}

#[derive(Subcommand)]
enum Command {
    Report(report::Args),
    Run(experiments::Args),
}

/// Runs the command with the process's arguments.
pub fn main() -> ExitCode {
    let Cli { quiet, command } = match output::parse(command()) {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    if quiet {
        output::be_quiet();
    }
    let result = match command {
        None => output::to_stdout(|out| out.write_all(FRONT.as_bytes())),
        Some(Command::Report(args)) => report::run(&args),
        Some(Command::Run(args)) => experiments::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::fail(&error),
    }
}
