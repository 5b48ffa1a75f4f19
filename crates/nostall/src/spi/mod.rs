//! `nostall spi`: the SPI buses of this board.

mod bench;

use anyhow::Result;

/// Measure the SPI buses of this board
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Bench(bench::Args),
}

/// Runs the command with these arguments.
///
/// # Errors
///
/// Any failure to measure the bus, as one line for the user.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Bench(args) => bench::run(args),
    }
}
