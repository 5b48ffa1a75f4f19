//! Received bytes and errors.

use core::fmt;

/// Received bytes, breaks and errors, in order of arrival.
///
/// Errors are in order with the bytes. A caller that wants only bytes uses
/// [`Port::read_bytes`](super::Port::read_bytes), which returns the rest as errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A byte.
    Byte(u8),
    /// A byte, and what was wrong with it; or what came instead of one.
    Error(ReceiveError),
}

impl Received {
    /// Initial value for a receive ring's memory.
    pub const EMPTY: Self = Self::Byte(0);
}

/// Error of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveError {
    /// Bytes are missing here: the port's FIFO (PC16550D, section 8.4, OE) or the receive ring
    /// was full.
    ///
    /// Two in a row are two losses at one place.
    ///
    /// Bytes that the ring had no room for are missing exactly here. The port
    /// does not say where it lost some: they followed a full FIFO, and the place
    /// is found by counting, which is exact unless the loss fell between the look
    /// at the line status and the read of a byte. It is one byte late then.
    Overrun,
    /// A byte with a wrong parity (PE).
    Parity(u8),
    /// A byte without a stop bit (FE): the sender's rate or frame differs. Its parity is
    /// meaningless.
    Framing(u8),
    /// The line was held low for longer than a frame (BI). The NUL byte that the
    /// port makes of it is not among the bytes.
    Break,
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overrun => f.write_str(
                "bytes were lost here: read sooner, or use flow control or a lower rate",
            ),
            Self::Parity(byte) => write!(f, "byte {byte:#04x} came with the wrong parity"),
            Self::Framing(byte) => write!(
                f,
                "byte {byte:#04x} came without a stop bit: check rate and frame of both ends"
            ),
            Self::Break => f.write_str("break"),
        }
    }
}

impl core::error::Error for ReceiveError {}
