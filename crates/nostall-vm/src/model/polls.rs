//! Looks of a CPU that waits, taken together.
//!
//! A writer that waits for the transmitter reads the line status every microsecond: that
//! is a hundred million looks in a flood, and all but a few show what the one before
//! did. As long as nothing can come between, they are all alike, and so many of them
//! take as many times as long as one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nostall_io::Nanos;

/// No look has been in a row.
const NONE: u64 = u64::MAX;

/// Reads of the line status in a row, with no other access between them.
#[derive(Debug)]
pub(super) struct Polls {
    /// The end of the first one.
    first: AtomicU64,
    /// The end of the last one.
    last: AtomicU64,
    /// For so long after the first one they come evenly: the wait's bound.
    bound: AtomicU64,
}

impl Polls {
    /// Before the first; of nobody of whom it is known that he looks evenly.
    pub(super) const fn new() -> Self {
        Self {
            first: AtomicU64::new(NONE),
            last: AtomicU64::new(NONE),
            bound: AtomicU64::new(0),
        }
    }

    /// From here on whoever looks twice in a row goes on evenly until what he sees has
    /// changed, or for so long.
    pub(super) fn are_even(&self, bound: Nanos) {
        self.bound.store(bound.0, Relaxed);
    }

    /// Another access comes between.
    #[inline]
    pub(super) fn end(&self) {
        self.first.store(NONE, Relaxed);
    }

    /// A look that was begun at `from` and over at `now`. If others follow: how long
    /// each of their pauses is, and until when they come.
    #[inline]
    pub(super) fn look(&self, from: Nanos, now: Nanos) -> Option<(Nanos, Nanos)> {
        let last = Nanos(self.last.load(Relaxed));
        self.last.store(now.0, Relaxed);
        let first = self.first.load(Relaxed);
        if first == NONE {
            self.first.store(now.0, Relaxed);
            return None;
        }
        let until = Nanos(first) + Nanos(self.bound.load(Relaxed));
        Some((from - last, until))
    }

    /// The last one was at `now`.
    pub(super) fn skipped_to(&self, now: Nanos) {
        self.last.store(now.0, Relaxed);
    }
}
