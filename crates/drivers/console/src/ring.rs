//! Log ring: any number of producers, none of which waits.

use core::fmt;

use crate::layout::{
    CONSTANT_BYTES, HOLES, LONGEST_PAYLOAD, LONGEST_RUN, LONGEST_TARGET, ORDER_AT, ORDER_MARK,
    PAYLOAD, RECIPROCAL_AT, SIGNATURE, SINKS, SLOT_BYTES, SLOTS_AT, VERSION, WORD,
};
use crate::pieces::Pieces;
use crate::record::{Encoded, Flags};
use crate::sequence::{after, is_before, is_up_to};
use crate::slot::Slot;
use crate::sync::{AtomicUsize, Ordering};
use crate::{Meta, Priority};

/// Number of pieces of a text that are searched for once. Further pieces are searched for
/// again when they are stored.
const FEW: usize = 4;

/// Number of sequences to try for a record. A try fails if a producer stopped while writing the
/// slot one turn ago, or if one of the next turn takes it first.
const TRIES: usize = 8;

/// A log in fixed memory that keeps the newest records.
///
/// `Ring<[Slot; N]>` is the memory, for a `static`. Producers and readers use `&Ring`, to which it
/// dereferences.
#[repr(C, align(64))]
pub struct Ring<S: ?Sized = [Slot]> {
    pub(crate) head: Head,
    pub(crate) slots: S,
}

/// Header of a ring, laid out as in [`crate::layout`].
#[repr(C, align(64))]
pub(crate) struct Head {
    /// Signature, version, sizes.
    pub(crate) constant: [AtomicUsize; CONSTANT_BYTES / WORD],
    /// Newest sequence that was taken.
    pub(crate) newest: AtomicUsize,
    /// Newest record of priority emergency or panic; newest of priority panic.
    pub(crate) urgent: [AtomicUsize; 2],
    /// Number of text bytes that were cut off.
    pub(crate) cut: AtomicUsize,
    /// Progress of each sink; 0 without a sink.
    pub(crate) sent: [AtomicUsize; SINKS],
    /// Sequences that found their slot occupied, each at its remainder. A newer entry replaces an
    /// older one, whose sequence is then reported as lost even though it had no record.
    pub(crate) holes: [AtomicUsize; HOLES],
}

/// A part of a text that is logged in several calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Last record of the line that this part continues.
    pub(crate) after: Option<usize>,
    /// The last line continues in the next part.
    pub(crate) continues: bool,
    /// The text ends here because its formatting did not.
    pub(crate) is_cut: bool,
    /// More parts follow.
    pub(crate) more: bool,
    /// Largest number of records for this part.
    pub(crate) longest_run: usize,
}

/// Result of logging a part.
pub(crate) struct Parted {
    pub(crate) logged: Logged,
    /// Sequence of the last record of the text so far.
    pub(crate) last: Option<usize>,
}

/// Result of logging a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// Number of records stored.
    pub records: usize,
    /// Number of bytes that were cut off, because the text was too long or eight attempts found no
    /// free slot.
    pub cut: usize,
}

impl Ring {
    /// Logs `text`: one record for each line, and more for long lines. Never waits. For any
    /// context, including NMIs.
    #[inline]
    pub fn log(&self, meta: &Meta<'_>, text: &[u8]) -> Logged {
        let part = Part {
            after: None,
            continues: false,
            is_cut: false,
            more: false,
            longest_run: self.longest_run(),
        };
        self.log_part(meta, text, part).logged
    }

    /// Logs a program's output, in order with the log, as raw records. A drain sends these without
    /// time, target and escapes, and adds no line feed. Never waits. Only the time, CPU, level
    /// and priority of `meta` are used.
    ///
    /// Takes at most [one text's](Self::longest_run) records, and only sequences before `end`: so
    /// several writers at once fill no more of the ring than one. Returns the number of bytes taken.
    pub fn log_raw(&self, meta: &Meta<'_>, bytes: &[u8], end: u64) -> usize {
        let mut taken = 0;
        for piece in bytes.chunks(PAYLOAD).take(self.longest_run()) {
            let flags = Flags {
                continues: !piece.ends_with(b"\n"),
                raw: true,
                ..Flags::default()
            };
            let record = Encoded::new(meta, flags, b"", piece);
            let is_put = (0..TRIES)
                .map_while(|_| self.begin_before(end as usize))
                .any(|sequence| self.put(sequence, &record, true));
            if !is_put {
                break;
            }
            taken += piece.len();
        }
        if meta.priority != Priority::Normal {
            self.mark_urgent(meta.priority);
        }
        taken
    }

