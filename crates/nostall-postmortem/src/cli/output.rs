//! Standard output and standard error, and the styles of their readers.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style as Ansi};
use anyhow::{Context, Result};

static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// From now on the process prints no explanations.
pub fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Returns whether explanations and progress are unwanted.
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
    // Without a standard error, the work goes on.
    let _ = writeln!(io::stderr(), "nostall: {line}");
}

/// Prints an error and returns the status for it. Without a standard error, only the status remains.
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
        result => result.context("standard output"),
    }
}

/// Reader of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A pipe or file.
    Plain,
    /// A terminal: nothing that it would obey.
    Safe,
    /// A terminal that takes colours.
    Colour,
}

impl Style {
    /// Returns the style that suits standard output, and `NO_COLOR` and its like.
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
