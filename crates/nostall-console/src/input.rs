//! Bytes that came in, until a reader takes them.

use crate::sync::{AtomicU8, AtomicUsize, Ordering};

/// A ring of `N` bytes, a power of two. The port's owner stores bytes, any number of readers
/// take them.
#[derive(Debug)]
pub(crate) struct Input<const N: usize> {
    pub(crate) bytes: [AtomicU8; N],
    /// Number of bytes stored, and of those taken, since the start. Both wrap.
    pub(crate) stored: AtomicUsize,
    pub(crate) taken: AtomicUsize,
    /// Number of bytes that found no room.
    pub(crate) lost: AtomicUsize,
    /// Nonzero if bytes came in that no reader was woken for.
    pub(crate) news: AtomicUsize,
}

impl<const N: usize> Input<N> {
    /// Stores a byte, or counts it as lost. The caller owns the port.
    pub(crate) fn put(&self, byte: u8) {
        let stored = self.stored.load(Ordering::Relaxed);
        // A reader that took a byte has read it before.
        if stored.wrapping_sub(self.taken.load(Ordering::Acquire)) >= N {
            self.lost.fetch_add(1, Ordering::Relaxed);
        } else {
            self.bytes[stored % N].store(byte, Ordering::Relaxed);
            self.stored.store(stored.wrapping_add(1), Ordering::Release);
        }
        self.news.store(1, Ordering::Release);
    }

    /// Takes the oldest byte.
    pub(crate) fn take(&self) -> Option<u8> {
        // Acquired, so that the number stored is not an older one.
        let mut taken = self.taken.load(Ordering::Acquire);
        // Each failure is another reader's success: there are fewer than bytes come in.
        for _ in 0..=N {
            if taken == self.stored.load(Ordering::Acquire) {
                return None;
            }
            let byte = self.bytes[taken % N].load(Ordering::Relaxed);
            match self.taken.compare_exchange(
                taken,
                taken.wrapping_add(1),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(byte),
                Err(actual) => taken = actual,
            }
        }
        None
    }

    /// Returns whether bytes came in since the last call.
    pub(crate) fn take_news(&self) -> bool {
        self.news.load(Ordering::Relaxed) != 0 && self.news.swap(0, Ordering::Acquire) != 0
    }
}
