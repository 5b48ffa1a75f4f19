//! The receive FIFO, with the errors of each character.

use std::collections::VecDeque;

use nostall_io::Nanos;

use super::registers::{dr, rsr};

/// Error bits of DR that belong to one character.
pub(super) const ERRORS: u32 = dr::FRAMING | dr::PARITY | dr::BREAK;

/// Received characters and the receiver's state.
#[derive(Clone, Debug, Default)]
pub(super) struct Receiver {
    /// Each character as DR shows it.
    pub(super) characters: VecDeque<u16>,
    /// Characters were lost. The next one to be stored shows it (DDI 0183G, section 2.4.3, "Overrun
    /// bit").
    pub(super) overrun: bool,
    /// Receive status register.
    pub(super) status: u32,
    /// Time of the receive timeout.
    pub(super) timeout_at: Option<Nanos>,
}

impl Receiver {
    /// Stores a character. Returns `false` if the FIFO is full: the character is lost (section
    /// 3.3.2, OE).
    pub(super) fn put(&mut self, byte: u8, errors: u32, depth: usize) -> bool {
        if self.characters.len() >= depth {
            self.overrun = true;
            self.status |= rsr::OVERRUN;
            return false;
        }
        let overrun = if std::mem::take(&mut self.overrun) {
            dr::OVERRUN
        } else {
            0
        };
        let character = u32::from(byte) | errors & ERRORS | overrun;
        self.characters.push_back(character as u16);
        true
    }

    /// Takes the oldest character; 0 if there is none. The receive status then has its errors.
    pub(super) fn take(&mut self) -> u32 {
        let character = self.characters.pop_front().map_or(0, u32::from);
        self.status = self.status & rsr::OVERRUN | (character & ERRORS) >> 8;
        character
    }
}
