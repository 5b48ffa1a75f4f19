//! `nostall console`: logs of nostall-console.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;

use anyhow::{Context, Error, Result};
use nostall_postmortem::cli::Escaped;
use nostall_postmortem::join::Joiner;

use crate::escape::escape_name;
use crate::output::{Style, to_stdout};

/// Read the log that a console has sent
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Join(Join),
}

/// Join the lines that more urgent ones have cut
///
/// A line appears at the place of its last part, without `{cut P}` and `{rest P}`. Before
/// `{again}`, where a CPU crashed while it sent, the beginning of a line is left out if the line
/// comes again. A mark stays if its other part is not in the log. Lines of more than 64 KiB are
/// not joined.
///
/// A line is printed when the next one has come, because a mark may follow it. So FILE may be a
/// port or a pipe to which a machine still writes. The memory does not depend on the input.
#[derive(clap::Args)]
#[command(after_long_help = AFTER)]
struct Join {
    /// Log to read; - for standard input
    #[arg(default_value = "-")]
    file: PathBuf,
}

const AFTER: &str = "\
Examples:
  nostall console join serial.log
  picocom -qb 115200 /dev/ttyUSB0 | nostall console join";

/// Runs the subcommand.
///
/// # Errors
///
/// If the log cannot be read or the output cannot be written.
pub fn run(args: &Args) -> Result<()> {
    let Command::Join(Join { file }) = &args.command;
    if file.as_os_str() == "-" {
        return join(io::stdin()).context("standard input");
    }
    let log = File::open(file).map_err(Error::new);
    let joined = log.and_then(join);
    joined.with_context(|| escape_name(&file.to_string_lossy()))
}

fn join(mut log: impl Read) -> Result<()> {
    let is_plain = Style::of(&io::stdout()) == Style::Plain;
    let mut joiner = Joiner::default();
    let mut bytes = vec![0; 1 << 14];
    loop {
        let read = match log.read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        let mut take = |out: &mut dyn io::Write| match read {
            0 => joiner.finish(out),
            _ => joiner.push(&bytes[..read], out),
        };
        to_stdout(|out| match is_plain {
            true => take(out),
            false => take(&mut Escaped(out)),
        })?;
        if read == 0 {
            return Ok(());
        }
    }
}
