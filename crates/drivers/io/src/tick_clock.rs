//! Counters of a processor as clocks.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::{Clock, Nanos};

/// Nanoseconds in a second, times 2^32.
const SECOND: u64 = 1_000_000_000 << 32;

/// Counter of a processor: it starts at a reset, has one rate, and is the same on all CPUs.
pub trait TickSource {
    /// Returns the counter's value.
    fn ticks() -> u64;
}

/// Clock for a `static`, from a counter whose rate is set after the first reads.
///
/// Until [`set_rate`](Self::set_rate), [`now`](Clock::now) returns [`Nanos::UNKNOWN`], so log
/// records have no time instead of a wrong one. For drivers it is a stopped clock:
/// [`Timeout`](crate::Timeout) and [`Clock::wait_until`] count polls, so that each wait ends.
///
/// All CPUs have the same time. The clock does not correct an offset for each CPU, because then
/// each read would need the CPU's number, with pre-emption off. Time 0 is the counter's start.
#[derive(Debug)]
pub struct TickClock<T> {
    /// Nanoseconds for each step, times 2^32; 0 while the rate is unknown.
    scale: AtomicU64,
    source: PhantomData<fn() -> T>,
}

impl<T> TickClock<T> {
    /// Creates a clock without a rate.
    pub const fn new() -> Self {
        Self {
            scale: AtomicU64::new(0),
            source: PhantomData,
        }
    }

    /// Sets the rate in hertz, for all CPUs. A rate of 0, or of more than 2^32 GHz, is unknown.
    pub fn set_rate(&self, hz: u64) {
        let scale = SECOND.checked_div(hz).unwrap_or(0);
        // One word, so a reader sees either the old or the new rate.
        self.scale.store(scale, Ordering::Relaxed);
    }

    /// Returns the time after `ticks` steps.
    #[inline]
    fn time(&self, ticks: u64) -> Nanos {
        let scale = self.scale.load(Ordering::Relaxed);
        if scale == 0 {
            return Nanos::UNKNOWN;
        }
        let time = (u128::from(ticks) * u128::from(scale)) >> 32;
        Nanos(time.min(i64::MAX as u128) as u64)
    }

    /// Returns the first counter value at which [`now`](Clock::now) is at least `at`, for a timer
    /// with a deadline. Returns `None` if the rate or `at` is unknown.
    pub fn ticks_at(&self, at: Nanos) -> Option<u64> {
        let scale = self.scale.load(Ordering::Relaxed);
        if scale == 0 || !at.is_known() {
            return None;
        }
        let ticks = (u128::from(at.0) << 32).div_ceil(scale.into());
        Some(u64::try_from(ticks).unwrap_or(u64::MAX))
    }
}

impl<T: TickSource> TickClock<T> {
    /// Returns the counter's value.
    #[inline]
    pub fn ticks() -> u64 {
        T::ticks()
    }
}

impl<T> Default for TickClock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: TickSource> Clock for TickClock<T> {
    #[inline]
    fn now(&self) -> Nanos {
        self.time(T::ticks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(hz: u64) -> TickClock<()> {
        let clock = TickClock::new();
        clock.set_rate(hz);
        clock
    }

    #[test]
    fn without_a_rate_no_time_is_known() {
        for rate in [TickClock::new(), rate(0), rate(u64::MAX)] {
            assert_eq!(rate.time(0), Nanos::UNKNOWN);
            assert_eq!(rate.time(u64::MAX), Nanos::UNKNOWN);
            assert_eq!(rate.ticks_at(Nanos(1)), None);
        }
        assert_eq!(rate(1_000).ticks_at(Nanos::UNKNOWN), None);
    }

    #[test]
    fn a_second_has_as_many_steps_as_the_rate() {
        for hz in [1, 32_768, 10_000_000, 1_000_000_000, 3_187_200_000] {
            let time = rate(hz).time(hz).0;
            assert!(
                (999_999_999..=1_000_000_000).contains(&time),
                "{hz}: {time}"
            );
        }
        // For a CPU at 3 GHz, an hour is right to within 10 us.
        let hour = rate(2_999_999_999).time(2_999_999_999 * 3_600).0;
        assert!(3_600_000_000_000 - hour < 10_000, "{hour}");
    }

    #[test]
    fn a_time_beyond_all_known_ones_is_the_last_known_one() {
        assert_eq!(rate(1).time(u64::MAX), Nanos(i64::MAX as u64));
        assert!(rate(1).time(u64::MAX).is_known());
    }

    proptest! {
        #[test]
        fn a_timer_that_is_set_for_a_time_is_never_early(hz in 1u64..=6_000_000_000, at: u32) {
            let (rate, at) = (rate(hz), Nanos(u64::from(at) * 1_000));
            let ticks = rate.ticks_at(at).unwrap();
            prop_assert!(rate.time(ticks) >= at);
            prop_assert!(ticks == 0 || rate.time(ticks - 1) < at, "and not a step late");
        }
    }
}
