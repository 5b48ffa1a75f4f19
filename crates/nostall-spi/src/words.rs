//! A transfer as a controller sees it: words out, words in.

use crate::settings::WordSize;
use crate::transfer::Buffers;

/// How far a transfer has come, in words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    sent: usize,
    received: usize,
}

/// The words of one transfer, and how far it has come.
///
/// A controller that moves words takes them by [`next_word`](Self::next_word) and
/// gives what came in, in the same order, to [`receive`](Self::receive). One that
/// moves whole buffers takes those, and says so by [`complete`](Self::complete).
#[derive(Debug)]
pub struct Words<'a> {
    buffers: Buffers<'a>,
    word: WordSize,
    fill: u8,
    total: usize,
    moved: &'a mut Moved,
}

impl<'a> Words<'a> {
    #[inline]
    pub(crate) fn new(
        buffers: Buffers<'a>,
        word: WordSize,
        fill: u8,
        moved: &'a mut Moved,
    ) -> Self {
        let bytes = match &buffers {
            Buffers::Write(bytes) => bytes.len(),
            Buffers::Read(into) => into.len(),
            Buffers::Both { write, read } => write.len().max(read.len()),
            Buffers::InPlace(bytes) => bytes.len(),
        };
        let total = bytes >> word as u32;
        Self {
            buffers,
            word,
            fill,
            total,
            moved,
        }
    }

    /// The next word to send, in the low bits; none when all are sent.
    #[inline]
    pub fn next_word(&mut self) -> Option<u32> {
        if self.moved.sent >= self.total {
            return None;
        }
        let at = self.moved.sent * self.word.bytes();
        self.moved.sent += 1;
        let bytes: &[u8] = match &self.buffers {
            Buffers::Write(bytes) | Buffers::Both { write: bytes, .. } => bytes,
            Buffers::InPlace(bytes) => bytes,
            Buffers::Read(_) => &[],
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

    /// Takes the word that came in next, from the low bits. More than there are
    /// words in the transfer are dropped.
    #[inline]
    pub fn receive(&mut self, word: u32) {
        if self.moved.received >= self.total {
            return;
        }
        let at = self.moved.received * self.word.bytes();
        self.moved.received += 1;
        let into = match &mut self.buffers {
            Buffers::Read(into) | Buffers::Both { read: into, .. } => into,
            Buffers::InPlace(bytes) => bytes,
            Buffers::Write(_) => return,
        };
        match into.get_mut(at..at + self.word.bytes()) {
            Some([a]) => *a = word as u8,
            Some(into @ [_, _]) => into.copy_from_slice(&(word as u16).to_ne_bytes()),
            Some(into @ [_, _, _, _]) => into.copy_from_slice(&word.to_ne_bytes()),
            _ => {}
        }
    }

    /// The memory, for a controller that moves all of it at once.
    #[inline]
    pub fn buffers(&mut self) -> &mut Buffers<'a> {
        &mut self.buffers
    }

    /// Every word was sent and received.
    #[inline]
    pub fn complete(&mut self) {
        self.moved.sent = self.total;
        self.moved.received = self.total;
    }

    /// Words of the transfer.
    pub const fn total(&self) -> usize {
        self.total
    }

    /// Words not sent yet.
    pub const fn unsent(&self) -> usize {
        self.total - self.moved.sent
    }

    /// Words sent of which nothing came back yet.
    pub const fn under_way(&self) -> usize {
        self.moved.sent.saturating_sub(self.moved.received)
    }

    /// Whether every word was sent and received.
    pub const fn is_complete(&self) -> bool {
        self.moved.sent == self.total && self.moved.received == self.total
    }

    /// Bits in a word.
    pub const fn word(&self) -> WordSize {
        self.word
    }

    /// What is sent, in every byte, where there is nothing to send.
    pub const fn fill(&self) -> u8 {
        self.fill
    }

    /// Whether anything that is sent or received is of use.
    pub const fn directions(&self) -> Directions {
        match self.buffers {
            Buffers::Write(_) => Directions::Out,
            Buffers::Read(_) => Directions::In,
            Buffers::Both { .. } | Buffers::InPlace(_) => Directions::Both,
        }
    }
}

/// Which way a transfer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directions {
    /// What comes in is dropped.
    Out,
    /// What goes out is made up.
    In,
    /// Both matter.
    Both,
}
