//! The commands, for the binary `nostall-fleet` and for `nostall postmortem`.

use std::process::ExitCode;

use clap::Subcommand;
use nostall_postmortem::cli::output::{fail, to_stdout};

use crate::export;

/// A command.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Turns many dumps into tables.
    Export(export::Args),
}

/// Runs a command, and prints its summary.
pub fn run(command: &Command) -> ExitCode {
    let done = match command {
        Command::Export(args) => export::run(args).map(|summary| summary.to_string()),
    };
    match done.and_then(|line| to_stdout(|out| writeln!(out, "{line}"))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}
