//! `nostall trace`: traces of functions, stalls and counters.

pub(crate) mod args;
mod candidate;
mod convert;
mod flame;
pub(crate) mod input;
mod memory;
mod names;
mod print;
mod region;
mod report;
#[cfg(target_os = "linux")]
mod run;
mod watched;

use std::process::ExitCode;

use anyhow::Result;

/// Report on traces, convert them, or run a program that records one
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Convert(convert::Args),
    Report(Box<report::Args>),
    #[cfg(target_os = "linux")]
    Run(run::Args),
}

/// Runs the subcommand.
///
/// # Errors
///
/// If an input cannot be read or the output cannot be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Convert(args) => convert::run(args).map(|()| ExitCode::SUCCESS),
        Command::Report(args) => report::run(args).map(|()| ExitCode::SUCCESS),
        #[cfg(target_os = "linux")]
        Command::Run(args) => run::run(args),
    }
}
