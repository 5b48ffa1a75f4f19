//! `nostall pstore`: persistent memory, planned, made and read.

mod decode;
mod files;
mod inject;
mod input;
mod json;
mod names;
pub mod number;
mod plan;
mod region;
mod sizes;
mod swap;
mod text;
mod time;

use std::process::ExitCode;

use anyhow::Result;

/// Plan, make and read persistent memory, where a crashed kernel leaves records (Linux's ramoops)
#[derive(clap::Args)]
#[command(after_long_help = AFTER)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Examples:
  nostall pstore decode memory.elf --symbols System.map
  nostall pstore plan --size 1M --cpus 4
  nostall pstore inject --out region.bin --size 64K --dmesg dmesg.txt

`nostall pstore COMMAND --help` has more.";

#[derive(clap::Subcommand)]
enum Command {
    Decode(Box<decode::Args>),
    Inject(Box<inject::Args>),
    Plan(plan::Args),
}

/// Does what the arguments say, and returns the exit status.
///
/// # Errors
///
/// Whatever kept it from being done, in one line for a person.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Decode(args) => return decode::run(args),
        Command::Inject(args) => inject::run(args)?,
        Command::Plan(args) => plan::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}
