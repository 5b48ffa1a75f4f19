//! The `nostall` command.

#![forbid(unsafe_code)]

mod kernel;
mod run;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Shows where kernels stall on slow I/O, and that they need not.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nowhere to complain to is no reason to panic.
            let _ = writeln!(std::io::stderr(), "nostall: {error:#}");
            ExitCode::FAILURE
        }
    }
}
