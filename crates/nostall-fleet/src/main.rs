//! The `nostall-fleet` command: `nostall postmortem export` and `synth` without the rest of
//! nostall.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use nostall_fleet::cli::{self, Command};

/// Turns the memory dumps of many crashed machines into tables.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    cli::run(&Cli::parse().command)
}
