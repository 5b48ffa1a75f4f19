//! Received bytes and errors.

use core::fmt;

/// Received byte, break or error, in order of arrival.
///
/// A caller that needs only bytes uses [`Port::read_bytes`](super::Port::read_bytes), which returns
/// the others as errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A byte received without an error.
    Byte(u8),
    /// A byte with an error, or an error without a byte.
    Error(ReceiveError),
}

impl Received {
    /// Initial value for a receive ring's memory.
    pub const EMPTY: Self = Self::Byte(0);
}

/// Error of the receiver (PC16550D, section 8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveError {
    /// Bytes are missing here: the port's FIFO (OE) or the receive ring was full. Two in a row are
    /// two losses at the same place.
    ///
    /// Bytes for which the ring had no room are missing exactly here. The port does not report the
    /// place of its own losses. They follow a full FIFO, so the place is found by counting. That is
    /// exact unless the loss occurs between a read of the line status and the read of a byte. Then
    /// it is one byte late.
    Overrun,
    /// A byte with a wrong parity (PE).
    Parity(u8),
    /// A byte without a stop bit (FE): the sender's rate or frame differs. Its parity is
    /// meaningless.
    Framing(u8),
    /// The line was held low for longer than a frame (BI). The NUL byte that the port stores for it
    /// is left out.
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