    /// Returns the number of records that the ring holds.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Returns the newest record's sequence; 0 if there is none.
    pub fn newest(&self) -> u64 {
        self.head.newest.load(Ordering::Acquire) as u64
    }

    /// Returns the number of text bytes cut off since the start. Wraps with the machine's word.
    pub fn cut(&self) -> u64 {
        self.head.cut.load(Ordering::Relaxed) as u64
    }

    /// Returns the largest number of records of one text.
    #[inline]
    pub fn longest_run(&self) -> usize {
        LONGEST_RUN.min(self.slots.len() / 4).max(1)
    }

    /// Logs one part of a text.
    #[inline(always)]
    pub(crate) fn log_part(&self, meta: &Meta<'_>, text: &[u8], part: Part) -> Parted {
        let pieces = Pieces::new(text, meta.target.len(), part.after.is_some());
        let parted = match pieces.single() {
            Some(piece) if part.longest_run > usize::from(part.more) => {
                self.put_single(meta, piece.text, part)
            }
            // These copies leave the arguments of the usual case in registers.
            _ => self.put_run(&Meta { ..*meta }, text, Part { ..part }),
        };
        if parted.logged.cut > 0 {
            self.head
                .cut
                .fetch_add(parted.logged.cut, Ordering::Relaxed);
        }
        if meta.priority != Priority::Normal {
            self.mark_urgent(meta.priority);
        }
        parted
    }

    /// Logs a part that is a single record: the usual case.
    #[inline(always)]
    fn put_single(&self, meta: &Meta<'_>, text: &[u8], part: Part) -> Parted {
        let target = if part.after.is_some() {
            ""
        } else {
            meta.target
        };
        for tries_left in (0..TRIES).rev() {
            let sequence = self.begin(1);
            let flags = Flags {
                continued: part.after.is_some(),
                adjoins: part.after.map(after) == Some(sequence),
                continues: part.continues,
                cut: part.is_cut,
                raw: false,
            };
            let record = Encoded::new(meta, flags, target.as_bytes(), text);
            if self.put(sequence, &record, tries_left > 0) {
                return Parted {
                    logged: Logged { records: 1, cut: 0 },
                    last: Some(sequence),
                };
            }
        }
        Parted {
            logged: Logged {
                records: 0,
                cut: text.len(),
            },
            last: part.after,
        }
    }

    /// Logs a part as several records, adjacent unless a slot between them is occupied.
    #[cold]
    fn put_run(&self, meta: &Meta<'_>, text: &[u8], part: Part) -> Parted {
        let pieces = Pieces::new(text, meta.target.len(), part.after.is_some());
        let mut all = pieces;
        // Found once. The others are found again when they are stored.
        let mut few = [None; FEW];
        let mut wanted = 0;
        for piece in all.by_ref().take(part.longest_run) {
            if let Some(place) = few.get_mut(wanted) {
                *place = Some(piece);
            }
            wanted += 1;
        }
        let rest = all.rest();
        let mut pieces = pieces.skip(FEW);
        let mut held = None;
        // Text after this part would not fit either.
        let is_cut = rest > 0 || part.is_cut || part.more && wanted == part.longest_run;
        let mut logged = Logged {
            records: 0,
            cut: rest,
        };
        let mut last = part.after;
        for tries_left in (0..TRIES).rev() {
            if wanted == 0 {
                break;
            }
            let run = wanted;
            let first = self.begin(run);
            for at in 0..run {
                let piece = match few.get(logged.records) {
                    Some(&piece) => piece,
                    None => {
                        held = held.or_else(|| pieces.next());
                        held
                    }
                };
                let Some(piece) = piece else { break };
                let sequence = first.wrapping_add(at);
                let ends = wanted == 1;
                let cut = ends && is_cut;
                let flags = Flags {
                    continued: piece.continued,
                    adjoins: piece.continued && last.map(after) == Some(sequence),
                    continues: (piece.continues || ends && part.continues) && !cut,
                    cut,
                    raw: false,
                };
                let target = if piece.continued { "" } else { meta.target };
                let record = Encoded::new(meta, flags, target.as_bytes(), piece.text);
                if self.put(sequence, &record, tries_left > 0) {
                    wanted -= 1;
                    logged.records += 1;
                    last = Some(sequence);
                    held = None;
                }
            }
        }
        if wanted > 0 {
            let few = few.into_iter().skip(logged.records).flatten();
            let unstored = few.chain(held).chain(pieces).take(wanted);
            logged.cut += unstored.map(|piece| piece.text.len()).sum::<usize>();
        }
        Parted { logged, last }
    }

