//! Selection of the records that a drain sends next, and their lanes.

use core::task::Poll;

use nostall_io::Nanos;

use crate::lane::{Lane, Position};
use crate::sequence::{after, is_before, is_past};
use crate::sync::{AtomicUsize, Ordering};
use crate::{Cursor, Priority, Record, Ring};

/// Largest number of records that one slice skips or finds incomplete.
pub(crate) const MOST_SKIPPED: usize = 256;

/// Parameters of a slice's or a flush's search for the next record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    pub(crate) now: Nanos,
    /// Time limit of an incomplete record.
    pub(crate) patience: Nanos,
    /// Number of records that the search may still skip or find incomplete.
    pub(crate) left: usize,
    /// The sink is offered bytes before its ready time, because the clock has stopped.
    pub(crate) insist: bool,
    /// Records of all levels are sent, as in a panic.
    pub(crate) all_levels: bool,
    /// A sink that is ready at once takes up to this number of bytes until this time, and at least
    /// one load.
    pub(crate) bytes: usize,
    pub(crate) until: Nanos,
}

/// Reason for which no record was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The next record is incomplete.
    Pending,
    /// The search limit was reached without a record to send.
    Scanned,
    /// No record is left.
    Empty,
    /// The sink has another owner.
    Over,
}

/// Position of a sink in a ring, and the selection of its records.
#[derive(Debug)]
pub(crate) struct Feed<'r> {
    pub(crate) ring: &'r Ring,
    /// Least important level of normal records that are sent.
    pub(crate) level: AtomicUsize,
    /// Lanes by priority: each sends the records of its own priority and above.
    pub(crate) lanes: [Lane; 3],
    /// Newest record at the time of the first wait for an incomplete one; and that time in
    /// microseconds.
    pub(crate) pending: [AtomicUsize; 2],
    pub(crate) lost: AtomicUsize,
}

