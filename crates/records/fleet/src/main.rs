//! The `nostall-fleet` command: `nostall postmortem export` and `synth` without the rest of
//! nostall.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use nostall_fleet::cli::{self, Command};
use nostall_postmortem::cli::output;

/// Turns the memory dumps of many crashed machines into tables.
#[derive(Parser)]
#[command(max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let command = output::with_version(output::with_color(Cli::command()), &[]);
    match output::parse(command) {
        Ok(Cli { command }) => cli::run(&command),
        Err(status) => status,
    }
}
