//! The user's terminal, given to the guest for the time of a run.

use std::io::{self, IsTerminal, Stdin};
use std::os::fd::AsFd;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// The terminal in raw mode: what is typed goes to the guest as it is, also Ctrl-C.
/// It is as it was again when this is dropped.
#[derive(Debug)]
pub struct Terminal {
    stdin: Stdin,
    before: Termios,
}

impl Terminal {
    /// That of standard input; `None` if that is no terminal.
    ///
    /// # Errors
    ///
    /// If it cannot be changed.
    pub fn raw() -> io::Result<Option<Self>> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(stdin.as_fd())?;
        let mut raw = before.clone();
        raw.make_raw();
        // A guest sends CR LF where it means it; what others write meanwhile does not.
        raw.output_modes = before.output_modes;
        tcsetattr(stdin.as_fd(), OptionalActions::Now, &raw)?;
        Ok(Some(Self { stdin, before }))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _ = tcsetattr(self.stdin.as_fd(), OptionalActions::Drain, &self.before);
    }
}
