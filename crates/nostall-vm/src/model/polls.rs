//! Repeated polls of a waiting CPU, combined.
//!
//! A writer that waits for the transmitter reads the line status every microsecond. That is a
//! hundred million polls in a flood, and nearly all return the same value as the one before.
//! While no other event can happen, all polls take the same time, so any number of them is one
//! multiplication.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nostall_io::Nanos;

/// Marks that no poll is pending.
const NONE: u64 = u64::MAX;

/// Nanoseconds between two polls of one wait: a microsecond at first.
const PAUSES: RangeInclusive<u64> = 1..=20_000;

/// Reads of the line status in a row, with no other access between them.
#[derive(Debug)]
pub(super) struct Polls {
    /// End of the first read.
    first: AtomicU64,
    /// End of the last read.
    last: AtomicU64,
    /// Pause before the last read.
    pause: AtomicU64,
    /// Longest wait: after the first read, reads are evenly spaced for this long.
    bound: AtomicU64,
}

impl Polls {
    /// Creates the state before the first poll, without a declared even interval.
    pub(super) const fn new() -> Self {
        Self {
            first: AtomicU64::new(NONE),
            last: AtomicU64::new(NONE),
            pause: AtomicU64::new(NONE),
            bound: AtomicU64::new(0),
        }
    }

    /// Declares that a CPU that polls twice in a row continues at an even interval until the
    /// value changes, for at most `bound`.
    pub(super) fn are_even(&self, bound: Nanos) {
        self.bound.store(bound.0, Relaxed);
    }

    /// Ends the sequence, because another access was made.
    #[inline]
    pub(super) fn end(&self) {
        self.first.store(NONE, Relaxed);
    }

    /// Records a poll from `from` to `now`. In a sequence, returns the pause between two polls,
    /// and the time until which they continue.
    #[inline]
    pub(super) fn look(&self, from: Nanos, now: Nanos) -> Option<(Nanos, Nanos)> {
        let last = Nanos(self.last.load(Relaxed));
        self.last.store(now.0, Relaxed);
        let first = self.first.load(Relaxed);
        let pause = from - last;
        let before = self.pause.load(Relaxed);
        // A look at another distance is one of another CPU, such as a panic's, or of another write
        // to a port that is stuck.
        let is_poll = PAUSES.contains(&pause.0) && (before == NONE || before == pause.0);
        if first == NONE || !is_poll {
            self.first.store(now.0, Relaxed);
            self.pause.store(NONE, Relaxed);
            return None;
        }
        self.pause.store(pause.0, Relaxed);
        if before == NONE {
            return None;
        }
        let until = Nanos(first) + Nanos(self.bound.load(Relaxed));
        Some((pause, until))
    }

    /// Moves the end of the last poll to `now`, after skipped polls.
    pub(super) fn skipped_to(&self, now: Nanos) {
        self.last.store(now.0, Relaxed);
    }
}
