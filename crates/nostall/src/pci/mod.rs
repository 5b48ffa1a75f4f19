//! `nostall pci`: PCI devices.

pub mod json;
mod list;
mod source;
mod text;
pub mod tree;

use anyhow::Result;

/// List the PCI devices of this host, or of another host's dump
#[derive(clap::Args)]
#[command(after_long_help = AFTER)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Examples:
  nostall pci list
  nostall pci list --tree
  nostall pci list --dump lspci.txt --json

`nostall pci COMMAND --help` lists the options.";

#[derive(clap::Subcommand)]
enum Command {
    List(list::Args),
}

/// Runs the command with these arguments.
///
/// # Errors
///
/// Any failure of the command, as one line for the user.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::List(args) => list::run(args),
    }
}
