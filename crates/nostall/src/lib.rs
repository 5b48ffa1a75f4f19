//! The `nostall` command, as a library for its tests. See `nostall --help`.

#![forbid(unsafe_code)]

mod escape;
pub mod experiments;
mod grouped;
mod kernel;
mod log;
mod output;
#[cfg(unix)]
mod pci;
mod pstore;
// By Linux's spidev.
#[cfg(target_os = "linux")]
mod spi;
// By Linux's /dev/port.
#[cfg(target_os = "linux")]
mod uart;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod vm;

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
    Log(log::Args),
    #[cfg(unix)]
    Pci(pci::Args),
    Pstore(pstore::Args),
    Run(experiments::Args),
    #[cfg(target_os = "linux")]
    Spi(spi::Args),
    #[cfg(target_os = "linux")]
    Uart(uart::Args),
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    Vm(Box<vm::Args>),
}

/// Does as the process's arguments say.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Pstore(args) => return pstore::run(&args).unwrap_or_else(|error| fail(&error)),
        Command::Log(args) => log::run(&args),
        #[cfg(unix)]
        Command::Pci(args) => pci::run(&args),
        Command::Run(args) => experiments::run(args),
        #[cfg(target_os = "linux")]
        Command::Spi(args) => spi::run(&args),
        #[cfg(target_os = "linux")]
        Command::Uart(args) => uart::run(&args),
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        Command::Vm(args) => vm::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// Prints the error. Without a stderr it is the exit status alone.
fn fail(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "nostall: {error:#}");
    ExitCode::FAILURE
}
