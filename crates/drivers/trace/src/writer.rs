//! Writing of records into a zone: the protocol between a CPU, its handlers, and readers.
//!
//! A record reserves its slots and takes its time in one step. The head is replaced only if no
//! handler has recorded since it was read. Slots and times thus have the same order, even where
//! interrupts and NMIs nest. Then the slots are written, the first one last, with the lap in their
//! meta word. A reader skips a slot with another lap.
//!
//! A slot that the previous lap left without a record is in use: its record was interrupted, and may
//! still be completed. It is never given to another record. The first record that passes it puts a
//! [mark](Kind::Pending) into it, which later laps find. A record that is completed after that
//! returns its slots, and an owner whose records cannot continue calls [`forget`].

use core::array;

use crate::cells::Cells;
use crate::layout::{
    FORGOTTEN, HEAD, Kind, LOST, Meta, PASSED, PENDING_SINCE, SLOT, UNREPORTED, ZONE_HEADER, lap,
};

/// Returns the index of the word at an offset.
pub(crate) const fn word(offset: usize) -> usize {
    offset / 8
}

/// Size of a zone, and whether recording ends when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// The zone has 2^`bits` slots.
    pub bits: u32,
    /// Recording ends when all slots are written.
    pub stop_when_full: bool,
}

/// A slot without its lap.
pub(crate) type Slot = (u64, Meta);

/// Writes the slots that `record` makes for the time. Returns whether they were written; otherwise
/// the loss is counted.
#[inline(always)]
pub(crate) fn write<C: Cells, const N: usize>(
    cells: &C,
    size: Size,
    now: impl Fn() -> u64,
    record: impl FnOnce(u64) -> [Slot; N],
) -> bool {
    let reserved = reserve(cells, size, &now);
    match &reserved {
        Some(place) => place.store(cells, size.bits, record(place.time)),
        None => lose(cells, size),
    }
    if cells.get(word(UNREPORTED)) != 0 {
        report_lost(cells, size, &now);
    }
    reserved.is_some()
}

/// Reserved slots of a record.
struct Place<const N: usize> {
    /// Index of the first slot.
    at: u64,
    time: u64,
    /// Meta words in the slots, of the lap before.
    before: [u64; N],
}

/// Reserves slots. Returns `None` without room.
#[inline(always)]
fn reserve<C: Cells, const N: usize>(
    cells: &C,
    size: Size,
    now: &impl Fn() -> u64,
) -> Option<Place<N>> {
    loop {
        let at = cells.get(word(HEAD));
        // Damaged words must not panic here, so each sum may wrap.
        let next = at.wrapping_add(N as u64);
        if size.stop_when_full && next > 1 << size.bits {
            return None;
        }
        let index = |i: usize| at.wrapping_add(i as u64);
        let before = metas(cells, size.bits, at);
        if !(0..N).all(|i| was_written_before(Meta(before[i]), size.bits, index(i))) {
            match reserve_later(cells, size.bits, at, now) {
                Reservation::Made(place) => return Some(place),
                Reservation::Interrupted => continue,
                Reservation::NoRoom => return None,
            }
        }
        let time = now();
        if cells.replace(word(HEAD), at, next) {
            return Some(Place { at, time, before });
        }
    }
}

/// Returns the index of a slot's meta word.
#[inline(always)]
const fn meta_of(bits: u32, index: u64) -> usize {
    word(ZONE_HEADER) + (index as usize & ((1 << bits) - 1)) * word(SLOT) + 1
}

/// Returns the meta words of the slots from `at` on.
#[inline(always)]
fn metas<C: Cells, const N: usize>(cells: &C, bits: u32, at: u64) -> [u64; N] {
    array::from_fn(|i| cells.get(meta_of(bits, at.wrapping_add(i as u64))))
}

/// Returns whether the slot was written in the lap before `index`, or is in the first lap.
#[inline(always)]
fn was_written_before(slot: Meta, bits: u32, index: u64) -> bool {
    let before = index.checked_sub(1 << bits);
    before.is_none_or(|before| slot.lap() == lap(before, bits))
}

impl<const N: usize> Place<N> {
    /// Stores the slots, the first one last.
    #[inline(always)]
    fn store<C: Cells>(&self, cells: &C, bits: u32, slots: [Slot; N]) {
        for (i, (value, meta)) in slots.into_iter().enumerate().rev() {
            let index = self.at.wrapping_add(i as u64);
            let (slot, meta) = (meta_of(bits, index), meta.with_lap(index, bits).0);
            cells.publish(slot - 1, value);
            if !cells.replace(slot, self.before[i], meta) {
                store_late(cells, bits, index, meta);
            }
        }
    }
}

/// Stores a meta word over the mark of a newer record. If newer records passed the slot, it is
/// returned without a record.
#[cold]
fn store_late<C: Cells>(cells: &C, bits: u32, index: u64, meta: u64) {
    let slot = meta_of(bits, index);
    loop {
        let found = cells.get(slot);
        if !is_mark_of(Meta(found), index) {
            return; // The record was forgotten.
        }
        // A handler that passes the slot after this changes the mark.
        let behind = cells.get(word(HEAD)).wrapping_sub(index).wrapping_sub(1);
        let newest = index.wrapping_add(behind >> bits << bits);
        let meta = if newest == index {
            meta
        } else {
            empty(newest, bits)
        };
        if cells.replace(slot, found, meta) {
            return;
        }
    }
}

