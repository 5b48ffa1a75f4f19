//! `nostall vm`: a machine of our own for somebody's kernel.

mod run;
mod stats;

use anyhow::Result;

/// A small virtual machine of our own, on the host's KVM
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Run(run::Args),
}

/// Does what the arguments say.
///
/// # Errors
///
/// Whatever kept the machine from running, in one line for a person.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Run(args) => run::run(args),
    }
}
