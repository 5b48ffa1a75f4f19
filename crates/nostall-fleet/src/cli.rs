//! The commands, for the binary `nostall-fleet` and for `nostall postmortem`.

use std::process::ExitCode;

use clap::Subcommand;
use nostall_postmortem::cli::output::{fail, to_stdout};

use crate::{export, synth};

/// A command.
#[derive(Clone, Debug, Subcommand)]
#[allow(missing_docs, reason = "the help is that of the arguments")]
pub enum Command {
    Export(export::Args),
    Synth(synth::Args),
}

/// Runs a command, and prints its summary.
pub fn run(command: &Command) -> ExitCode {
    let done = match command {
        Command::Export(args) => export::run(args).map(|summary| summary.to_string()),
        Command::Synth(args) => {
            let made = synth::run(args);
            made.map(|_| format!("{} dumps in {}", args.dumps, args.out.display()))
        }
    };
    match done.and_then(|line| to_stdout(|out| writeln!(out, "{line}"))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}
