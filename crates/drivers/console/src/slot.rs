//! Memory of one record, which may be overwritten while it is read.

use core::task::Poll;

use crate::layout::{BODY_WORDS, FLAGS_AT, WORD};
use crate::record::Encoded;
use crate::sequence::is_before;
use crate::sync::{AtomicUsize, Ordering, fence};
use crate::{Priority, Record};

/// State bit of an incomplete record. The other bits are the sequence.
const BUSY: usize = 1;

/// Number of attempts to change a slot's state. An attempt fails if another producer of the same
/// slot has changed it.
const CLAIMS: usize = 4;

/// Memory of one record.
///
/// An exchange changes its state from a complete record to a newer, incomplete one. A store by the
/// producer then completes it. So a slot has one writer at a time, and a writer that stops blocks
/// only this slot.
#[derive(Debug)]
#[repr(C)]
pub struct Slot {
    pub(crate) state: AtomicUsize,
    pub(crate) body: [AtomicUsize; BODY_WORDS],
}

impl Slot {
    /// Writes record `sequence`. Returns `false` if the slot is occupied.
    #[inline(always)]
    pub(crate) fn put(&self, sequence: usize, record: &Encoded<'_>) -> bool {
        let new = sequence << 1;
        if sequence == 0 || !self.claim(new) {
            return false;
        }
        fence(Ordering::Release);
        record.store(&self.body);
        self.state.store(new, Ordering::Release);
        true
    }

    /// Marks the slot as being written, if it holds an older, complete record.
    #[inline(always)]
    fn claim(&self, new: usize) -> bool {
        let mut old = self.state.load(Ordering::Relaxed);
        for _ in 0..CLAIMS {
            if old & BUSY != 0 || !is_before(old, new) {
                return false;
            }
            match self
                .state
                .compare_exchange(old, new | BUSY, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(actual) => old = actual,
            }
        }
        false
    }

    /// Returns whether the slot holds an older record. If its producer has crashed, this stays so.
    pub(crate) fn is_behind(&self, sequence: usize) -> bool {
        is_before(self.state.load(Ordering::Relaxed) & !BUSY, sequence << 1)
    }

    /// Returns the priority of record `sequence`, if it is complete.
    pub(crate) fn priority(&self, sequence: usize) -> Option<Priority> {
        let wanted = sequence << 1;
        if self.state.load(Ordering::Acquire) != wanted {
            return None;
        }
        let word = self.body[FLAGS_AT / WORD].load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_same = self.state.load(Ordering::Relaxed) == wanted;
        is_same.then(|| Priority::from_number(word.to_ne_bytes()[FLAGS_AT % WORD]))
    }

    /// Reads record `sequence`: pending while it is incomplete, `false` if it is overwritten.
    #[inline(always)]
    pub(crate) fn read(&self, sequence: usize, record: &mut Record) -> Poll<bool> {
        let wanted = sequence << 1;
        let before = self.state.load(Ordering::Acquire);
        if before != wanted {
            return if before & !BUSY != wanted && is_before(wanted, before) {
                Poll::Ready(false)
            } else {
                Poll::Pending
            };
        }
        record.load(sequence, &self.body);
        fence(Ordering::Acquire);
        Poll::Ready(self.state.load(Ordering::Relaxed) == wanted)
    }
}
