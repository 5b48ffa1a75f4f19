//! Standard output and standard error, and styles for their readers.

use std::fmt;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style as Ansi};
use anyhow::{Context, Result};

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

/// Prints an error on standard error.
pub fn error(line: std::fmt::Arguments<'_>) {
    // A failure to write to standard error is ignored.
    let _ = writeln!(io::stderr(), "nostall: {line}");
}

/// Prints an error and returns the exit status for it.
pub fn fail(error: &anyhow::Error) -> ExitCode {
    self::error(format_args!("{error:#}"));
    ExitCode::FAILURE
}

/// Writes to standard output. A reader that stops early is no error.
///
/// # Errors
///
/// If standard output cannot be written.
pub fn to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
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
    /// Returns the style for standard output, which `NO_COLOR` and similar variables affect.
    pub fn of(out: &io::Stdout) -> Self {
        match (out.is_terminal(), AutoStream::choice(out)) {
            (false, _) => Self::Plain,
            (true, ColorChoice::Never) => Self::Safe,
            (true, _) => Self::Colour,
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
