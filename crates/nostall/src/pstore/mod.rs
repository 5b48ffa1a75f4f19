//! `nostall pstore`: what a dead kernel left in persistent memory.

mod decode;
mod escape;
mod files;
mod json;
mod names;
mod number;
mod region;
mod text;
mod time;

use anyhow::Result;

/// What a dead kernel left in persistent memory
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Decode(Box<decode::Args>),
}

/// Does what the arguments say.
///
/// # Errors
///
/// Whatever kept the records from being shown, in one line for a person.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Decode(args) => decode::run(args),
    }
}
