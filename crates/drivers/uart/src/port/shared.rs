//! A port shared by a task and an interrupt handler.

use core::cell::RefCell;
use core::fmt;

use nostall_io::Registers;

use super::{Port, ReceiveError};

/// Access of a task to a port that an interrupt handler also uses.
///
/// It is implemented for a [`RefCell`], for systems without a handler or with a handler in the
/// task's own context. In a system with interrupts, implement it for the lock that holds the port:
///
/// ```
/// use nostall_io::Registers;
/// use nostall_uart::port::{Port, SharedPort};
/// use std::sync::Mutex; // in a kernel, a lock that masks the interrupt
///
/// struct Uart0<'a, R>(Mutex<Port<'a, R>>);
///
/// impl<R: Registers> SharedPort for Uart0<'_, R> {
///     type Registers = R;
///
///     fn with<T>(&self, act: impl FnOnce(&mut Port<'_, R>) -> T) -> T {
///         act(&mut self.0.lock().unwrap())
///     }
/// }
/// ```
pub trait SharedPort {
    /// Register window of the port.
    type Registers: Registers;

    /// Runs `act` with exclusive use of the port. `act` does not wait.
    fn with<T>(&self, act: impl FnOnce(&mut Port<'_, Self::Registers>) -> T) -> T;
}

impl<R: Registers> SharedPort for RefCell<Port<'_, R>> {
    type Registers = R;

    fn with<T>(&self, act: impl FnOnce(&mut Port<'_, R>) -> T) -> T {
        act(&mut self.borrow_mut())
    }
}

impl<S: SharedPort + ?Sized> SharedPort for &S {
    type Registers = S::Registers;

    fn with<T>(&self, act: impl FnOnce(&mut Port<'_, S::Registers>) -> T) -> T {
        (**self).with(act)
    }
}

/// Error of a read or a write through the `embedded-io` traits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IoError {
    /// A receive error. It is returned once, after the bytes before it. The next read continues.
    Receive(ReceiveError),
    /// No byte was received or sent within the time limit.
    TimedOut,
    /// The port no longer answers.
    Gone,
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Receive(error) => error.fmt(f),
            Self::TimedOut => f.write_str("the port moved no byte within the time limit"),
            Self::Gone => f.write_str("the port no longer answers: open it again"),
        }
    }
}

impl core::error::Error for IoError {}

impl From<ReceiveError> for IoError {
    fn from(error: ReceiveError) -> Self {
        Self::Receive(error)
    }
}

impl embedded_io::Error for IoError {
    fn kind(&self) -> embedded_io::ErrorKind {
        use embedded_io::ErrorKind;
        match self {
            Self::Receive(ReceiveError::Parity(_) | ReceiveError::Framing(_)) => {
                ErrorKind::InvalidData
            }
            // No other kind means "lost". Callers that retry on `Interrupted` would never see a
            // break.
            Self::Receive(ReceiveError::Overrun | ReceiveError::Break) => ErrorKind::Other,
            Self::TimedOut => ErrorKind::TimedOut,
            Self::Gone => ErrorKind::NotConnected,
        }
    }
}
