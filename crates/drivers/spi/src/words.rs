//! Words of a transfer, for the controller.

use embedded_hal::spi::Operation;

use crate::settings::WordSize;
use crate::transfer::Transfer;

/// Words of one transfer, and their progress.
///
/// A controller that moves words takes them with [`next_word`](Self::next_word), and passes the
/// received words, in the same order, to [`receive`](Self::receive). A controller that moves whole
/// buffers uses [`operation`](Self::operation) and then [`complete`](Self::complete).
#[derive(Debug)]
pub struct Words<'a> {
    operation: Operation<'a, u8>,
    word: WordSize,
    fill: u8,
    total: usize,
    sent: usize,
    received: usize,
}

impl<'a> Words<'a> {
    #[inline]
    pub(crate) fn new(transfer: Transfer<'a>, word: WordSize, fill: u8) -> Self {
        Self {
            total: transfer.len() >> word as u32,
            operation: transfer.operation,
            word,
            fill,
            sent: 0,
            received: 0,
        }
    }

    /// Returns the next word to send, in the low bits; `None` when all are sent.
    #[inline]
    pub fn next_word(&mut self) -> Option<u32> {
        if self.sent >= self.total {
            return None;
        }
        let at = self.sent * self.word.bytes();
        self.sent += 1;
        let bytes: &[u8] = match &self.operation {
            Operation::Write(bytes) | Operation::Transfer(_, bytes) => bytes,
            Operation::TransferInPlace(bytes) => bytes,
            Operation::Read(_) | Operation::DelayNs(_) => &[],
        };
        let Some(bytes) = bytes.get(at..at + self.word.bytes()) else {
            return Some(u32::from_ne_bytes([self.fill; 4]) >> (32 - self.word.bits()));
        };
        Some(match *bytes {
            [a] => a.into(),
            [a, b] => u16::from_ne_bytes([a, b]).into(),
            [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]),
            _ => 0,
        })
    }

    /// Stores the next received word, from the low bits. Drops words beyond the end of the
    /// transfer.
    #[inline]
    pub fn receive(&mut self, word: u32) {
        if self.received >= self.total {
            return;
        }
        let at = self.received * self.word.bytes();
        self.received += 1;
        let into = match &mut self.operation {
            Operation::Read(into) | Operation::Transfer(into, _) => into,
            Operation::TransferInPlace(bytes) => bytes,
            Operation::Write(_) | Operation::DelayNs(_) => return,
        };
        match into.get_mut(at..at + self.word.bytes()) {
            Some([a]) => *a = word as u8,
            Some(into @ [_, _]) => into.copy_from_slice(&(word as u16).to_ne_bytes()),
            Some(into @ [_, _, _, _]) => into.copy_from_slice(&word.to_ne_bytes()),
            _ => {}
        }
    }

    /// Returns the memory, for a controller that moves all of it at once.
    #[inline]
    pub const fn operation(&mut self) -> &mut Operation<'a, u8> {
        &mut self.operation
    }

    /// Records that every word was sent and received.
    #[inline]
    pub fn complete(&mut self) {
        self.sent = self.total;
        self.received = self.total;
    }

    /// Returns the number of words in the transfer.
    pub const fn total(&self) -> usize {
        self.total
    }

    /// Returns the number of sent words without a received one.
    pub const fn under_way(&self) -> usize {
        self.sent.saturating_sub(self.received)
    }

    /// Returns whether every word was sent and received.
    pub const fn is_complete(&self) -> bool {
        self.sent == self.total && self.received == self.total
    }

    /// Returns the word size.
    pub const fn word(&self) -> WordSize {
        self.word
    }

    /// Returns the byte to send when there are no bytes to send.
    pub const fn fill(&self) -> u8 {
        self.fill
    }
}
