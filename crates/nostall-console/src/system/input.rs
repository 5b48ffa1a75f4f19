//! Bytes that came in, until a reader takes them.

use crate::sync::{AtomicUsize, Ordering};

/// Bytes that wait for a reader, at most.
const ROOM: usize = 256;

/// A ring of bytes. Only the port's owner stores bytes; any number of readers take them.
#[derive(Debug)]
pub(crate) struct Input {
    bytes: [AtomicUsize; ROOM / size_of::<usize>()],
    /// Number of bytes stored, and of those taken, since the start.
    stored: AtomicUsize,
    taken: AtomicUsize,
}

impl Input {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [const { AtomicUsize::new(0) }; _],
            stored: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
        }
    }

    /// Takes the oldest byte.
    pub(crate) fn take(&self) -> Option<u8> {
        // Each failure is another reader's success, so there are at most as many as bytes.
        for _ in 0..=ROOM {
            let taken = self.taken.load(Ordering::Relaxed);
            if taken == self.stored.load(Ordering::Acquire) {
                return None;
            }
            let at = taken % ROOM;
            let word = self.bytes[at / size_of::<usize>()].load(Ordering::Relaxed);
            let byte = word.to_ne_bytes()[at % size_of::<usize>()];
            let next = taken.wrapping_add(1);
            if self
                .taken
                .compare_exchange(taken, next, Ordering::Release, Ordering::Relaxed)
                .is_ok()
            {
                return Some(byte);
            }
        }
        None
    }
}
