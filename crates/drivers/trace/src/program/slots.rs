//! Zones of threads.
//!
//! A thread gets a zone with its first record, without a lock. It is one that no thread has used,
//! or else that of the thread that ended longest ago. The new records then overwrite those of the
//! ended thread, the oldest first. Records of ended threads thus stay as long as there is room
//! elsewhere.

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
    /// Number of threads that have returned a zone.
    returned: AtomicU64,
    /// That number when each zone was returned; 0 for a zone in use.
    ended: [AtomicU64; MOST],
    /// Whether zones of ended threads stay reserved.
    keep: AtomicBool,
}

static ZONES: Zones = Zones {
    count: AtomicUsize::new(0),
    used: AtomicUsize::new(0),
    returned: AtomicU64::new(0),
    ended: [const { AtomicU64::new(0) }; MOST],
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
        // Repeated if another thread takes the zone first.
        loop {
            let ended = self.ended.iter().enumerate();
            let ended = ended.map(|(zone, ended)| (ended.load(Ordering::Relaxed), zone));
            let (first, zone) = ended.filter(|(ended, _)| *ended > 0).min()?;
            if self.ended[zone]
                .compare_exchange(first, 0, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return Some(zone);
            }
        }
    }

    fn give_back(&self, zone: usize) {
        if let Some(ended) = self.ended.get(zone) {
            let number = self.returned.fetch_add(1, Ordering::Relaxed) + 1;
            ended.store(number, Ordering::Release);
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
