//! The `nostall` command, as a library for its tests. See `nostall --help`.

#![forbid(unsafe_code)]

pub mod experiments;
mod grouped;
mod kernel;
#[cfg(unix)]
mod pci;
mod pstore;
// Uses Linux's spidev.
#[cfg(target_os = "linux")]
mod spi;
mod trace;
// Uses Linux's /dev/port.
#[cfg(target_os = "linux")]
mod uart;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use nostall_fleet::cli::Postmortem;
use nostall_postmortem::cli::{escape, output};

/// Shows where kernels stall on slow I/O, and that they need not.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[cfg(unix)]
    Pci(pci::Args),
    Postmortem(Postmortem),
    Pstore(Box<pstore::Args>),
    Run(experiments::Args),
    #[cfg(target_os = "linux")]
    Spi(spi::Args),
    Trace(trace::Args),
    #[cfg(target_os = "linux")]
    Uart(uart::Args),
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    Vm(Box<vm::Args>),
}

/// Runs the command with the process's arguments.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Postmortem(command) => return command.run(),
        #[cfg(unix)]
        Command::Pci(args) => pci::run(&args),
        Command::Pstore(args) => pstore::run(&args),
        Command::Run(args) => experiments::run(args),
        #[cfg(target_os = "linux")]
        Command::Spi(args) => spi::run(&args),
        Command::Trace(args) => {
            return trace::run(&args).unwrap_or_else(|error| output::fail(&error));
        }
        #[cfg(target_os = "linux")]
        Command::Uart(args) => uart::run(&args),
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        Command::Vm(args) => vm::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::fail(&error),
    }
}
