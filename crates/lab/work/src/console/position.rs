//! Progress of a console that prints all records in order.

use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};

use heapless::String;
use nostall_console::{Cursor, Read, Ring};

/// Size of a line buffer in bytes: more than any record needs.
const LONGEST_LINE: usize = 1_100;

/// A printed record, preceded by a line with the number of lost records.
pub(super) type Line = String<LONGEST_LINE>;

/// Position of the next record to print. The port's owner changes it, or in a panic the panicking
/// CPU. A lock would stay with a stopped owner.
#[derive(Debug)]
pub(super) struct Position {
    next: AtomicU64,
    lost: AtomicU64,
}

impl Position {
    /// Creates the position before the first record.
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

    /// Returns the next record as a line, and the position behind it. With `replay`, the record
    /// starts a line, even if it continues the previous one.
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

    /// Prints all records in a panic, in order. `print` prints until the next record is incomplete.
    pub(super) fn print_in_panic(&self, ring: &Ring, mut print: impl FnMut()) {
        loop {
            print();
            // A stopped CPU may have left an incomplete record.
            if !self.skip_pending(ring) {
                break;
            }
        }
    }

    /// Skips the next record if its producer was stopped during the write. Returns whether it did.
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

    /// Returns the number of records that were overwritten before they were printed.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
