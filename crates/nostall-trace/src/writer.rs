//! Writing of records into a zone: the protocol between a CPU, its handlers, and readers.
//!
//! A record reserves its slots and takes its time in one step. The head is replaced only if no
//! handler has recorded since it was read. Slots and times thus have the same order, even where
//! interrupts and NMIs nest. Then the slots are written, the first one last, with the lap in their
//! meta word. A reader skips a slot with another lap.
//!
//! A handler never overwrites the slots of the record that it interrupted. The outermost record
//! marks the head before it, and handlers that would write more than a lap beyond it lose their
//! records. The outermost record then writes the number of lost ones.

use core::sync::atomic::{Ordering, compiler_fence};

use crate::cells::Cells;
use crate::layout::{HEAD, IN_FLIGHT, Kind, LOST, Meta, SLOT, UNREPORTED, ZONE_HEADER};

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
    let outermost = cells.get(word(IN_FLIGHT)) == 0;
    let written = reserve(cells, size, outermost, N as u64, &now)
        .map(|(at, time)| store(cells, size.bits, at, record(time)))
        .is_some();
    if outermost {
        compiler_fence(Ordering::SeqCst);
        if cells.get(word(UNREPORTED)) != 0 {
            report_lost(cells, size, &now);
        }
        cells.set(word(IN_FLIGHT), 0);
    }
    written
}

/// Reserves `count` slots. Returns the index of the first, and its time.
#[inline(always)]
fn reserve<C: Cells>(
    cells: &C,
    size: Size,
    outermost: bool,
    count: u64,
    now: &impl Fn() -> u64,
) -> Option<(u64, u64)> {
    let slots = 1 << size.bits;
    loop {
        let at = cells.get(word(HEAD));
        let oldest = if size.stop_when_full {
            0
        } else if outermost {
            at
        } else {
            cells.get(word(IN_FLIGHT)).wrapping_sub(1)
        };
        // Damaged words must not panic here, so each sum may wrap.
        let next = at.wrapping_add(count);
        if next.wrapping_sub(oldest) > slots {
            lose(cells, size);
            return None;
        }
        if outermost {
            cells.set(word(IN_FLIGHT), at.wrapping_add(1));
            compiler_fence(Ordering::SeqCst);
        }
        let time = now();
        if cells.replace(word(HEAD), at, next) {
            return Some((at, time));
        }
    }
}

/// Stores slots from index `at` on, the first one last.
#[inline(always)]
fn store<C: Cells, const N: usize>(cells: &C, bits: u32, at: u64, slots: [Slot; N]) {
    for (i, (value, meta)) in slots.into_iter().enumerate().rev() {
        let index = at.wrapping_add(i as u64);
        let place = word(ZONE_HEADER) + (index as usize & ((1 << bits) - 1)) * word(SLOT);
        cells.publish(place, value);
        cells.publish(place + 1, meta.with_lap(index, bits).0);
    }
}

/// Counts a lost record. A full zone reports its loss at its end, without a record.
#[cold]
fn lose<C: Cells>(cells: &C, size: Size) {
    cells.add(word(LOST), 1);
    if !size.stop_when_full {
        cells.add(word(UNREPORTED), 1);
    }
}

/// Writes the number of records that handlers have lost since the last report. The caller's record
/// is complete, so handlers may overwrite it. Their records are not outermost: the mark of the
/// record in flight stays set.
#[cold]
fn report_lost<C: Cells>(cells: &C, size: Size, now: &impl Fn() -> u64) {
    let lost = cells.get(word(UNREPORTED));
    loop {
        let at = cells.get(word(HEAD));
        let next = at.wrapping_add(1);
        cells.set(word(IN_FLIGHT), next);
        compiler_fence(Ordering::SeqCst);
        let time = now();
        if cells.replace(word(HEAD), at, next) {
            store(
                cells,
                size.bits,
                at,
                [(time, Meta::new(Kind::Lost, lost, 0))],
            );
            cells.add(word(UNREPORTED), lost.wrapping_neg());
            return;
        }
    }
}

#[cfg(all(test, target_pointer_width = "64", not(miri)))]
mod loom_tests;
#[cfg(test)]
mod tests;
