//! The user's terminal, given to the guest for the duration of a run.

use std::io::{self, IsTerminal, Stdin};
use std::os::fd::AsFd;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// Terminal in raw mode: typed bytes reach the guest unchanged, including Ctrl-C. Dropping it
/// restores the previous mode.
#[derive(Debug)]
pub struct Terminal {
    stdin: Stdin,
    before: Termios,
}

impl Terminal {
    /// Switches the terminal of standard input, or returns `None` if that is not a terminal.
    ///
    /// # Errors
    ///
    /// The system's, if the mode cannot be changed.
    pub fn raw() -> io::Result<Option<Self>> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(stdin.as_fd())?;
        let mut raw = before.clone();
        raw.make_raw();
        // Only a guest sends CR LF itself; messages of other programs still need the
        // translation.
        raw.output_modes = before.output_modes;
        tcsetattr(stdin.as_fd(), OptionalActions::Now, &raw)?;
        Ok(Some(Self { stdin, before }))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // An error could not be reported here.
        let _ = tcsetattr(self.stdin.as_fd(), OptionalActions::Drain, &self.before);
    }
}
