//! The user's terminal in raw mode during a run.

use std::io::{self, IsTerminal, Stdin};
use std::os::fd::AsFd;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// A terminal in raw mode: typed bytes, including Ctrl-C, reach the guest unchanged. Dropping it
/// restores the previous mode.
#[derive(Debug)]
pub struct Terminal {
    stdin: Stdin,
    before: Termios,
}

impl Terminal {
    /// Switches the terminal of standard input to raw mode; `None` if standard input is not a
    /// terminal.
    ///
    /// # Errors
    ///
    /// The system's error, if the mode cannot be changed.
    pub fn raw() -> io::Result<Option<Self>> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(stdin.as_fd())?;
        let mut raw = before.clone();
        raw.make_raw();
        // Output translation stays enabled: a guest sends CR LF itself, but messages of other
        // programs need the translation.
        raw.output_modes = before.output_modes;
        tcsetattr(stdin.as_fd(), OptionalActions::Now, &raw)?;
        Ok(Some(Self { stdin, before }))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Drop cannot report an error.
        let _ = tcsetattr(self.stdin.as_fd(), OptionalActions::Drain, &self.before);
    }
}
