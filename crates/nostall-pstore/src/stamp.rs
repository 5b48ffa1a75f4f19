//! Stamps of trace records.

use core::sync::atomic::{AtomicUsize, Ordering};

use nostall_io::Clock;

/// Gives each record its time, or its turn. 56 bits of it are kept where the CPU
/// shares the word.
///
/// Any closure will do: `|| rdtsc()`.
pub trait Stamp {
    /// The next one. May be called by a handler that interrupted a call.
    fn next(&self) -> u64;
}

impl<F: Fn() -> u64> Stamp for F {
    #[inline]
    fn next(&self) -> u64 {
        self()
    }
}

/// Nanoseconds of a clock. If all CPUs' clocks agree (x86's invariant TSC, Arm's and RISC-V's
/// counters), the merged trace is in true order. Records from before the clock's rate is known
/// have no place in that order: use the counter's own steps there.
#[derive(Clone, Debug)]
pub struct ByClock<C>(pub C);

impl<C: Clock> Stamp for ByClock<C> {
    #[inline]
    fn next(&self) -> u64 {
        self.0.now().0
    }
}

/// A counter that all CPUs share and none locks, as Linux's: cheap on one CPU,
/// fought over by many. Two CPUs may take the same number, or undo each other's;
/// the merged trace is nearly in order. A machine word wide.
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

/// A count of this recorder's own: cheapest, and says nothing of the order between
/// CPUs. A machine word wide.
#[derive(Debug, Default)]
pub struct OwnCounter(AtomicUsize);

impl OwnCounter {
    /// Creates a counter from 0 on.
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
