//! The receive FIFO, or the buffer register, with each byte's errors.

use std::collections::VecDeque;

use nostall_io::Nanos;
use nostall_uart::registers::lsr;

/// The bits of the LSR that belong to one byte.
pub(super) const ERRORS: u8 = lsr::PARITY | lsr::FRAMING | lsr::BREAK;

/// Receiver: bytes that have come in.
#[derive(Clone, Debug, Default)]
pub(super) struct Receiver {
    /// Each byte with its errors, as bits of the LSR.
    pub(super) bytes: VecDeque<(u8, u8)>,
    pub(super) overrun: bool,
    /// When the bytes will have waited for four frames, in FIFO mode.
    pub(super) timeout_at: Option<Nanos>,
}

impl Receiver {
    /// A byte comes in. In a full FIFO it is lost; without a FIFO it takes the
    /// place of the one before (PC16550D, section 8.4, bit 1).
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

    /// The oldest byte, its errors with it; 0 if there is none.
    pub(super) fn take(&mut self) -> u8 {
        self.bytes.pop_front().map_or(0, |(byte, _)| byte)
    }

    /// Returns the errors that the LSR shows: an overrun at once, a byte's errors when it is the
    /// next to be read.
    pub(super) fn errors(&self) -> u8 {
        let overrun = if self.overrun { lsr::OVERRUN } else { 0 };
        overrun | self.bytes.front().map_or(0, |&(_, errors)| errors)
    }

    /// The same, when the LSR is read: it shows each error once.
    pub(super) fn take_errors(&mut self) -> u8 {
        let errors = self.errors();
        self.overrun = false;
        if let Some((_, errors)) = self.bytes.front_mut() {
            *errors = 0;
        }
        errors
    }

    /// Whether any byte has an error that has not been shown.
    pub(super) fn any_error(&self) -> bool {
        self.bytes.iter().any(|&(_, errors)| errors != 0)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.timeout_at = None;
    }
}
