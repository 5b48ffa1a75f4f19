//! Reading of a ring: every record once, in order, and a count of lost ones.

use core::task::Poll;

use crate::sequence::after;
use crate::{Record, Ring};

/// Position of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Sequence of the record to read next; 0 for the oldest.
    pub next: u64,
    /// Number of records that were overwritten before they were read, or given up with
    /// [`skip`](Self::skip).
    ///
    /// It may be too high, never too low. If a producer stopped for a whole turn of the ring, some
    /// overwritten sequences may never have had a record.
    pub lost: u64,
}

/// Result of reading the next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // Without an allocator, there is no box.
pub enum Read {
    /// The next record.
    Record(Record),
    /// The next record is incomplete. Try again later, or [`skip`](Cursor::skip) it, because its
    /// producer may have crashed.
    Pending,
    /// No new record.
    Empty,
}

impl Cursor {
    /// Position before the first record.
    pub const START: Self = Self { next: 0, lost: 0 };

    /// Returns the position after the newest record.
    pub fn end(ring: &Ring) -> Self {
        Self {
            next: after(ring.newest() as usize) as u64,
            lost: 0,
        }
    }

    /// Skips the next record, which is [pending](Read::Pending), and counts it as lost.
    pub fn skip(&mut self) {
        self.step();
        self.lost = self.lost.saturating_add(1);
    }

    fn step(&mut self) {
        self.next = after(self.at()) as u64;
    }

    fn at(&self) -> usize {
        (self.next as usize).max(1)
    }

    /// Returns the number of unread records, including lost ones.
    pub fn unread(&self, ring: &Ring) -> u64 {
        let newest = ring.newest() as usize;
        // Computed in machine words, because sequences wrap with these.
        let unread = newest.wrapping_add(1).wrapping_sub(self.at());
        // This cursor is ahead of the ring, so it belongs to another ring.
        if (unread as isize) < 0 && self.next != 0 {
            0
        } else {
            unread as u64
        }
    }

    /// Reads the next record. Never waits. Returns `Pending` after it has skipped as many
    /// overwritten records as the ring has slots.
    pub fn read(&mut self, ring: &Ring) -> Read {
        let mut record = Record::EMPTY;
        match self.read_into(ring, &mut record) {
            Poll::Ready(true) => {
                record.clear_rest();
                Read::Record(record)
            }
            Poll::Ready(false) => Read::Empty,
            Poll::Pending => Read::Pending,
        }
    }

    /// Reads the next record into `record`, whose content counts only after `Ready(true)`.
    #[inline(always)]
    pub(crate) fn read_into(&mut self, ring: &Ring, record: &mut Record) -> Poll<bool> {
        for _ in 0..ring.slots() + 1 {
            let unread = self.unread(ring);
            if unread == 0 {
                return Poll::Ready(false);
            }
            let overwritten = unread.saturating_sub(ring.slots() as u64);
            let sequence = self.at().wrapping_add(overwritten as usize).max(1);
            self.next = sequence as u64;
            self.lost = self.lost.saturating_add(overwritten);
            match ring.slot(sequence).read(sequence, record) {
                Poll::Ready(true) => {
                    self.step();
                    return Poll::Ready(true);
                }
                Poll::Ready(false) => self.skip(),
                Poll::Pending if ring.is_hole(sequence) => self.step(),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Pending
    }
}
