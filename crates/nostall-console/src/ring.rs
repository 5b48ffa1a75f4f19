//! The ring: any number of producers, none of which waits.

use core::fmt;

use crate::layout::{
    CONSTANT_BYTES, HOLES, LONGEST_PAYLOAD, LONGEST_RUN, LONGEST_TARGET, ORDER_AT, ORDER_MARK,
    PAYLOAD, RECIPROCAL_AT, SIGNATURE, SINKS, SLOT_BYTES, SLOTS_AT, VERSION, WORD,
};
use crate::pieces::{Piece, Pieces};
use crate::record::{Encoded, Flags};
use crate::sequence::{after, is_up_to};
use crate::slot::{Look, Slot};
use crate::sync::{AtomicUsize, Ordering};
use crate::{Meta, Priority};

/// Number of slots to try for a record. A try fails if a producer stopped in mid-write a whole
/// turn of the ring ago, or was overtaken by a turn between two instructions.
const TRIES: usize = 8;

/// A log in fixed memory, the newest records of which are kept.
///
/// `Ring<[Slot; N]>` is its memory, for a `static`. Producers and readers use `&Ring`, to which
/// it coerces.
#[repr(C, align(64))]
pub struct Ring<S: ?Sized = [Slot]> {
    pub(crate) head: Head,
    pub(crate) slots: S,
}

/// The first bytes of a ring.
#[repr(C, align(64))]
pub(crate) struct Head {
    /// Signature, version, sizes.
    pub(crate) constant: [AtomicUsize; CONSTANT_BYTES / WORD],
    /// The newest record that was begun.
    pub(crate) newest: AtomicUsize,
    /// The newest of priority emergency or panic, and of panic.
    pub(crate) urgent: [AtomicUsize; 2],
    /// Number of text bytes without a record.
    pub(crate) cut: AtomicUsize,
    /// Position of each sink; 0 without a sink.
    pub(crate) sent: [AtomicUsize; SINKS],
    /// Sequences that found their slot occupied, each at itself modulo their number. One
    /// that makes room here for a newer one is told as lost, which it is not.
    pub(crate) holes: [AtomicUsize; HOLES],
}

/// Part of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The rest of a line, which began with this record.
    pub(crate) after: Option<usize>,
    /// Set if its line continues in the next part.
    pub(crate) continues: bool,
    /// There is a next part.
    pub(crate) more: bool,
    /// Records that it may take.
    pub(crate) longest_run: usize,
}

/// Result of logging a part.
pub(crate) struct Parted {
    pub(crate) logged: Logged,
    /// Sequence of its last record.
    pub(crate) last: Option<usize>,
}

/// Result of logging a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// Records that it takes.
    pub records: usize,
    /// Number of bytes that were cut off. The text was too long, or as many producers as there
    /// are slots stopped in mid-write.
    pub cut: usize,
}

impl Ring {
    /// Logs `text`: a record for each line, and more for long ones. Never waits, and may be called
    /// in any context, NMIs included.
    #[inline]
    pub fn log(&self, meta: &Meta<'_>, text: &[u8]) -> Logged {
        let part = Part {
            after: None,
            continues: false,
            more: false,
            longest_run: self.longest_run(),
        };
        self.log_part(meta, text, part).logged
    }

    /// Logs bytes of a program's output, in order with the log: in raw records, which a drain
    /// sends without time and target, without escapes, and without a line feed of its own. Never
    /// waits. `meta` has no effect but on the time, CPU, level and priority of the records.
    ///
    /// Takes at most as many records as given, and as [one text](Self::longest_run). Returns the
    /// number of bytes taken.
    pub fn log_raw(&self, meta: &Meta<'_>, bytes: &[u8], records: usize) -> usize {
        let mut taken = 0;
        for piece in bytes.chunks(PAYLOAD).take(records.min(self.longest_run())) {
            let flags = Flags {
                continues: !piece.ends_with(b"\n"),
                raw: true,
                ..Flags::default()
            };
            let record = Encoded::new(meta, flags, b"", piece);
            if !(0..TRIES).any(|_| self.put(self.begin(1), &record)) {
                break;
            }
            taken += piece.len();
        }
        if meta.priority != Priority::Normal {
            self.mark_urgent(meta.priority);
        }
        taken
    }

    /// Records there is room for.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The newest record's sequence; 0 if there is none yet.
    pub fn newest(&self) -> u64 {
        self.head.newest.load(Ordering::Acquire) as u64
    }

    /// Returns the number of text bytes that were cut off since the start.
    pub fn cut(&self) -> u64 {
        self.head.cut.load(Ordering::Relaxed) as u64
    }

    /// Records that one text may take.
    #[inline]
    pub fn longest_run(&self) -> usize {
        LONGEST_RUN.min(self.slots.len() / 4).max(1)
    }

