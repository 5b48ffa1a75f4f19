//! A pipe: a ring of blocks with one reader and one writer.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// Size of a block in bytes: `dd`'s default.
pub const BLOCK: usize = 512;

const WORDS: usize = BLOCK / size_of::<usize>();

/// Capacity of a pipe in blocks: 64 KiB, as in Linux.
const SLOTS: usize = (64 << 10) / BLOCK;

/// One block.
pub(super) type Block = [usize; WORDS];

/// A pipe for one reader and one writer. Its methods never wait.
pub struct Pipe {
    /// Total number of blocks written, changed only by the writer.
    put: AtomicUsize,
    /// Total number of blocks read, changed only by the reader.
    taken: AtomicUsize,
    /// Whether the reader, or the writer, sleeps until the other end has moved some blocks.
    pub(super) reader_sleeps: AtomicBool,
    pub(super) writer_sleeps: AtomicBool,
    slots: [[AtomicUsize; WORDS]; SLOTS],
}

impl Pipe {
    /// Creates an empty pipe.
    #[expect(clippy::new_without_default, reason = "64 KiB belong in a static")]
    pub const fn new() -> Self {
        Self {
            put: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            reader_sleeps: AtomicBool::new(false),
            writer_sleeps: AtomicBool::new(false),
            slots: [const { [const { AtomicUsize::new(0) }; WORDS] }; SLOTS],
        }
    }

    /// Returns the slot for the writer to fill; `None` while the pipe is full.
    pub(super) fn room(&self) -> Option<&[AtomicUsize; WORDS]> {
        let put = self.put.load(Ordering::Relaxed);
        let full = put.wrapping_sub(self.taken.load(Ordering::Acquire)) == SLOTS;
        (!full).then(|| &self.slots[put % SLOTS])
    }

    /// Passes the filled slot to the reader. Returns whether to wake the reader: it sleeps, and
    /// at least half of the pipe is full.
    pub(super) fn put(&self) -> bool {
        let put = self.put.load(Ordering::Relaxed).wrapping_add(1);
        self.put.store(put, Ordering::Release);
        // Either the sleeper sees the block before it sleeps, or this load sees that it sleeps.
        fence(Ordering::SeqCst);
        self.reader_sleeps.load(Ordering::Relaxed)
            && put.wrapping_sub(self.taken.load(Ordering::Relaxed)) >= SLOTS / 2
    }

    /// Returns the slot for the reader to empty; `None` while the pipe is empty.
    pub(super) fn next(&self) -> Option<&[AtomicUsize; WORDS]> {
        let taken = self.taken.load(Ordering::Relaxed);
        let empty = self.put.load(Ordering::Acquire) == taken;
        (!empty).then(|| &self.slots[taken % SLOTS])
    }

    /// Passes the emptied slot back to the writer. Returns whether to wake the writer: it sleeps,
    /// and at most half of the pipe is full.
    pub(super) fn take(&self) -> bool {
        let taken = self.taken.load(Ordering::Relaxed).wrapping_add(1);
        self.taken.store(taken, Ordering::Release);
        fence(Ordering::SeqCst);
        self.writer_sleeps.load(Ordering::Relaxed)
            && self.put.load(Ordering::Relaxed).wrapping_sub(taken) <= SLOTS / 2
    }

    /// Empties the pipe. No stage may use it meanwhile.
    pub(super) fn clear(&self) {
        self.put.store(0, Ordering::Relaxed);
        self.taken.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_woken_for_half_a_pipe() {
        let pipe = Pipe::new();
        pipe.reader_sleeps.store(true, Ordering::Relaxed);
        assert_eq!((0..SLOTS).position(|_| pipe.put()), Some(SLOTS / 2 - 1));
        for _ in SLOTS / 2..SLOTS {
            pipe.put();
        }
        pipe.writer_sleeps.store(true, Ordering::Relaxed);
        assert_eq!((0..SLOTS).position(|_| pipe.take()), Some(SLOTS / 2 - 1));
    }

    #[test]
    fn a_full_pipe_accepts_no_block_and_an_empty_one_returns_none() {
        let pipe = Pipe::new();
        for _ in 0..2 {
            assert!(pipe.next().is_none());
            for n in 0..SLOTS {
                pipe.room().unwrap()[0].store(n, Ordering::Relaxed);
                assert!(!pipe.put());
            }
            assert!(pipe.room().is_none());
            for n in 0..SLOTS {
                assert_eq!(pipe.next().unwrap()[0].load(Ordering::Relaxed), n);
                assert!(!pipe.take());
            }
        }
        pipe.put();
        pipe.clear();
        assert!(pipe.next().is_none());
    }
}