    /// Writes a record. Returns `false` if its slot is occupied. If the caller `tries_again`, readers
    /// then pass by the sequence; otherwise they count it as lost.
    #[inline(always)]
    fn put(&self, sequence: usize, record: &Encoded<'_>, tries_again: bool) -> bool {
        let is_put = self.slot(sequence).put(sequence, record);
        if !is_put && tries_again {
            self.mark_hole(sequence);
        }
        is_put
    }

    #[cold]
    fn mark_hole(&self, sequence: usize) {
        // A newer record in the slot already shows readers that this one is gone.
        if self.slot(sequence).is_behind(sequence) {
            self.head.holes[sequence % HOLES].store(sequence, Ordering::Release);
        }
    }

    /// Returns whether `sequence` is noted to have no record, because its slot was occupied.
    pub(crate) fn is_hole(&self, sequence: usize) -> bool {
        self.head.holes[sequence % HOLES].load(Ordering::Acquire) == sequence
    }

    /// Takes `count` sequences, and returns the first.
    #[inline]
    fn begin(&self, count: usize) -> usize {
        let newest = self.head.newest.fetch_add(count, Ordering::Relaxed);
        if newest < self.slots.len() {
            self.sign();
        }
        newest.wrapping_add(1)
    }

    /// Takes the next sequence if it is before `end`. A few tries suffice: each failure means that
    /// another producer has taken one.
    fn begin_before(&self, end: usize) -> Option<usize> {
        let mut newest = self.head.newest.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            let next = newest.wrapping_add(1);
            if !is_before(next, end) {
                break;
            }
            match self.head.newest.compare_exchange(
                newest,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    if newest < self.slots.len() {
                        self.sign();
                    }
                    return Some(next);
                }
                Err(actual) => newest = actual,
            }
        }
        None
    }

    /// Writes the header's constants. Every producer of the first turn does, so that a crashed one
    /// cannot leave them unwritten.
    #[cold]
    fn sign(&self) {
        let constant = constant_bytes(self.slots.len());
        for (word, bytes) in self.head.constant.iter().zip(constant.as_chunks().0) {
            word.store(usize::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
    }

    /// Returns the slot of `sequence`. Divides only if the quotient of the multiplication is 1 too
    /// low, or if the header is damaged.
    #[inline]
    pub(crate) fn slot(&self, sequence: usize) -> &Slot {
        let slots = self.slots.len();
        let reciprocal = self.head.constant[RECIPROCAL_AT / WORD].load(Ordering::Relaxed);
        &self.slots[remainder(sequence, slots, reciprocal)]
    }

    /// Updates the mark of the newest urgent record, a hint for searches. Without it no record is
    /// lost. A few tries suffice, because each failure means that another producer stored a newer
    /// mark.
    #[cold]
    fn mark_urgent(&self, priority: Priority) {
        for mark in &self.head.urgent[..priority as usize] {
            let mut marked = mark.load(Ordering::Relaxed);
            for _ in 0..TRIES {
                let newest = self.head.newest.load(Ordering::Relaxed).max(1);
                // The mark is newer by at most the records that others logged meanwhile. Any other
                // mark is older, even by half of a word's range.
                if marked != 0 && marked.wrapping_sub(newest) < self.slots.len() {
                    break;
                }
                match mark.compare_exchange(marked, newest, Ordering::Release, Ordering::Relaxed) {
                    Ok(_) => break,
                    Err(actual) => marked = actual,
                }
            }
        }
    }

    /// Returns the first sequence from `next` on that is not a complete record below `priority`, an
    /// urgent one. Reads a word of each record, so that no backlog delays an urgent one: each record
    /// is passed by once.
    pub(crate) fn pass_by(&self, mut next: usize, priority: Priority) -> usize {
        let is_below = |found: Priority| found < priority;
        while self.has(next, priority) && self.slot(next).priority(next).is_some_and(is_below) {
            next = after(next);
        }
        next
    }

    /// Returns whether record `sequence` is complete and normal.
    pub(crate) fn is_normal(&self, sequence: usize) -> bool {
        self.slot(sequence).priority(sequence) == Some(Priority::Normal)
    }

    /// Returns whether `next` or a later record may have `priority` or above.
    pub(crate) fn has(&self, next: usize, priority: Priority) -> bool {
        let is_marked = match priority {
            Priority::Normal => true,
            urgent => {
                let marked = self.head.urgent[urgent as usize - 1].load(Ordering::Acquire);
                marked != 0 && is_up_to(next, marked)
            }
        };
        // A very old mark may seem newer after a wrap.
        is_marked && is_up_to(next, self.newest() as usize)
    }
}

/// Returns `sequence` modulo `slots`, computed with [`reciprocal`]. If `reciprocal` is 0 or wrong,
/// a much slower division is used. The result is always below `slots`.
#[inline]
fn remainder(sequence: usize, slots: usize, reciprocal: usize) -> usize {
    // Let B be 2^(bits in a word). B - slots * reciprocal is from 1 to slots, so sequence *
    // reciprocal / B is below sequence / slots, by less than 1. So its integer part is the
    // quotient, or the quotient minus 1.
    let (_, quotient) = sequence.carrying_mul(reciprocal, 0);
    let rest = sequence.wrapping_sub(quotient.wrapping_mul(slots));
    if rest < slots { rest } else { rest % slots }
}

fn reciprocal(slots: usize) -> usize {
    usize::MAX / slots
}

/// Returns the constant part of a ring's header.
fn constant_bytes(slots: usize) -> [u8; CONSTANT_BYTES] {
    let mut bytes = [0; CONSTANT_BYTES];
    bytes[..16].copy_from_slice(&SIGNATURE);
    bytes[16] = VERSION;
    bytes[17] = WORD as u8;
    bytes[18] = SLOT_BYTES as u8;
    bytes[ORDER_AT..][..2].copy_from_slice(&ORDER_MARK.to_ne_bytes());
    bytes[SLOTS_AT..][..8].copy_from_slice(&(slots as u64).to_ne_bytes());
    bytes[RECIPROCAL_AT..][..WORD].copy_from_slice(&reciprocal(slots).to_ne_bytes());
    bytes
}

impl<S: ?Sized> fmt::Debug for Ring<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("newest", &self.head.newest)
            .field("cut", &self.head.cut)
            .finish_non_exhaustive()
    }
}

const _: () = assert!(LONGEST_TARGET + 4 <= LONGEST_PAYLOAD);

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "arithmetic")]
        fn a_slot_is_the_sequence_modulo_their_number_with_the_reciprocal_or_without(
            sequence in prop_oneof![any::<usize>(), 0..100_usize, (0..100_usize).prop_map(|n| usize::MAX - n)],
            slots in prop_oneof![2..10_000_usize, 2..=usize::MAX, (2..=usize::MAX).prop_map(|n| usize::MAX / n)],
            garbage in any::<usize>(),
        ) {
            let slots = slots.max(2);
            for sequence in [sequence, sequence / slots * slots, (sequence / slots * slots).wrapping_sub(1)] {
                prop_assert_eq!(remainder(sequence, slots, reciprocal(slots)), sequence % slots);
                prop_assert_eq!(remainder(sequence, slots, 0), sequence % slots);
                prop_assert!(remainder(sequence, slots, garbage) < slots);
            }
        }
    }
}
