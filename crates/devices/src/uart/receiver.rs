//! The receive FIFO or buffer register, with the errors of each byte.

use std::collections::VecDeque;

use nostall_io::Nanos;
use nostall_uart::registers::lsr;

/// LSR error bits that belong to one byte.
pub(super) const ERRORS: u8 = lsr::PARITY | lsr::FRAMING | lsr::BREAK;

/// Received bytes and the receiver's state.
#[derive(Clone, Debug, Default)]
pub(super) struct Receiver {
    /// Each byte with its error bits of the LSR.
    pub(super) bytes: VecDeque<(u8, u8)>,
    pub(super) overrun: bool,
    /// Time at which the character timeout occurs, in FIFO mode.
    pub(super) timeout_at: Option<Nanos>,
}

impl Receiver {
    /// Stores a byte. A full FIFO loses it; without a FIFO it replaces the previous byte (PC16550D,
    /// section 8.4, bit 1).
    pub(super) fn put(&mut self, byte: u8, errors: u8, depth: usize) {
        if self.bytes.len() >= depth {
            self.overrun = true;
            if depth > 1 {
                return;
            }
            self.bytes.clear();
        }
        self.bytes.push_back((byte, errors & ERRORS));
    }

    /// Takes the oldest byte and discards its errors; 0 if there is none.
    #[inline]
    pub(super) fn take(&mut self) -> u8 {
        self.bytes.pop_front().map_or(0, |(byte, _)| byte)
    }

    /// Returns the error bits of the LSR: an overrun at once, a byte's errors when it is the next
    /// to be read.
    #[inline]
    pub(super) fn errors(&self) -> u8 {
        let overrun = if self.overrun { lsr::OVERRUN } else { 0 };
        overrun | self.bytes.front().map_or(0, |&(_, errors)| errors)
    }

    /// Returns the error bits for a read of the LSR, and clears them.
    #[inline]
    pub(super) fn take_errors(&mut self) -> u8 {
        let errors = self.errors();
        self.overrun = false;
        if let Some((_, errors)) = self.bytes.front_mut() {
            *errors = 0;
        }
        errors
    }

    /// Returns whether any stored byte has an error that the LSR has not reported.
    #[inline]
    pub(super) fn any_error(&self) -> bool {
        self.bytes.iter().any(|&(_, errors)| errors != 0)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.timeout_at = None;
    }
}
