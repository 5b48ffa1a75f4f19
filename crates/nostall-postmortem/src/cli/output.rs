//! Standard output and standard error, and the styles of their readers.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style as Ansi};
use anyhow::{Context, Result};

/// Prints a line on standard error.
pub fn note(line: std::fmt::Arguments<'_>) {
    // Without a standard error, the work goes on.
    let _ = writeln!(io::stderr(), "nostall: {line}");
}

/// Prints an error and returns the status for it. Without a stderr, only the status remains.
pub fn fail(error: &anyhow::Error) -> ExitCode {
    note(format_args!("{error:#}"));
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
    /// What suits standard output, and `NO_COLOR` and its like.
    pub fn of(out: &io::Stdout) -> Self {
        match (out.is_terminal(), AutoStream::choice(out)) {
            (false, _) => Self::Plain,
            (true, ColorChoice::Never) => Self::Safe,
            (true, _) => Self::Colour,
        }
    }

    /// What stands out.
    pub fn heading(self) -> Ansi {
        self.ansi(Ansi::new().bold())
    }

    /// What is not to be relied on.
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