    /// Logs a part of a text.
    #[inline(always)]
    pub(crate) fn log_part(&self, meta: &Meta<'_>, text: &[u8], part: Part) -> Parted {
        let pieces = Pieces::new(text, meta.target.len(), part.after.is_some());
        let parted = match pieces.single() {
            Some(piece) if part.longest_run > usize::from(part.more) => {
                self.put_single(meta, piece.text, part)
            }
            _ => self.put_run(meta, pieces, part),
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

    /// The usual case.
    #[inline(always)]
    fn put_single(&self, meta: &Meta<'_>, text: &[u8], part: Part) -> Parted {
        let target = if part.after.is_some() {
            ""
        } else {
            meta.target
        };
        for _ in 0..TRIES {
            let sequence = self.begin(1);
            let flags = Flags {
                continued: part.after.is_some(),
                adjoins: part.after.map(after) == Some(sequence),
                continues: part.continues,
                cut: false,
                raw: false,
            };
            let record = Encoded::new(meta, flags, target.as_bytes(), text);
            if self.put(sequence, &record) {
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

    /// Several records, side by side unless a slot between them is occupied.
    #[cold]
    fn put_run(&self, meta: &Meta<'_>, pieces: Pieces<'_>, part: Part) -> Parted {
        let mut all = pieces;
        let mut wanted = all.by_ref().take(part.longest_run).count();
        let rest = all.rest();
        // Nor does what comes after this part.
        let is_cut = rest > 0 || part.more && wanted == part.longest_run;
        let mut logged = Logged {
            records: 0,
            cut: rest,
        };
        let mut last = part.after;
        let mut pieces = pieces.take(part.longest_run).peekable();
        for _ in 0..TRIES {
            if wanted == 0 {
                break;
            }
            let run = wanted;
            let first = self.begin(run);
            for at in 0..run {
                let Some(&piece) = pieces.peek() else { break };
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
                if self.put_piece(meta, piece, sequence, flags) {
                    pieces.next();
                    wanted -= 1;
                    logged.records += 1;
                    last = Some(sequence);
                }
            }
        }
        logged.cut += pieces.map(|piece| piece.text.len()).sum::<usize>();
        Parted { logged, last }
    }

    fn put_piece(&self, meta: &Meta<'_>, piece: Piece<'_>, sequence: usize, flags: Flags) -> bool {
        let target = if piece.continued { "" } else { meta.target };
        let record = Encoded::new(meta, flags, target.as_bytes(), piece.text);
        self.put(sequence, &record)
    }

    #[inline(always)]
    fn put(&self, sequence: usize, record: &Encoded<'_>) -> bool {
        let is_put = self.slot(sequence).put(sequence, record);
        if !is_put {
            self.mark_hole(sequence);
        }
        is_put
    }

    #[cold]
    fn mark_hole(&self, sequence: usize) {
        // A newer record in the slot tells readers enough.
        if self.slot(sequence).is_behind(sequence) {
            self.head.holes[sequence % HOLES].store(sequence, Ordering::Release);
        }
    }

    /// Looks for record `sequence`.
    pub(crate) fn look(&self, sequence: usize) -> Look {
        match self.slot(sequence).look(sequence) {
            Look::Pending
                if self.head.holes[sequence % HOLES].load(Ordering::Acquire) == sequence =>
            {
                Look::Hole
            }
            look => look,
        }
    }

    /// Takes the sequences of `count` records; the first.
    #[inline]
    fn begin(&self, count: usize) -> usize {
        let newest = self.head.newest.fetch_add(count, Ordering::Relaxed);
        if newest < self.slots.len() {
            self.sign();
        }
        newest.wrapping_add(1)
    }

    /// Writes the head in the whole first turn, so that no crashed producer leaves it undone.
    #[cold]
    fn sign(&self) {
        let constant = constant_bytes(self.slots.len());
        for (word, bytes) in self.head.constant.iter().zip(constant.as_chunks().0) {
            word.store(usize::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
    }

    /// Uses a division in the first turn, and if the ring's first bytes are damaged.
    #[inline]
    fn slot(&self, sequence: usize) -> &Slot {
        let slots = self.slots.len();
        let reciprocal = self.head.constant[RECIPROCAL_AT / WORD].load(Ordering::Relaxed);
        &self.slots[remainder(sequence, slots, reciprocal)]
    }

    /// Updates a hint for searches; without it no record is lost. A few tries are enough,
    /// because each failure is another producer's newer mark.
    #[cold]
    fn mark_urgent(&self, priority: Priority) {
        for mark in &self.head.urgent[..priority as usize] {
            let mut marked = mark.load(Ordering::Relaxed);
            for _ in 0..TRIES {
                let newest = self.head.newest.load(Ordering::Relaxed).max(1);
                // By as much as others may have logged in between. Any other mark is
                // older, and be it by half of what a word counts.
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

    /// Returns whether `next` or a later record may have `priority` or above.
    pub(crate) fn has(&self, next: usize, priority: Priority) -> bool {
        let is_marked = match priority {
            Priority::Normal => true,
            urgent => {
                let marked = self.head.urgent[urgent as usize - 1].load(Ordering::Acquire);
                marked != 0 && is_up_to(next, marked)
            }
        };
        // A mark may be so old that it seems to be newer.
        is_marked && is_up_to(next, self.newest() as usize)
    }
}

/// `sequence` modulo `slots`, of which `reciprocal` is [`reciprocal`], or 0: then by a
/// division, which takes many times as long. In range whatever it is.
#[inline]
fn remainder(sequence: usize, slots: usize, reciprocal: usize) -> usize {
    // Let B be what a word counts: B - slots * reciprocal is from 1 to slots, so that
    // sequence * reciprocal / B is less than sequence / slots, by less than 1: its whole
    // part is the quotient, or the quotient minus 1.
    let (_, quotient) = sequence.carrying_mul(reciprocal, 0);
    let rest = sequence.wrapping_sub(quotient.wrapping_mul(slots));
    if rest < slots { rest } else { rest % slots }
}

fn reciprocal(slots: usize) -> usize {
    usize::MAX / slots
}

/// Returns the constant part of a ring's first bytes.
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
        fn a_slot_is_the_sequence_modulo_their_number_by_the_reciprocal_or_without(
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
