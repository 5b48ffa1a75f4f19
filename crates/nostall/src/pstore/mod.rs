//! `nostall pstore`: persistent memory, planned and made.

mod inject;
mod plan;

use anyhow::Result;
pub use nostall_postmortem::cli::number;

/// Plan memory for crash records (Linux's ramoops), or make an image of it
#[derive(clap::Args)]
#[command(after_long_help = AFTER)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Examples:
  nostall pstore plan --size 1M --cpus 4
  nostall pstore inject --out region.bin --size 64K --dmesg dmesg.txt

`nostall pstore COMMAND --help` lists the options. `nostall postmortem`
reads such memory.";

#[derive(clap::Subcommand)]
enum Command {
    Inject(inject::Args),
    Plan(plan::Args),
}

/// Runs the command with these arguments.
///
/// # Errors
///
/// The reason why it cannot be done, in one line.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Inject(args) => inject::run(args),
        Command::Plan(args) => plan::run(args),
    }
}
