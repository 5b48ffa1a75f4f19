//! `nostall spi`: the SPI buses of this board.

mod bench;

use anyhow::Result;

/// The SPI buses of this board
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Bench(bench::Args),
}

/// Does what the arguments say.
///
/// # Errors
///
/// Whatever kept the bus from being measured, in one line for a person.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Bench(args) => bench::run(args),
    }
}
