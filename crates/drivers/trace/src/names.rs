//! Names area: the texts that records refer to.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::cells::{Cells, MemoryCells};
use crate::layout::{LONGEST_NAME, NAMES_USED};
use crate::writer::word;

/// Names area of a region.
pub(crate) struct Names<'m> {
    region: MemoryCells<'m>,
    first: usize,
    words: usize,
}

/// Recent results of searches. A search reads the whole area, and a stall's text is looked up each
/// time.
#[derive(Debug)]
pub(crate) struct Recent([AtomicU32; PLACES]);

/// Number of recent results. A text has two places.
const PLACES: usize = 128;

/// Mark of a text that found no room. The other bits are of its hash.
const NO_ROOM: u32 = 1 << 31;

impl Recent {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU32::new(0) }; PLACES])
    }

    /// Returns the places of a text, and the mark that it found no room.
    fn places(&self, text: &[u8]) -> ([&AtomicU32; 2], u32) {
        // FNV-1a.
        let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        let hash = text.iter().fold(0x811c_9dc5, step);
        let at = hash as usize % PLACES;
        ([&self.0[at], &self.0[at ^ 1]], hash >> 1 | NO_ROOM)
    }

    /// Stores a result, and keeps the previous one of its place.
    fn keep(&self, text: &[u8], result: u32) {
        let ([first, second], _) = self.places(text);
        second.store(first.load(Ordering::Relaxed), Ordering::Relaxed);
        first.store(result, Ordering::Relaxed);
    }
}

impl<'m> Names<'m> {
    pub(crate) fn new(region: MemoryCells<'m>, first: usize, words: usize) -> Self {
        Self {
            region,
            first,
            words,
        }
    }

    /// Returns the number of `text`, and adds it if it is new; 0 if there is no room. Only the first
    /// use of a text searches the area, and one that is no longer among the recent ones.
    ///
    /// A text that two CPUs, or a handler and the interrupted code, add at the same time gets two
    /// numbers. `uninterrupted` runs its argument, with interrupts masked on machines without 64-bit
    /// atomics.
    pub(crate) fn number(
        &self,
        text: &str,
        recent: &Recent,
        uninterrupted: impl FnOnce(&dyn Fn() -> Option<usize>) -> Option<usize>,
    ) -> u32 {
        let text = &text.as_bytes()[..text.floor_char_boundary(LONGEST_NAME)];
        if text.is_empty() {
            return 0;
        }
        let count = words(text.len());
        let (places, no_room) = recent.places(text);
        for place in places {
            match place.load(Ordering::Relaxed) {
                0 => {}
                result if result == no_room && !self.has_room(count) => return 0,
                result if result & NO_ROOM != 0 => {}
                number if self.is_at(number as usize - 1, text) => return number,
                _ => {}
            }
        }
        let number =
            self.find(text)
                .unwrap_or_else(|| match uninterrupted(&|| self.reserve(count)) {
                    Some(at) => self.add(at, text),
                    None => 0,
                });
        recent.keep(text, if number == 0 { no_room } else { number });
        number
    }

    fn has_room(&self, count: usize) -> bool {
        let used = self.region.observe(word(NAMES_USED)) / 8;
        used as usize + count <= self.words
    }

    /// Finds a text. Incomplete entries are skipped: their words are zeros, or the length in the
    /// first one has the mark [`UNFINISHED`].
    fn find(&self, text: &[u8]) -> Option<u32> {
        #[cfg(test)]
        tests::SEARCHES.set(tests::SEARCHES.get() + 1);
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

    /// Returns whether the text is at this word.
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

#[cfg(test)]
mod tests {
    extern crate std;
    use core::cell::Cell;
    use core::ptr::NonNull;
    use std::format;
    use std::vec::Vec;

    use super::*;

    std::thread_local! {
        pub(super) static SEARCHES: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn a_text_is_searched_for_once_also_in_a_full_area() {
        let mut memory = [0_u64; 256];
        let base = NonNull::from(&mut memory).cast();
        // SAFETY: the memory is aligned, and outlives the cells.
        let cells = unsafe { MemoryCells::new(base) };
        let names = Names::new(cells, 64, 100);
        let recent = Recent::new();
        let texts: Vec<_> = (0..40).map(|n| format!("a text of stall {n}")).collect();
        let number = |text: &str| names.number(text, &recent, |reserve| reserve());
        let first: Vec<_> = texts.iter().map(|text| number(text)).collect();
        assert!(first[..30].iter().all(|number| *number != 0) && first[39] == 0);
        // These are the last results of their places.
        for text in [&texts[0], &texts[39], &texts[20]] {
            let before = (number(text), SEARCHES.get());
            for _ in 0..5 {
                assert_eq!((number(text), SEARCHES.get()), before);
            }
        }
        assert!(
            texts
                .iter()
                .zip(first)
                .all(|(text, first)| number(text) == first)
        );
        // Another region has other texts at the same numbers, and room.
        memory.fill(0);
        // SAFETY: as above.
        let names = Names::new(unsafe { MemoryCells::new(base) }, 64, 100);
        let number = |text: &str| names.number(text, &recent, |reserve| reserve());
        assert!(number(&texts[39]) != 0 && number(&texts[0]) != number(&texts[39]));
    }
}
