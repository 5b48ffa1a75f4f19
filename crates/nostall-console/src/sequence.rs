//! Sequences: words that number a ring's records from 1, and wrap.
//!
//! 0 is none: no record has it, so a place that is 0 is one before the first. Of two, the
//! older one is known by their distance, as long as that is less than half of what a word
//! counts.

/// The one after.
#[inline]
pub(crate) const fn after(sequence: usize) -> usize {
    match sequence.wrapping_add(1) {
        0 => 1,
        next => next,
    }
}

/// Compares two words that wrap: sequences, or states of a slot.
#[inline]
pub(crate) const fn is_before(one: usize, other: usize) -> bool {
    (one.wrapping_sub(other) as isize) < 0
}

/// Returns whether a reader at `next` is past `sequence`. A reader at 0 is past none.
#[inline]
pub(crate) const fn is_past(next: usize, sequence: usize) -> bool {
    next != 0 && is_before(sequence, next)
}

/// Returns whether `next` is the newest record or before it; 0 is, if there is a record.
#[inline]
pub(crate) const fn is_up_to(next: usize, newest: usize) -> bool {
    if next == 0 {
        newest != 0
    } else {
        !is_before(newest, next)
    }
}
