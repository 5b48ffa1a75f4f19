//! `embedded-io` on a console.

use core::fmt;

use embedded_io::{ErrorKind, ErrorType, Write};
use nostall_io::Clock;

use super::entry::Stall;
use super::state::Console;
use crate::crlf::Crlf;
use crate::hardware::UartHardware;

/// Error of a write through the `embedded-io` traits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IoError {
    /// No byte was sent within the time limit.
    TimedOut,
    /// The port no longer answers, or has lost its power.
    Gone,
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "the port moved no byte within the time limit",
            Self::Gone => "the port no longer answers: open it again",
        })
    }
}

impl core::error::Error for IoError {}

impl embedded_io::Error for IoError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::TimedOut => ErrorKind::TimedOut,
            Self::Gone => ErrorKind::NotConnected,
        }
    }
}

impl<U: UartHardware, C: Clock> ErrorType for Console<U, C> {
    type Error = IoError;
}

/// Writes with [`Console`]. Unlike [`Console::write`], a write keeps text that the port does not
/// take in time. It returns the number of text bytes taken, and the caller keeps the rest.
impl<U: UartHardware, C: Clock> Write for Console<U, C> {
    /// # Errors
    ///
    /// [`IoError::TimedOut`] if the port took no byte in time. [`IoError::Gone`] if it has
    /// disappeared or lost its power. The bytes it held are then counted as lost, and reported on
    /// the line later.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, IoError> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let cr_sent = core::mem::take(&mut self.cr_sent);
        let mut text = Crlf::new(bytes, self.settings.newline, cr_sent);
        let sent = self.write_out(&mut text, &mut 0);
        self.cr_sent = text.cr_sent();
        if sent == Err(Stall::Gone) || self.check_power() {
            self.lose_port_content();
            return Err(IoError::Gone);
        }
        match bytes.len() - text.text_remaining() {
            0 => Err(IoError::TimedOut),
            taken => Ok(taken),
        }
    }

    /// # Errors
    ///
    /// [`IoError::TimedOut`] if the last byte did not leave the port in time.
    fn flush(&mut self) -> Result<(), IoError> {
        Self::flush(self).map_err(|_| IoError::TimedOut)
    }
}