impl Feed<'_> {
    /// Moves `at` to the next record to send. Counts the lost records before it, and reports them
    /// with it. If `later`, the record is not the first of an offer. Lost records then end the
    /// search, because the record after them starts a new offer. Stores the record in `record`.
    pub(crate) fn fetch(
        &self,
        priority: Priority,
        at: &mut Position,
        later: bool,
        search: &mut Search,
        record: &mut Record,
    ) -> Result<(), Stop> {
        loop {
            if priority > Priority::Normal && !at.line.is_begun() {
                self.move_to(priority, at, self.ring.pass_by(at.next, priority));
            }
            if !self.ring.has(at.next, priority) {
                return Err(Stop::Empty);
            }
            if search.left == 0 {
                return Err(Stop::Scanned);
            }
            let mut cursor = Cursor {
                next: at.next as u64,
                lost: 0,
            };
            let read = cursor.read_into(self.ring, record);
            if cursor.lost > 0 {
                if later {
                    return Err(Stop::Scanned);
                }
                let next = match read {
                    Poll::Ready(true) => record.sequence,
                    _ => cursor.next,
                };
                self.lose(priority, at, cursor.lost, next as usize);
            }
            match read {
                Poll::Ready(true) => {
                    self.move_to(priority, at, record.sequence as usize);
                    if at.line.is_begun() || self.wants(priority, record, search.all_levels) {
                        return Ok(());
                    }
                    self.move_to(priority, at, after(at.next));
                    search.left -= 1;
                }
                Poll::Pending => {
                    // Skips sequences without a record.
                    self.move_to(priority, at, cursor.next as usize);
                    if later || !self.gives_up(at.next, search) {
                        return Err(Stop::Pending);
                    }
                    self.note_given_up(priority, at.next);
                    self.lose(priority, at, 1, after(at.next));
                    search.left -= 1;
                }
                Poll::Ready(false) => {
                    // Without this step, the drain would return for sequences without a record.
                    self.move_to(priority, at, cursor.next as usize);
                    return Err(Stop::Empty);
                }
            }
        }
    }

    /// Returns the position at which a lane continues: not before the records that less urgent
    /// lanes have sent.
    pub(crate) fn start(&self, priority: Priority, stored: Position) -> Position {
        let mut at = stored;
        for lane in &self.lanes[..priority as usize] {
            let lower = lane.position();
            let next = if lower.line.is_begun() {
                after(lower.next)
            } else {
                lower.next
            };
            if !at.line.is_begun() && (at.next == 0 || is_past(next, at.next)) {
                at.skip_to(next);
            }
        }
        at
    }

    /// Returns whether no record of this priority or above was ever logged.
    pub(crate) fn is_unused(&self, priority: Priority) -> bool {
        let lane = &self.lanes[priority as usize];
        // A lane in use moves on with the others.
        lane.next.load(Ordering::Relaxed) == 0 && !self.ring.has(0, priority)
    }

    /// Returns whether a record of this priority or above is left.
    pub(crate) fn has_more(&self, least: Priority) -> bool {
        Priority::ALL
            .into_iter()
            .filter(|&priority| priority >= least)
            .filter(|&priority| priority == Priority::Normal || !self.is_unused(priority))
            .any(|priority| {
                let lane = &self.lanes[priority as usize];
                let at = self.start(priority, lane.position());
                at.line.is_begun() || self.ring.has(at.next, priority)
            })
    }

    /// Returns whether the record passes the level and was not sent earlier.
    fn wants(&self, priority: Priority, record: &Record, all_levels: bool) -> bool {
        let sequence = record.sequence as usize;
        let urgent = record.priority as usize;
        record.priority >= priority
            && (all_levels
                || record.raw
                || record.priority > Priority::Normal
                || record.level as usize <= self.level.load(Ordering::Relaxed))
            && !self.lanes[priority as usize + 1..=urgent]
                .iter()
                .any(|lane| lane.has_sent(sequence))
    }

    /// Moves to `next`, and carries the number of lost records along.
    fn move_to(&self, priority: Priority, at: &mut Position, next: usize) {
        let lane = &self.lanes[priority as usize];
        let gap = lane.gap(at.next);
        if gap > 0 && next != at.next {
            lane.set_gap(next, gap);
        }
        at.skip_to(next);
    }

    /// Counts `lost` records before `next`, and moves to it.
    fn lose(&self, priority: Priority, at: &mut Position, lost: u64, next: usize) {
        if at.line.is_begun() {
            at.line.lose(priority as usize);
        }
        // Records that an urgent lane passes by are counted by the normal lane.
        if priority == Priority::Normal {
            let lane = &self.lanes[priority as usize];
            lane.set_gap(next, lane.gap(at.next) + lost);
            self.lost.fetch_add(lost as usize, Ordering::Relaxed);
        }
        at.skip_to(next);
    }

    /// Skips all but the `most` newest unread normal records, and counts the others as lost. Urgent
    /// records do not count: they are already sent.
    pub(crate) fn leave_out_all_but(&self, most: usize) {
        let lane = &self.lanes[Priority::Normal as usize];
        let stored = lane.position();
        let cursor = Cursor {
            next: stored.next as u64,
            lost: 0,
        };
        let unread = cursor.unread(self.ring) as usize;
        let first = stored.next.max(1);
        let mut kept = 0;
        let mut left_out = unread;
        while left_out > 0 && kept < most && unread - left_out < self.ring.slots() {
            left_out -= 1;
            kept += usize::from(self.ring.is_normal(first.wrapping_add(left_out)));
        }
        if left_out > 0 {
            let mut at = stored;
            let next = first.wrapping_add(left_out).max(1);
            self.lose(Priority::Normal, &mut at, left_out as u64, next);
            lane.advance(stored, at);
        }
    }

    /// Remembers an incomplete urgent record. If it is completed later, it is sent with the
    /// backlog. An older remembered one counts as lost, unless it has been sent.
    fn note_given_up(&self, priority: Priority, sequence: usize) {
        let [backlog, urgent @ ..] = &self.lanes;
        if priority == Priority::Normal {
            return;
        }
        let before = urgent[priority as usize - 1]
            .given_up
            .swap(sequence, Ordering::Relaxed);
        if before != 0 && !is_past(backlog.position().next, before) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns whether record `next` has been incomplete for too long. Records that were begun
    /// before the first wait share its deadline.
    fn gives_up(&self, next: usize, search: &Search) -> bool {
        let [newest, since] = &self.pending;
        let now = (search.now.0 / 1_000) as usize;
        let waited = now.wrapping_sub(since.load(Ordering::Relaxed)) as isize;
        let waited_for = newest.load(Ordering::Relaxed);
        let is_new = waited_for == 0 || is_before(waited_for, next);
        // The clock of another CPU may be ahead of this one's.
        if is_new || waited < 0 {
            newest.store((self.ring.newest() as usize).max(1), Ordering::Relaxed);
            since.store(now, Ordering::Relaxed);
            return search.patience == Nanos::ZERO;
        }
        waited as u64 >= search.patience.0 / 1_000
    }

    /// Returns the number of records not sent yet, including lost ones.
    pub(crate) fn unread(&self) -> u64 {
        let next = self.lanes[0].position().next as u64;
        Cursor { next, lost: 0 }.unread(self.ring)
    }
}
