//! Position of a drain among the records of one priority and above.

use crate::kept::Kept;
use crate::line::LineState;
use crate::sequence::is_past;
use crate::sync::{AtomicUsize, Ordering};

/// Position of a drain. The owner changes it, one step per exchange, so that an owner that has lost
/// the sink cannot undo the next owner's steps.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Next sequence; 0 before the oldest record.
    pub(crate) next: AtomicUsize,
    /// Progress of the line of record `next`.
    pub(crate) line: AtomicUsize,
    /// Number of records lost before the record `gap_at`.
    pub(crate) gap: AtomicUsize,
    pub(crate) gap_at: AtomicUsize,
    /// Last record that stayed incomplete for too long. It may be complete by now.
    pub(crate) given_up: AtomicUsize,
    /// Text of a partly sent record.
    pub(crate) kept: Kept,
}

/// State of a lane, read for one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) next: usize,
    pub(crate) line: LineState,
}

impl Position {
    /// Continues with another record, skipping those before it.
    pub(crate) fn skip_to(&mut self, next: usize) {
        if next != self.next {
            self.next = next;
            self.line.break_off();
        }
    }
}

impl Lane {
    pub(crate) fn position(&self) -> Position {
        let next = self.next.load(Ordering::Acquire);
        let line = self.line.load(Ordering::Acquire);
        Position {
            next,
            line: LineState::unpack(line, next).unwrap_or_default(),
        }
    }

    /// Moves from `before` to `after`, unless another owner has moved it.
    pub(crate) fn advance(&self, before: Position, after: Position) {
        if before.next != after.next {
            let line = self.line.load(Ordering::Relaxed);
            if self
                .next
                .compare_exchange(before.next, after.next, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                return;
            }
            // An owner that comes between these two exchanges finds another record's line, and
            // starts this record again. So it repeats the bytes of this step. This exchange does
            // not undo that owner's store.
            let _ = self.line.compare_exchange(
                line,
                after.line.pack(after.next),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        } else if before.line != after.line {
            let stored = self.line.load(Ordering::Acquire);
            if LineState::unpack(stored, before.next).unwrap_or_default() == before.line {
                let _ = self.line.compare_exchange(
                    stored,
                    after.line.pack(after.next),
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
            }
        }
    }

    /// Returns whether `sequence`, a record of this lane, was already sent.
    pub(crate) fn has_sent(&self, sequence: usize) -> bool {
        is_past(self.position().next, sequence) && self.given_up.load(Ordering::Relaxed) != sequence
    }

    /// Returns the number of records lost before `sequence`.
    pub(crate) fn gap(&self, sequence: usize) -> u64 {
        if sequence != 0 && self.gap_at.load(Ordering::Acquire) == sequence {
            self.gap.load(Ordering::Relaxed) as u64
        } else {
            0
        }
    }

    pub(crate) fn set_gap(&self, sequence: usize, gap: u64) {
        self.gap_at.store(0, Ordering::Relaxed);
        self.gap.store(gap as usize, Ordering::Release);
        self.gap_at.store(sequence, Ordering::Release);
    }
}
