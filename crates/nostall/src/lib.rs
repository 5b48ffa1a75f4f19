//! The `nostall` command, as a library for its tests. See `nostall --help`.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod console;
mod pstore;
// Uses Linux's spidev.
#[cfg(target_os = "linux")]
mod spi;
// Reads Linux's /proc and /sys, and uses its tracefs.
#[cfg(target_os = "linux")]
mod stalls;
mod trace;
// Uses Linux's /dev/port.
#[cfg(target_os = "linux")]
mod uart;
mod whole_file;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Subcommand};
use clap_complete::Shell;
#[cfg(feature = "parquet")]
use nostall_fleet::cli::Postmortem;
#[cfg(not(feature = "parquet"))]
use nostall_postmortem::cli::Args as Postmortem;
use nostall_postmortem::cli::{escape, output};

/// The answer to a command line without a command: one screen of 23 lines and 80 columns.
const FRONT: &str = "\
nostall decodes crash records and traces, and examines a machine's slow I/O.

  postmortem  Decode the records in a crashed machine's memory
  console     Join the lines of a console's log that were cut
  trace       Report on traces: nostall's, Linux's trace.dat, crash images
  pstore      Plan persistent memory for crash records, and make images of it
  uart        Examine this machine's serial ports
  spi         Measure an SPI bus of this board
  stalls      Tell what slow I/O costs this machine's Linux
  completions Print completions for a shell

Examples:
  nostall postmortem memory.elf           the last records of a crash
  nostall trace report server.trace       the functions of a program
  nostall pstore plan --size 1M --cpus 4  memory for the next crash's records

`nostall COMMAND --help` lists options. `-q` prints only results and errors.
";

/// Returns the command line's description.
#[must_use]
pub fn command() -> clap::Command {
    let command = output::Commands::<Command>::command()
        .name("nostall")
        .about("Decodes crash records and traces, and examines where a machine stalls on slow I/O");
    let features: &[&str] = if cfg!(feature = "parquet") {
        &["parquet"]
    } else {
        &[]
    };
    output::with_version(output::with_color(command), features)
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
    /// Moved to `nostall-lab report`
    #[command(hide = true, disable_help_flag = true)]
    Report(Moved),
    /// Moved to `nostall-lab run`
    #[command(hide = true, disable_help_flag = true)]
    Run(Moved),
    #[cfg(target_os = "linux")]
    Spi(spi::Args),
    #[cfg(target_os = "linux")]
    Stalls(Box<stalls::Args>),
    Trace(trace::Args),
    #[cfg(target_os = "linux")]
    Uart(uart::Args),
}

/// Arguments of a command that moved to nostall-lab. They are not read.
#[derive(clap::Args)]
struct Moved {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

fn moved(command: &str) -> anyhow::Result<()> {
    anyhow::bail!(
        "`nostall {command}` is `nostall-lab {command}` now: in a checkout, \
         `cargo install --locked --path crates/lab/nostall-lab` installs it"
    )
}

/// Runs the command with the process's arguments.
pub fn main() -> ExitCode {
    #[cfg(not(feature = "parquet"))]
    for command in ["export", "synth"] {
        if std::env::args_os()
            .skip(1)
            .take(2)
            .eq(["postmortem", command])
        {
            return output::fail(&anyhow::anyhow!(
                "postmortem {command}: this build has no tables: install it without \
                 --no-default-features"
            ));
        }
    }
    output::run(command(), FRONT, |command| {
        match command {
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut self::command(), "nostall", &mut script);
                output::to_stdout(|out| out.write_all(&script))?;
            }
            Command::Console(args) => console::run(&args)?,
            #[cfg(feature = "parquet")]
            Command::Postmortem(command) => return Ok(command.run()),
            #[cfg(not(feature = "parquet"))]
            Command::Postmortem(args) => return nostall_postmortem::cli::run(&args),
            Command::Pstore(args) => pstore::run(&args)?,
            Command::Report(_) => moved("report")?,
            Command::Run(_) => moved("run")?,
            #[cfg(target_os = "linux")]
            Command::Spi(args) => spi::run(&args)?,
            #[cfg(target_os = "linux")]
            Command::Stalls(args) => stalls::run(&args)?,
            Command::Trace(args) => return trace::run(&args),
            #[cfg(target_os = "linux")]
            Command::Uart(args) => uart::run(&args)?,
        }
        Ok(ExitCode::SUCCESS)
    })
}
