//! Skips the repeated polls of a waiting CPU.
//!
//! A writer that waits for the transmitter reads the line status every microsecond. A flood takes a
//! hundred million polls, and nearly all return the same value as the previous one. Until the next
//! event all polls take the same time, so that one multiplication replaces any number of them.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nostall_io::Nanos;

/// Marks that no poll is pending.
const NONE: u64 = u64::MAX;

/// Range of pauses between two polls of one wait, in nanoseconds. The first pause is a microsecond.
const PAUSES: RangeInclusive<u64> = 1..=20_000;

/// A sequence of line status reads without other accesses between them.
#[derive(Debug)]
pub(super) struct Polls {
    /// End of the first read.
    first: AtomicU64,
    /// End of the last read.
    last: AtomicU64,
    /// Pause before the last read.
    pause: AtomicU64,
    /// Longest wait: the reads are evenly spaced for this long after the first.
    bound: AtomicU64,
}

impl Polls {
    /// Creates the state before the first poll; no even interval is declared.
    pub(super) const fn new() -> Self {
        Self {
            first: AtomicU64::new(NONE),
            last: AtomicU64::new(NONE),
            pause: AtomicU64::new(NONE),
            bound: AtomicU64::new(0),
        }
    }

    /// Declares an even interval. A CPU that polls twice in a row continues at the same interval
    /// until the value changes, for at most `bound`.
    pub(super) fn are_even(&self, bound: Nanos) {
        self.bound.store(bound.0, Relaxed);
    }

    /// Ends the sequence because of another access.
    #[inline]
    pub(super) fn end(&self) {
        self.first.store(NONE, Relaxed);
    }

    /// Records a poll from `from` to `now`. Within a sequence, returns the pause between polls and
    /// the end time of the sequence.
    #[inline]
    pub(super) fn look(&self, from: Nanos, now: Nanos) -> Option<(Nanos, Nanos)> {
        let last = Nanos(self.last.load(Relaxed));
        self.last.store(now.0, Relaxed);
        let first = self.first.load(Relaxed);
        let pause = from - last;
        let before = self.pause.load(Relaxed);
        // A read at another interval starts a new sequence. It belongs to another CPU, such as a
        // panicking one, or to another write to a stuck port.
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

    /// Sets the end of the last poll to `now`, after skipped polls.
    pub(super) fn skipped_to(&self, now: Nanos) {
        self.last.store(now.0, Relaxed);
    }
}
