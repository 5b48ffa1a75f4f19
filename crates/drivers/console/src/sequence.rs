//! Sequences: words that number a ring's records from 1, and wrap.
//!
//! A sequence of 0 means "none": no record has it, and a position of 0 is before the first record.
//! The distance of two sequences determines the older one, if it is below half of a word's range.

/// Returns the next sequence, skipping 0.
#[inline]
pub(crate) const fn after(sequence: usize) -> usize {
    match sequence.wrapping_add(1) {
        0 => 1,
        next => next,
    }
}

/// Returns whether `one` is before `other`. Both wrap: sequences, or states of a slot.
#[inline]
pub(crate) const fn is_before(one: usize, other: usize) -> bool {
    (one.wrapping_sub(other) as isize) < 0
}

/// Returns whether a reader at `next` is past `sequence`. A reader at 0 is past none.
#[inline]
pub(crate) const fn is_past(next: usize, sequence: usize) -> bool {
    next != 0 && is_before(sequence, next)
}

/// Returns whether `next` is at most the newest record. 0 is, if there is a record.
#[inline]
pub(crate) const fn is_up_to(next: usize, newest: usize) -> bool {
    if next == 0 {
        newest != 0
    } else {
        !is_before(newest, next)
    }
}
