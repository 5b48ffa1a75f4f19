//! Time of the next offer to a sink, and the CPU that makes it.

use nostall_io::Nanos;

use crate::Offered;
use crate::sync::{AtomicUsize, Ordering};

/// Nanoseconds in one unit of a word. 32-bit words count microseconds and wrap after 71 minutes.
const UNIT: u64 = if usize::BITS < 64 { 1_000 } else { 1 };

/// Pause after a ready sink took nothing.
const STUCK: Nanos = Nanos::from_millis(1);

/// Time from a slice's start within which a ready time means at once.
const AT_ONCE: Nanos = Nanos::from_micros(5);

/// Pause after an offer to a sink that is gone, and the longest pause stored.
const GONE: Nanos = Nanos::from_secs(1);

/// Longest pause that the drain adds for a sink that takes nothing.
const LONGEST_BACKOFF: Nanos = Nanos::from_millis(10);

/// Divisor: the pause grows by this fraction of the time without success.
const BACKOFF_PARTS: u64 = 8;

/// Time of the next offer to a sink. The sink's owner stores it, and every CPU that logs reads it.
///
/// It is stored as a start and a length, in words that need no 64-bit atomics. Readers may see
/// parts of two entries. The result is then a time within one second from now, at which the reader
/// returns.
#[derive(Debug)]
pub(crate) struct NextOffer {
    pub(crate) since: AtomicUsize,
    /// Length in units; 0 if the sink takes more at once.
    pub(crate) wait: AtomicUsize,
    /// Number plus 1 of the CPU that makes it; 0 for none, because all was sent.
    pub(crate) responsible_cpu: AtomicUsize,
    /// Sum of the waits since the sink last took bytes.
    pub(crate) backoff: AtomicUsize,
}

impl NextOffer {
    /// Returns the ready time if it is in the future.
    ///
    /// If the clock is further from the start than the stored wait, in either direction, it has
    /// jumped, and the entry is void. So is every entry while the clock has no rate.
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

    /// Makes `cpu` responsible for the next offer, unless another CPU is. If two CPUs do so at the same time,
    /// both return.
    pub(crate) fn claim(&self, cpu: u16) -> bool {
        let claimed = self.responsible_cpu.load(Ordering::Relaxed);
        if claimed == 0 {
            self.responsible_cpu.store(word_of(cpu), Ordering::Relaxed);
        }
        claimed == 0 || claimed == word_of(cpu)
    }

    /// Returns whether `cpu` is responsible for the next offer.
    pub(crate) fn is_claimed_by(&self, cpu: u16) -> bool {
        self.responsible_cpu.load(Ordering::Relaxed) == word_of(cpu)
    }

    /// Ends the responsibility of `cpu`.
    pub(crate) fn release(&self, cpu: u16) {
        if self.is_claimed_by(cpu) {
            self.responsible_cpu.store(0, Ordering::Relaxed);
        }
    }

    /// Stores the result of an offer of the slice that began at `start`, and returns when to make
    /// the next one.
    pub(crate) fn offered(&self, given: Offered, cpu: u16, start: Nanos, now: Nanos) -> Nanos {
        let at = match given.ready_at {
            None => now + GONE,
            Some(ready_at) if given.taken > 0 => {
                self.backoff.store(0, Ordering::Relaxed);
                ready_at
            }
            Some(ready_at) => self.back_off(ready_at, start, now),
        };
        // Ready while the rest of the entry changes: an owner that stops in between leaves no old
        // wait with a new start.
        self.wait.store(0, Ordering::Relaxed);
        self.responsible_cpu.store(word_of(cpu), Ordering::Relaxed);
        self.since.store(words(now), Ordering::Relaxed);
        self.wait
            .store(words((at - now).min(GONE)), Ordering::Release);
        at
    }

    /// Returns the time of the next offer to a sink that took nothing: its ready time, but later
    /// the longer it has taken nothing. On a slow CPU, the ready time of a busy sink has passed when
    /// the offer returns. The CPU then pauses for as long as the slice took.
    fn back_off(&self, ready_at: Nanos, start: Nanos, now: Nanos) -> Nanos {
        let backoff = self.backoff.load(Ordering::Relaxed);
        let mut pause = Nanos(backoff as u64 * UNIT) / BACKOFF_PARTS;
        if ready_at <= now {
            let is_stuck = ready_at - start <= AT_ONCE;
            pause = pause.max(if is_stuck {
                STUCK
            } else {
                (now - start).min(STUCK)
            });
        }
        let at = ready_at.max(now + pause);
        let waits = words((at - now).min(GONE)).max(1);
        let most = words(LONGEST_BACKOFF * BACKOFF_PARTS);
        self.backoff
            .store((backoff + waits).min(most), Ordering::Relaxed);
        at
    }
}

fn word_of(cpu: u16) -> usize {
    usize::from(cpu) + 1
}

/// Converts a time to units. Rounds down, so that a CPU that returns at the stored time is never
/// early.
fn words(span: Nanos) -> usize {
    (span.0 / UNIT) as usize
}
