//! Standard output and standard error, and styles for their readers.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style as Ansi};
use anyhow::{Context, Result};
use clap::{Arg, Command, FromArgMatches, Parser, Subcommand, value_parser};

use super::escape::escape;

static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Disables explanations for this process.
pub fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Returns whether explanations and progress are disabled.
pub fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Prints an explanation on standard error, unless the process is quiet.
pub fn note(line: std::fmt::Arguments<'_>) {
    if !is_quiet() {
        error(line);
    }
}

/// Prints an error on standard error, without characters that control a terminal: it may have the name
/// of a file.
pub fn error(line: std::fmt::Arguments<'_>) {
    let line = line.to_string();
    // A failure to write to standard error is ignored.
    let _ = writeln!(io::stderr(), "nostall: {}", escape(line.as_bytes()));
}

/// Prints an error and returns the exit status for it.
pub fn fail(error: &anyhow::Error) -> ExitCode {
    if is_closed(error) {
        return ExitCode::from(SIGPIPE);
    }
    self::error(format_args!("{error:#}"));
    ExitCode::FAILURE
}

/// Adds the option `--color` to a command and those below it.
#[must_use]
pub fn with_color(command: Command) -> Command {
    command.arg(
        Arg::new("color")
            .long("color")
            .value_name("WHEN")
            .value_parser(value_parser!(clap::ColorChoice))
            .default_value("auto")
            .hide_default_value(true)
            .global(true)
            .help("Use colours"),
    )
}

/// Adds `-V`, the version alone, and `--version`: also the commit, the target and the features of
/// this file.
///
/// The commit is the variable `NOSTALL_COMMIT` of the build, which `make dist` sets.
#[must_use]
pub fn with_version(command: Command, features: &[&str]) -> Command {
    let (number, commit) = (env!("CARGO_PKG_VERSION"), option_env!("NOSTALL_COMMIT"));
    let commit = commit.unwrap_or("unknown, this file is not of `make dist`");
    let libc = if cfg!(target_env = "musl") {
        "-musl"
    } else {
        ""
    };
    let (processor, system) = (env::consts::ARCH, env::consts::OS);
    let features = if features.is_empty() {
        "none"
    } else {
        &features.join(", ")
    };
    let long = format!(
        "{number}\ncommit: {commit}\ntarget: {processor}-{system}{libc}\nfeatures: {features}"
    );
    // One command line of a process, so the text is lost once.
    command.version(number).long_version(&*long.leak())
}

/// Parses the process's arguments, and applies `--color`.
///
/// # Errors
///
/// The exit status, if help was asked for or the arguments are wrong. The text is then printed.
pub fn parse<P: FromArgMatches>(mut command: Command) -> Result<P, ExitCode> {
    let parsed = command.try_get_matches_from_mut(env::args_os());
    let parsed = parsed.and_then(|matches| {
        P::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    });
    set_color(env::args_os());
    parsed.map_err(|error| usage(&error))
}

/// A command line of several commands.
#[derive(Parser)]
#[command(max_term_width = 100)]
pub struct Commands<C: Subcommand> {
    /// Print only results and errors: no explanations and no progress
    #[arg(long, short, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Option<C>,
}

/// Runs one of `commands` with the process's arguments. Without a command, `front` is printed.
pub fn run<C: Subcommand>(
    commands: Command,
    front: &str,
    run: impl FnOnce(C) -> Result<ExitCode>,
) -> ExitCode {
    let Commands { quiet, command } = match parse(commands) {
        Ok(line) => line,
        Err(status) => return status,
    };
    if quiet {
        be_quiet();
    }
    let result = match command {
        Some(command) => run(command),
        None => to_stdout(|out| out.write_all(front.as_bytes())).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| fail(&error))
}

/// Applies `--color`, also if the other arguments are wrong.
fn set_color(args: impl Iterator<Item = OsString>) {
    let mut args = args.take_while(|arg| arg != "--");
    while let Some(arg) = args.next() {
        let value = match arg.to_str().and_then(|arg| arg.strip_prefix("--color")) {
            Some("") => args.next(),
            Some(value) => value.strip_prefix('=').map(OsString::from),
            None => None,
        };
        match value.as_deref().and_then(OsStr::to_str) {
            Some("always") => ColorChoice::Always.write_global(),
            Some("never") => ColorChoice::Never.write_global(),
            _ => {}
        }
    }
}

/// Prints help or an error in the arguments, and returns the exit status.
fn usage(error: &clap::Error) -> ExitCode {
    let (plain, styled) = (
        error.render().to_string(),
        error.render().ansi().to_string(),
    );
    if error.use_stderr() {
        let is_error = plain.starts_with("error:");
        let styled = styled.replacen("error:", "nostall:", is_error.into());
        // A failure to write to standard error is ignored.
        let _ = write!(anstream::stderr(), "{styled}");
    } else {
        let text = match AutoStream::choice(&io::stdout()) {
            ColorChoice::Never => plain,
            _ => styled,
        };
        if let Err(error) = to_stdout(|out| out.write_all(text.as_bytes())) {
            return fail(&error);
        }
    }
    ExitCode::from(error.exit_code() as u8)
}

/// Exit status that a shell shows for a command that SIGPIPE ended.
const SIGPIPE: u8 = 128 + 13;

/// Standard output whose reader has closed it. The command ends, without a message.
#[derive(Debug, thiserror::Error)]
#[error("the reader of standard output has closed it")]
struct Closed;

/// Returns whether the reader of standard output has closed it.
#[must_use]
pub fn is_closed(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<Closed>())
}

/// Writes to standard output.
///
/// # Errors
///
/// If standard output cannot be written, or its reader has closed it.
pub fn to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Closed.into()),
        result => Ok(result
            .context("standard output")
            .map_err(NotWritten::from)?),
    }
}

/// An output that cannot be written, which has an exit status of its own.
#[derive(Debug)]
pub(crate) struct NotWritten(anyhow::Error);

impl From<anyhow::Error> for NotWritten {
    fn from(error: anyhow::Error) -> Self {
        Self(error)
    }
}

impl fmt::Display for NotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for NotWritten {}

/// Kind of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A pipe or file.
    Plain,
    /// A terminal: control characters are escaped.
    Safe,
    /// A terminal with colours.
    Colour,
}

impl Style {
    /// Returns the style for standard output, by `--color`, `NO_COLOR` and similar variables.
    pub fn of(out: &io::Stdout) -> Self {
        match (out.is_terminal(), AutoStream::choice(out)) {
            (false, _) if ColorChoice::global() != ColorChoice::Always => Self::Plain,
            (_, ColorChoice::Never) => Self::Safe,
            _ => Self::Colour,
        }
    }

    /// Returns the style of headings.
    pub fn heading(self) -> Ansi {
        self.ansi(Ansi::new().bold())
    }

    /// Returns the style of unreliable text.
    pub fn doubt(self) -> Ansi {
        self.ansi(AnsiColor::Yellow.on_default())
    }

    fn ansi(self, style: Ansi) -> Ansi {
        if self == Self::Colour {
            style
        } else {
            Ansi::new()
        }
    }
}
