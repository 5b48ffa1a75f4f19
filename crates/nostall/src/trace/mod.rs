//! `nostall trace`: traces of functions, stalls and counters.

mod args;
mod input;
mod report;
mod watched;

use anyhow::Result;

/// Report on traces: our recordings, Linux's trace.dat and text, crash images
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Report(Box<report::Args>),
}

/// Runs the subcommand.
///
/// # Errors
///
/// If an input cannot be read or the output cannot be written.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Report(args) => report::run(args),
    }
}
