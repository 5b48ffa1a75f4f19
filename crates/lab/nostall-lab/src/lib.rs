//! The `nostall-lab` command, as a library for its tests. See `nostall-lab --help`.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod experiments;
mod host;
mod kernel;
mod report;

use std::process::ExitCode;

use clap::{CommandFactory, Subcommand};
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

/// Returns the command line's description.
#[must_use]
pub fn command() -> clap::Command {
    let command = output::Commands::<Command>::command()
        .name("nostall-lab")
        .about("Measures ways of doing I/O, on QEMU, KVM or a model");
    output::with_version(output::with_color(command), &[])
}

#[derive(Subcommand)]
enum Command {
    Report(report::Args),
    Run(experiments::Args),
}

/// Runs the command with the process's arguments.
pub fn main() -> ExitCode {
    output::run(command(), FRONT, |command| {
        match command {
            Command::Report(args) => report::run(&args)?,
            Command::Run(args) => experiments::run(args)?,
        }
        Ok(ExitCode::SUCCESS)
    })
}