/// Returns the meta word of a slot without a record.
fn empty(index: u64, bits: u32) -> u64 {
    Meta::new(Kind::Lost, 0, 0).with_lap(index, bits).0
}

/// Returns whether `slot` has the mark of a slot that was reserved for `index`.
fn is_mark_of(slot: Meta, index: u64) -> bool {
    slot.pending() == Some(Meta::new(Kind::Pending, index, 0).low())
}

/// Result of a reservation in a zone with slots in use.
enum Reservation<const N: usize> {
    Made(Place<N>),
    /// A handler has recorded meanwhile.
    Interrupted,
    /// No lap has enough free slots in a row.
    NoRoom,
}

/// Reserves the first slots in a row from `head` on of which none is in use.
#[cold]
fn reserve_later<C: Cells, const N: usize>(
    cells: &C,
    bits: u32,
    head: u64,
    now: &impl Fn() -> u64,
) -> Reservation<N> {
    let (mut free, mut passed) = (0, 0);
    for next in (1..=1 << bits).map(|slots| head.wrapping_add(slots)) {
        match is_in_use(cells, bits, head, next.wrapping_sub(1)) {
            None => return Reservation::Interrupted,
            Some(true) => (free, passed) = (0, passed + 1),
            Some(false) => free += 1,
        }
        if free < N {
            continue;
        }
        let at = next.wrapping_sub(N as u64);
        let before = metas(cells, bits, at);
        let time = now();
        if !cells.replace(word(HEAD), head, next) {
            return Reservation::Interrupted;
        }
        cells.add(word(PASSED), passed);
        (head..at).for_each(|index| leave_empty(cells, bits, index));
        return Reservation::Made(Place { at, time, before });
    }
    Reservation::NoRoom
}

/// Stores that a reserved slot has no record, unless it is in use.
fn leave_empty<C: Cells>(cells: &C, bits: u32, index: u64) {
    let slot = meta_of(bits, index);
    let found = Meta(cells.get(slot));
    let is_own = found.pending().is_none() || is_mark_of(found, index);
    let own = empty(index, bits);
    if is_own && found.lap() != lap(index, bits) && !cells.replace(slot, found.0, own) {
        store_late(cells, bits, index, own);
    }
}

/// Returns whether a record of an earlier lap may still write the slot, and marks it. Returns `None`
/// if a handler has recorded since `head` was read.
fn is_in_use<C: Cells>(cells: &C, bits: u32, head: u64, index: u64) -> Option<bool> {
    let slot = meta_of(bits, index);
    let found = Meta(cells.get(slot));
    // A handler that records after this changes each slot that it takes.
    if cells.get(word(HEAD)) != head {
        return None;
    }
    if was_written_before(found, bits, index) {
        return Some(false);
    }
    let marked = found.pending();
    let (reserved, count) = match marked {
        Some(reserved) => (reserved, found.depth().wrapping_add(1)),
        None => (index.wrapping_sub(1 << bits), 0),
    };
    if reserved < cells.get(word(FORGOTTEN)) {
        return Some(false);
    }
    let mark = Meta::new(Kind::Pending, reserved, count.into()).0;
    if !cells.replace(slot, found.0, mark) {
        return None;
    }
    if marked.is_none() && cells.get(word(PENDING_SINCE)) == 0 {
        cells.set(word(PENDING_SINCE), time_after(cells, bits, reserved));
    }
    Some(true)
}

/// Returns the time of the first record after the slot `index`; 0 if there is none.
fn time_after<C: Cells>(cells: &C, bits: u32, index: u64) -> u64 {
    let indices = (1..1 << bits).map(|after| index.wrapping_add(after));
    let mut times = indices.filter_map(|index| {
        let meta = Meta(cells.get(meta_of(bits, index)));
        let is_time = meta.lap() == lap(index, bits)
            && meta.kind() != Some(Kind::Argument)
            && !meta.is_empty();
        is_time.then(|| cells.get(meta_of(bits, index) - 1))
    });
    times.next().unwrap_or(0)
}

/// Gives the slots of interrupted records to later ones. None of these records may continue.
pub(crate) fn forget<C: Cells>(cells: &C) {
    cells.set(word(FORGOTTEN), cells.get(word(HEAD)));
    cells.set(word(PENDING_SINCE), 0);
}

/// Counts a lost record. A full zone reports its loss at its end, without a record.
#[cold]
fn lose<C: Cells>(cells: &C, size: Size) {
    cells.add(word(LOST), 1);
    if !size.stop_when_full {
        cells.add(word(UNREPORTED), 1);
    }
}

/// Writes the number of records that were lost since the last report.
#[cold]
fn report_lost<C: Cells>(cells: &C, size: Size, now: &impl Fn() -> u64) {
    let lost = cells.get(word(UNREPORTED));
    // A handler may report them meanwhile.
    if lost == 0 || !cells.replace(word(UNREPORTED), lost, 0) {
        return;
    }
    match reserve(cells, size, now) {
        Some(place) => {
            let slot = (place.time, Meta::new(Kind::Lost, lost, 0));
            place.store(cells, size.bits, [slot]);
        }
        None => cells.add(word(UNREPORTED), lost),
    }
}

#[cfg(all(test, target_pointer_width = "64", not(miri)))]
mod loom_tests;
#[cfg(test)]
mod tests;
