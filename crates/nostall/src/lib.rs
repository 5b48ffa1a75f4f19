//! The `nostall` command, as a library for its tests. See `nostall --help`.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod console;
pub mod experiments;
mod grouped;
mod kernel;
mod pstore;
mod report;
// Uses Linux's spidev.
#[cfg(target_os = "linux")]
mod spi;
mod trace;
// Uses Linux's /dev/port.
#[cfg(target_os = "linux")]
mod uart;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
#[cfg(feature = "parquet")]
use nostall_fleet::cli::Postmortem;
#[cfg(not(feature = "parquet"))]
use nostall_postmortem::cli::Args as Postmortem;
use nostall_postmortem::cli::{escape, output};

/// The answer to a command line without a command: one screen of 22 lines and 80 columns.
const FRONT: &str = "\
nostall measures where kernels stall on slow I/O, and decodes crash records.

  run         Compare ways of doing I/O on QEMU, KVM or a model
  postmortem  Decode the records in a crashed machine's memory
  console     Join the lines of a console's log that were cut
  trace       Report on traces: nostall's, Linux's trace.dat, crash images
  pstore      Plan persistent memory for crash records, and make images of it
  uart        Examine this machine's serial ports
  spi         Measure an SPI bus of this board
  report      Make a page with charts from figures of `nostall run`
  completions Print completions for a shell

Examples:
  nostall run                     the tour: every experiment in about a minute
  nostall run uart --on model     four ways to print on a serial port
  nostall postmortem memory.elf   the last records of a crashed machine

`nostall COMMAND --help` lists options. `-q` prints only results and errors.
";

/// Measures where kernels stall on slow I/O, and decodes the records of a crash.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    /// Print only results and errors: no explanations and no progress
    #[arg(long, short, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Returns the command line's description.
#[must_use]
pub fn command() -> clap::Command {
    output::with_color(Cli::command())
}

#[derive(Subcommand)]
enum Command {
    Console(console::Args),
    /// Print shell completions of all commands and options
    Completions {
        /// Shell that reads the completions
        shell: Shell,
    },
    Postmortem(Postmortem),
    Pstore(Box<pstore::Args>),
    Report(report::Args),
    Run(experiments::Args),
    #[cfg(target_os = "linux")]
    Spi(spi::Args),
    Trace(trace::Args),
    #[cfg(target_os = "linux")]
    Uart(uart::Args),
}

/// Runs the command with the process's arguments.
pub fn main() -> ExitCode {
    let Cli { quiet, command } = match output::parse(command()) {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    if quiet {
        output::be_quiet();
    }
    let Some(command) = command else {
        return finish(output::to_stdout(|out| out.write_all(FRONT.as_bytes())));
    };
    finish(match command {
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut self::command(), "nostall", &mut script);
            output::to_stdout(|out| out.write_all(&script))
        }
        Command::Console(args) => console::run(&args),
        #[cfg(feature = "parquet")]
        Command::Postmortem(command) => return command.run(),
        #[cfg(not(feature = "parquet"))]
        Command::Postmortem(args) => {
            return nostall_postmortem::cli::run(&args)
                .unwrap_or_else(|error| output::fail(&error));
        }
        Command::Pstore(args) => pstore::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Run(args) => experiments::run(args),
        #[cfg(target_os = "linux")]
        Command::Spi(args) => spi::run(&args),
        Command::Trace(args) => {
            return trace::run(&args).unwrap_or_else(|error| output::fail(&error));
        }
        #[cfg(target_os = "linux")]
        Command::Uart(args) => uart::run(&args),
    })
}

fn finish(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::fail(&error),
    }
}
