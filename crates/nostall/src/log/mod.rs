//! `nostall log`: the log rings of dead machines.

mod json;
mod read;
mod text;

use anyhow::Result;

/// Read what a dead machine had logged: nostall-console's rings
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Read(read::Args),
}

/// Does what the arguments say.
///
/// # Errors
///
/// Whatever kept it from being done, in one line for a person.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Read(args) => read::run(args),
    }
}
