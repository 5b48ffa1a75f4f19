//! `nostall uart`: the serial ports of this machine.

mod findings;
mod measure;
mod probe;
mod tty;

use anyhow::Result;
pub use tty::number;

/// Examine the serial ports of this machine
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Probe(probe::Args),
}

/// Runs the command with these arguments.
///
/// # Errors
///
/// Any failure to measure the port, as one line for the user.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Probe(args) => probe::run(args),
    }
}
