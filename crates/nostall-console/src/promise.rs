//! The time at which a sink takes more, and the CPU that comes back then.

use nostall_io::Nanos;

use crate::Offered;
use crate::sync::{AtomicUsize, Ordering};

/// Nanoseconds that a word counts. 32-bit words of microseconds wrap after 71 minutes.
const UNIT: u64 = if usize::BITS < 64 { 1_000 } else { 1 };

/// Pause after an offer of which a ready sink took nothing.
const STUCK: Nanos = Nanos::from_millis(1);

/// Pause after an offer to a sink that is gone, and the longest that is remembered.
const GONE: Nanos = Nanos::from_secs(1);

/// The longest pause that the drain adds for a sink that takes nothing.
const LONGEST_BACKOFF: Nanos = Nanos::from_millis(10);

/// Fraction of the time offered in vain that is added to it.
const BACKOFF_PARTS: u64 = 8;

/// A sink's next ready time. Stored by the sink's owner, read by every CPU that logs.
///
/// The time is kept as a start and a length, in words that need no 64-bit atomics.
/// Readers may see parts of two promises: the result is a time within a second from
/// now, and the reader comes back then.
#[derive(Debug)]
pub(crate) struct Promise {
    pub(crate) since: AtomicUsize,
    /// 0: the sink takes more at once.
    pub(crate) wait: AtomicUsize,
    /// CPU number plus 1 of the CPU that comes back; 0: none does, as all was sent.
    pub(crate) keeper: AtomicUsize,
    /// Sum of the waits since the sink took something.
    pub(crate) in_vain: AtomicUsize,
}

impl Promise {
    /// Returns the ready time if it is not reached yet.
    ///
    /// A time that is further off than the promised wait, in either direction, is a
    /// clock that jumped: the promise is void. So is each promise while the clock has no rate.
    pub(crate) fn ready_at(&self, now: Nanos) -> Option<Nanos> {
        let wait = self.wait.load(Ordering::Relaxed);
        if wait == 0 || !now.is_known() {
            return None;
        }
        let since = self.since.load(Ordering::Relaxed);
        let passed = words(now).wrapping_sub(since) as isize;
        let left = (wait as isize).checked_sub(passed)?;
        (passed.unsigned_abs() < wait).then(|| now + Nanos(left as u64 * UNIT))
    }

    /// Makes `cpu` the CPU that comes back, unless another one is. Of two CPUs that do so
    /// at the same time, both come back.
    pub(crate) fn keep(&self, cpu: u16) -> bool {
        let keeper = self.keeper.load(Ordering::Relaxed);
        if keeper == 0 {
            self.keeper.store(keeper_of(cpu), Ordering::Relaxed);
        }
        keeper == 0 || keeper == keeper_of(cpu)
    }

    /// `cpu` does not come back any more.
    pub(crate) fn leave(&self, cpu: u16) {
        if self.keeper.load(Ordering::Relaxed) == keeper_of(cpu) {
            self.keeper.store(0, Ordering::Relaxed);
        }
    }

    /// Stores the result of an offer, and returns when to make the next one.
    pub(crate) fn offered(&self, given: Offered, cpu: u16, now: Nanos) -> Nanos {
        let at = match given.ready_at {
            None => now + GONE,
            Some(ready_at) if given.taken > 0 => {
                self.in_vain.store(0, Ordering::Relaxed);
                ready_at
            }
            Some(ready_at) => self.back_off(ready_at, now),
        };
        // Not ready while the rest of the promise changes: no old wait with a new start.
        self.wait.store(0, Ordering::Relaxed);
        self.keeper.store(keeper_of(cpu), Ordering::Relaxed);
        self.since.store(words(now), Ordering::Relaxed);
        self.wait
            .store(words((at - now).min(GONE)), Ordering::Release);
        at
    }

    /// Returns when to offer again to a sink that took nothing: when it says so, but
    /// the longer it has taken nothing, the later.
    fn back_off(&self, ready_at: Nanos, now: Nanos) -> Nanos {
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        let mut pause = Nanos(in_vain as u64 * UNIT) / BACKOFF_PARTS;
        if ready_at <= now {
            pause = pause.max(STUCK);
        }
        let at = ready_at.max(now + pause);
        let waits = words((at - now).min(GONE)).max(1);
        let most = words(LONGEST_BACKOFF * BACKOFF_PARTS);
        self.in_vain
            .store((in_vain + waits).min(most), Ordering::Relaxed);
        at
    }
}

fn keeper_of(cpu: u16) -> usize {
    usize::from(cpu) + 1
}

/// Rounds down: a CPU that comes at the promised time is never early.
fn words(span: Nanos) -> usize {
    (span.0 / UNIT) as usize
}
