//! Waits that end, whatever the clock does.

use nostall_io::{Clock, Nanos};

use crate::sync::STILL;

/// The longest step of a clock that is believed. More is a clock that jumped, or a
/// virtual machine that was stopped: neither is to cost a panic its text.
const LONGEST_STEP: Nanos = Nanos::from_millis(10);

/// Counts a clock's steps forward.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    start: Nanos,
    last: Nanos,
    elapsed: Nanos,
}

impl Stopwatch {
    pub(crate) fn start(clock: &impl Clock) -> Self {
        let now = clock.now();
        Self {
            start: now,
            last: now,
            elapsed: Nanos::ZERO,
        }
    }

    /// Returns the clock's time, as if it had gone on evenly since the start.
    pub(crate) fn now(&self) -> Nanos {
        self.start + self.elapsed
    }

    /// Returns the time since the start. Never goes back.
    pub(crate) fn elapsed(&mut self, clock: &impl Clock) -> Nanos {
        let now = clock.now();
        self.elapsed = self.elapsed + (now - self.last).min(LONGEST_STEP);
        self.last = now;
        self.elapsed
    }

    /// Waits for `nap`, and returns whether the clock went on meanwhile.
    ///
    /// Polls [`Clock::now`] and calls `relax` in between. [`Clock::wait_until`] and
    /// [`Clock::sleep_until`] are not called: a clock's own implementation may not return
    /// if the clock stops. A poll that finds no step forward counts as [`STILL`], so that
    /// there are at most `nap / STILL` of them in a row.
    pub(crate) fn pause(
        &mut self,
        clock: &impl Clock,
        nap: Nanos,
        mut relax: impl FnMut(),
    ) -> bool {
        let start = self.elapsed(clock);
        let mut still = Nanos::ZERO;
        while self.elapsed - start + still < nap {
            relax();
            let before = self.elapsed;
            if self.elapsed(clock) > before {
                // A coarse clock has made up for it.
                still = Nanos::ZERO;
            } else {
                still = still + STILL;
            }
        }
        let has_moved = self.elapsed > start;
        self.elapsed = self.elapsed + still;
        has_moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    const HOUR: u64 = Nanos::from_secs(3_600).0;

    /// Shows these times in turn, and the last one for ever.
    struct Shows<'a>(&'a [u64], Cell<usize>);

    impl Clock for Shows<'_> {
        fn now(&self) -> Nanos {
            let at = self.1.get();
            self.1.set(at + 1);
            Nanos(self.0[at.min(self.0.len() - 1)])
        }
    }

    /// How often a pause of `nap` looks at this clock, and what it counts.
    fn pause(times: &[u64], nap: u64) -> (usize, Nanos) {
        let clock = Shows(times, Cell::new(0));
        let mut watch = Stopwatch::start(&clock);
        watch.pause(&clock, Nanos(nap), || ());
        (clock.1.get(), watch.elapsed)
    }

    #[test]
    fn a_wait_is_over_when_the_clock_says_so() {
        assert_eq!(pause(&[100, 100, 150, 200, 300], 100), (4, Nanos(100)));
        assert_eq!(pause(&[100], 0), (2, Nanos::ZERO));
    }

    #[test]
    fn a_wait_ends_although_the_clock_stops_goes_back_or_jumps_ahead() {
        const NAP: Nanos = Nanos(200 * STILL.0);
        assert_eq!(pause(&[5], NAP.0), (202, NAP));
        assert_eq!(pause(&[u64::MAX], NAP.0), (202, NAP));
        let nap = NAP + Nanos(100);
        let back = [2 * HOUR, 2 * HOUR, 2 * HOUR + 100, HOUR];
        assert_eq!(pause(&back, nap.0), (203, nap));
        assert_eq!(pause(&[0, 0, HOUR], NAP.0), (3, LONGEST_STEP));
    }

    #[test]
    fn a_coarse_clock_is_not_counted_twice() {
        let tick = 10 * STILL.0;
        let times = [0, 0, 0, 0, tick, tick, tick, 2 * tick];
        assert_eq!(pause(&times, 2 * tick), (8, Nanos(2 * tick)));
    }
}
