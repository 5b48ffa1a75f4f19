//! Zones of threads.
//!
//! A thread gets a zone with its first record, without a lock. It is one that no thread has used,
//! or else that of an ended thread. The new records then overwrite those of the ended thread, the
//! oldest first. Records of ended threads thus stay as long as there is room elsewhere.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use nostall_io::Processor;

/// Maximum number of zones.
pub(super) const MOST: usize = 1024;

/// The thread has no zone yet, or no zone was free.
const NONE: usize = usize::MAX;
/// The thread is getting its zone, or has returned it. Records are then lost.
const CLOSED: usize = usize::MAX - 1;

thread_local! {
    static ZONE: Cell<usize> = const { Cell::new(NONE) };
    static END: End = const { End };
}

/// Zones of the process's threads.
struct Zones {
    count: AtomicUsize,
    /// Number of zones that a thread has used at least once.
    used: AtomicUsize,
    /// Bit set of zones whose thread has ended.
    ended: [AtomicU64; MOST / 64],
    /// Whether zones of ended threads stay reserved.
    keep: AtomicBool,
}

static ZONES: Zones = Zones {
    count: AtomicUsize::new(0),
    used: AtomicUsize::new(0),
    ended: [const { AtomicU64::new(0) }; MOST / 64],
    keep: AtomicBool::new(false),
};

/// Called with each newly assigned zone, on its thread.
static CLAIMED: OnceLock<fn(usize)> = OnceLock::new();

impl Zones {
    fn take(&self) -> Option<usize> {
        let count = self.count.load(Ordering::Acquire);
        let next = |used: usize| (used < count).then_some(used + 1);
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, next)
            .ok()
            .or_else(|| self.take_ended())
    }

    fn take_ended(&self) -> Option<usize> {
        if self.keep.load(Ordering::Relaxed) {
            return None;
        }
        self.ended.iter().enumerate().find_map(|(at, word)| {
            let lowest = |bits: u64| (bits != 0).then(|| bits & (bits - 1));
            let bits = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, lowest);
            Some(at * 64 + bits.ok()?.trailing_zeros() as usize)
        })
    }

    fn give_back(&self, zone: usize) {
        if let Some(word) = self.ended.get(zone / 64) {
            word.fetch_or(1 << (zone % 64), Ordering::AcqRel);
        }
    }
}

/// Releases the zone when its thread ends.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        ZONES.give_back(ZONE.replace(CLOSED));
    }
}

/// Leaves this thread without a zone. A forked child calls it, because the zones are its parent's.
pub(super) fn leave() {
    ZONE.set(CLOSED);
}

/// Makes `count` zones available. `claimed` is called with each newly assigned zone, on its thread.
/// With `keep`, a zone is never reused.
pub(super) fn open(count: usize, keep: bool, claimed: fn(usize)) {
    CLAIMED.get_or_init(|| claimed);
    ZONES.keep.store(keep, Ordering::Relaxed);
    ZONES.count.store(count.min(MOST), Ordering::Release);
}

/// Assigns zone numbers to threads for the recorder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Threads;

impl Processor for Threads {
    #[inline(always)]
    fn id(&self) -> usize {
        match ZONE.get() {
            NONE => claim(),
            zone => zone,
        }
    }

    /// Signals stay unmasked, because a record is already atomic for handlers.
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
}

#[cold]
fn claim() -> usize {
    ZONE.set(CLOSED);
    // A thread whose destructors have run does not record.
    let ends = END.try_with(|_| ()).is_ok();
    let Some(zone) = ends.then(|| ZONES.take()).flatten() else {
        ZONE.set(if ends { NONE } else { CLOSED });
        return NONE;
    };
    ZONE.set(zone);
    if let Some(claimed) = CLAIMED.get() {
        claimed(zone);
    }
    zone
}
