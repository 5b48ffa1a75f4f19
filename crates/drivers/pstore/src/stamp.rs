//! Stamps of trace records.

use core::sync::atomic::{AtomicUsize, Ordering};

use nostall_io::Clock;

/// Source of the stamps of records: a time or a sequence number. 56 bits are kept if the CPU shares
/// the word.
///
/// Any closure works: `|| rdtsc()`.
pub trait Stamp {
    /// Returns the next stamp. A handler that interrupted a call may call it.
    fn next(&self) -> u64;
}

impl<F: Fn() -> u64> Stamp for F {
    #[inline]
    fn next(&self) -> u64 {
        self()
    }
}

/// Nanoseconds of a clock. If all CPUs' clocks agree (x86's invariant TSC, Arm's and RISC-V's
/// counters), the merged trace is in the true order. Records made before the clock has a rate
/// cannot be ordered: use the raw counter until then.
#[derive(Clone, Debug)]
pub struct ByClock<C>(pub C);

impl<C: Clock> Stamp for ByClock<C> {
    #[inline]
    fn next(&self) -> u64 {
        self.0.now().0
    }
}

/// Counter shared by all CPUs without a lock, as in Linux. It is fast on one CPU and contended on
/// many. Two CPUs may take the same number. A CPU that is interrupted between its load and its store
/// takes the counter back. So the stamps of each CPU may decrease, and the merged trace is nearly in
/// order. It has the width of a machine word.
#[derive(Clone, Debug)]
pub struct SharedCounter<'a>(pub &'a AtomicUsize);

impl Stamp for SharedCounter<'_> {
    #[inline]
    fn next(&self) -> u64 {
        let stamp = self.0.load(Ordering::Relaxed);
        self.0.store(stamp.wrapping_add(1), Ordering::Relaxed);
        stamp as u64
    }
}

/// Counter of one recorder. It is the fastest, but gives no order between CPUs. It has the width of
/// a machine word.
#[derive(Debug, Default)]
pub struct OwnCounter(AtomicUsize);

impl OwnCounter {
    /// Creates a counter that starts at 0.
    pub const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }
}

impl Stamp for OwnCounter {
    #[inline]
    fn next(&self) -> u64 {
        SharedCounter(&self.0).next()
    }
}
