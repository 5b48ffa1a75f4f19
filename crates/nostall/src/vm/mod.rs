//! `nostall vm`: our own virtual machine, for any kernel.

mod run;
mod stats;

use anyhow::Result;

/// Run a small virtual machine on the host's KVM
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Run(run::Args),
}

/// Runs the command.
///
/// # Errors
///
/// Returns the reason why the machine did not run, in one line.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Run(args) => run::run(args),
    }
}
