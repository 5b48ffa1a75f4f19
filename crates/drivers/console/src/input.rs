//! Received bytes that wait for a reader.

use crate::sync::{AtomicU8, AtomicUsize, Ordering};

/// A ring of `N` bytes, where `N` is a power of two. The port's owner stores bytes, and any number
/// of readers take them.
#[derive(Debug)]
pub(crate) struct Input<const N: usize> {
    pub(crate) bytes: [AtomicU8; N],
    /// Numbers of bytes stored and taken since the start. Both wrap.
    pub(crate) stored: AtomicUsize,
    pub(crate) taken: AtomicUsize,
    /// Number of bytes that found no room.
    pub(crate) lost: AtomicUsize,
    /// Nonzero if bytes were received for which no reader was woken.
    pub(crate) news: AtomicUsize,
}

impl<const N: usize> Input<N> {
    /// Stores a byte, or counts it as lost. The caller owns the port.
    pub(crate) fn put(&self, byte: u8) {
        let stored = self.stored.load(Ordering::Relaxed);
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
        let mut taken = self.taken.load(Ordering::Acquire);
        // Each failure is another reader's success, so the number of failures is bounded by the
        // received bytes.
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

    /// Returns whether a byte waits for a reader.
    pub(crate) fn has_bytes(&self) -> bool {
        self.taken.load(Ordering::Relaxed) != self.stored.load(Ordering::Acquire)
    }

    /// Returns whether bytes were received since the last call.
    pub(crate) fn take_news(&self) -> bool {
        self.news.load(Ordering::Relaxed) != 0 && self.news.swap(0, Ordering::Acquire) != 0
    }
}
