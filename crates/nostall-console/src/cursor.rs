//! Reading a ring: every record once, in order, and a count of those that are lost.

use crate::sequence::after;
use crate::slot::Look;
use crate::{Record, Ring};

/// Position of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The sequence of the record to be read next; 0: the first there ever was.
    pub next: u64,
    /// Records that were overwritten before they were read, or given up by
    /// [`skip`](Self::skip).
    ///
    /// Not more than it says are lost. Fewer are only where a producer stopped for a
    /// whole turn of the ring: then some of the sequences overwritten may never have
    /// had a record.
    pub lost: u64,
}

/// Result of reading the next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // There is nowhere else to put it.
pub enum Read {
    /// The next record.
    Record(Record),
    /// The next record was begun and is not complete: come back, or
    /// [`skip`](Cursor::skip) it, since its producer may never go on.
    Pending,
    /// There is nothing new.
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

    /// Gives up the next record, which is [pending](Read::Pending).
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

    /// Records that were begun and not read yet, those lost included.
    pub fn unread(&self, ring: &Ring) -> u64 {
        let newest = ring.newest() as usize;
        // In words of the machine, which sequences are counted in.
        let unread = newest.wrapping_add(1).wrapping_sub(self.at());
        // A cursor of the future, of another ring.
        if (unread as isize) < 0 && self.next != 0 {
            0
        } else {
            unread as u64
        }
    }

    /// Reads the next record, and never waits. After as many overwritten records as the ring has
    /// slots, it returns `Pending`.
    pub fn read(&mut self, ring: &Ring) -> Read {
        for _ in 0..=ring.slots() {
            let unread = self.unread(ring);
            if unread == 0 {
                return Read::Empty;
            }
            let overwritten = unread.saturating_sub(ring.slots() as u64);
            let sequence = self.at().wrapping_add(overwritten as usize).max(1);
            self.next = sequence as u64;
            self.lost = self.lost.saturating_add(overwritten);
            match ring.look(sequence) {
                Look::Complete(body) => {
                    self.step();
                    return Read::Record(Record::of(sequence as u64, &body));
                }
                Look::Overwritten => self.skip(),
                Look::Hole => self.step(),
                Look::Pending => return Read::Pending,
            }
        }
        Read::Pending
    }
}
