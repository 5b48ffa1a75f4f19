//! Names area: the texts that records refer to.

use crate::cells::{Cells, MemoryCells};
use crate::layout::{LONGEST_NAME, NAMES_USED};
use crate::writer::word;

/// Names area of a region.
pub(crate) struct Names<'m> {
    region: MemoryCells<'m>,
    first: usize,
    words: usize,
}

impl<'m> Names<'m> {
    pub(crate) fn new(region: MemoryCells<'m>, first: usize, words: usize) -> Self {
        Self {
            region,
            first,
            words,
        }
    }

    /// Returns the number of `text`, and adds it if it is new; 0 if there is no room.
    ///
    /// A text that two CPUs, or a handler and the interrupted code, add at the same time gets two
    /// numbers. `uninterrupted` runs its argument, with interrupts masked on machines without 64-bit
    /// atomics.
    pub(crate) fn number(
        &self,
        text: &str,
        uninterrupted: impl FnOnce(&dyn Fn() -> Option<usize>) -> Option<usize>,
    ) -> u32 {
        let text = &text.as_bytes()[..text.floor_char_boundary(LONGEST_NAME)];
        if text.is_empty() {
            return 0;
        }
        self.find(text).unwrap_or_else(|| {
            let count = words(text.len());
            match uninterrupted(&|| self.reserve(count)) {
                Some(at) => self.add(at, text),
                None => 0,
            }
        })
    }

    /// Finds a text. Incomplete entries are skipped: their words are zeros, or the length in the
    /// first one has the mark [`UNFINISHED`].
    fn find(&self, text: &[u8]) -> Option<u32> {
        let used = (self.region.observe(word(NAMES_USED)) / 8).min(self.words as u64) as usize;
        let mut at = 0;
        while at < used {
            let length = length(self.region.observe(self.first + at));
            if length == text.len() && self.is_at(at, text) {
                return Some(at as u32 + 1);
            }
            at += match length & !UNFINISHED {
                len @ 1..=LONGEST_NAME => words(len),
                _ => 1,
            };
        }
        None
    }

    fn is_at(&self, at: usize, text: &[u8]) -> bool {
        at + words(text.len()) <= self.words
            && (0..words(text.len()))
                .all(|i| self.region.get(self.first + at + i) == encode(text, i))
    }

    /// Writes a text into its reserved words, and returns its number.
    fn add(&self, at: usize, text: &[u8]) -> u32 {
        // If writing stops after this, the length stays, so that later names can be found. Removing
        // only the mark at the end also works on 32-bit machines, which store a word in halves.
        let first = encode(text, 0);
        let mut bytes = first.to_ne_bytes();
        let marked = (text.len() | UNFINISHED) as u32;
        bytes[..4].copy_from_slice(&marked.to_ne_bytes());
        self.region
            .publish(self.first + at, u64::from_ne_bytes(bytes));
        for i in (1..words(text.len())).rev() {
            self.region.publish(self.first + at + i, encode(text, i));
        }
        self.region.publish(self.first + at, first);
        at as u32 + 1
    }

    /// Reserves words for a name. CPUs share the counter, so this is atomic among them if the
    /// machine has an atomic exchange.
    fn reserve(&self, count: usize) -> Option<usize> {
        loop {
            let used = self.region.get(word(NAMES_USED));
            let at = used as usize / 8;
            if at + count > self.words {
                return None;
            }
            let more = used + 8 * count as u64;
            if self.region.replace_shared(word(NAMES_USED), used, more) {
                return Some(at);
            }
        }
    }
}

/// Mark in the length of an entry whose text is incomplete.
const UNFINISHED: usize = 1 << 31;

/// Returns the number of words of an entry.
fn words(len: usize) -> usize {
    (4 + len).div_ceil(8)
}

/// Returns the length in the first word of an entry, with the mark.
fn length(word: u64) -> usize {
    let bytes = word.to_ne_bytes();
    u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize
}

/// Returns word number `i` of an entry.
fn encode(text: &[u8], i: usize) -> u64 {
    let mut bytes = [0; 8];
    let mut text = text.iter();
    let from = if i == 0 {
        bytes[..4].copy_from_slice(&(text.len() as u32).to_ne_bytes());
        4
    } else {
        text.nth(8 * i - 5);
        0
    };
    bytes[from..]
        .iter_mut()
        .zip(text)
        .for_each(|(to, byte)| *to = *byte);
    u64::from_ne_bytes(bytes)
}
