//! Text of a partly sent record.

use crate::layout::WORD;
use crate::render::{LINE_WORDS, LineBuffer, Shape};
use crate::sequence::is_before;
use crate::sync::{AtomicUsize, Ordering, fence};

/// State bit of an incomplete text. The other bits are the record's sequence.
const BUSY: usize = 1;

/// A record rendered as text. The record in the ring may be overwritten, and each record is
/// rendered once.
///
/// The owner of a sink writes it, and so may an owner that has lost the sink. So its state changes
/// as that of a slot, and a reader checks it twice.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) state: AtomicUsize,
    pub(crate) shape: AtomicUsize,
    pub(crate) words: [AtomicUsize; LINE_WORDS],
}

impl Kept {
    /// Keeps the text of a newer record. If the owner crashes in here, no text is kept any more,
    /// and the rest of a line may be lost.
    pub(crate) fn put(&self, sequence: usize, text: &[u8], shape: Shape) {
        let new = sequence << 1;
        let old = self.state.load(Ordering::Relaxed);
        let is_mine = old & BUSY == 0
            && is_before(old, new)
            && self
                .state
                .compare_exchange(old, new | BUSY, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !is_mine {
            return;
        }
        fence(Ordering::Release);
        self.shape.store(shape.pack(), Ordering::Relaxed);
        for (word, bytes) in self.words.iter().zip(text.chunks(WORD)) {
            let mut whole = [0; WORD];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(usize::from_ne_bytes(whole), Ordering::Relaxed);
        }
        self.state.store(new, Ordering::Release);
    }

    /// Returns the shape of this record's text, if it is kept.
    pub(crate) fn shape(&self, sequence: usize) -> Option<Shape> {
        if self.state.load(Ordering::Acquire) != sequence << 1 {
            return None;
        }
        let shape = self.shape.load(Ordering::Relaxed);
        self.still(sequence).then(|| Shape::unpack(shape))
    }

    /// Appends bytes `from` to `len` of the text, as far as there is room. Returns `false` if the
    /// text no longer belongs to this record.
    pub(crate) fn put_into(
        &self,
        window: &mut LineBuffer<'_>,
        sequence: usize,
        from: usize,
        end: usize,
    ) -> bool {
        let mut at = from;
        while at < end {
            let start = at % WORD;
            let stop = (start + end - at).min(WORD);
            let word = self.words.get(at / WORD);
            let word = word.map_or(0, |word| word.load(Ordering::Relaxed));
            window.put_word(word, start, stop);
            at += stop - start;
        }
        self.still(sequence)
    }

    fn still(&self, sequence: usize) -> bool {
        fence(Ordering::Acquire);
        self.state.load(Ordering::Relaxed) == sequence << 1
    }
}
