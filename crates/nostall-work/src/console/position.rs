//! Progress of a console that prints all records in order.

use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};

use heapless::String;
use nostall_console::{Cursor, Read, Ring};

/// Size of a line buffer: more than any record needs.
const LONGEST_LINE: usize = 1_100;

/// A record as it is printed, after a line with the number of records lost before it.
pub(super) type Line = String<LONGEST_LINE>;

/// Position of the next record to print. The port's owner changes it; in a panic, the panicking
/// CPU does. A lock would stay with a stopped owner.
#[derive(Debug)]
pub(super) struct Position {
    next: AtomicU64,
    lost: AtomicU64,
}

impl Position {
    /// The position before the first record.
    pub(super) const fn start() -> Self {
        Self {
            next: AtomicU64::new(Cursor::START.next),
            lost: AtomicU64::new(Cursor::START.lost),
        }
    }

    pub(super) fn cursor(&self) -> Cursor {
        Cursor {
            next: self.next.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        }
    }

    pub(super) fn set(&self, cursor: Cursor) {
        self.lost.store(cursor.lost, Ordering::Relaxed);
        self.next.store(cursor.next, Ordering::Relaxed);
    }

    /// Returns the next record as a line, and the position behind it. With `replay` the line
    /// stands alone, even if the record continues the one before.
    pub(super) fn line(&self, ring: &Ring, replay: bool) -> Option<(Line, Cursor)> {
        let mut cursor = self.cursor();
        let lost_before = cursor.lost;
        let Read::Record(mut record) = cursor.read(ring) else {
            return None;
        };
        record.adjoins &= !replay;
        let lost = cursor.lost - lost_before;
        let mut line = Line::new();
        // The buffer is large enough.
        if lost > 0 {
            let _ = writeln!(line, "[{lost} records lost]");
        }
        let _ = write!(line, "{record}");
        Some((line, cursor))
    }

    /// Prints all records in a panic, in order: `print` does until the next one is incomplete.
    pub(super) fn print_in_panic(&self, ring: &Ring, mut print: impl FnMut()) {
        loop {
            print();
            // A stopped CPU may be in the middle of a write, which never completes.
            if !self.skip_pending(ring) {
                break;
            }
        }
    }

    /// Gives up the next record, whose producer was stopped in mid-write. Returns whether there
    /// was one.
    fn skip_pending(&self, ring: &Ring) -> bool {
        let mut cursor = self.cursor();
        let is_pending = cursor.unread(ring) > 0;
        if is_pending {
            cursor.skip();
            self.set(cursor);
        }
        is_pending
    }

    pub(super) fn is_at_end(&self, ring: &Ring) -> bool {
        self.cursor().unread(ring) == 0
    }

    /// Records that were overwritten before they were printed.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
