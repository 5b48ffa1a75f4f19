//! Waits that end even if the clock stops or jumps.

use crate::{Clock, Nanos};

/// Divisor: one step of the clock uses at most this fraction of a timeout.
const LARGEST_STEP: u64 = 4;

/// Largest charge of a read without progress of the clock. The default of [`Clock::wait_until`]
/// returns after 16,384 such reads, which take about as long.
const LONGEST_UNSEEN: Nanos = Nanos::from_micros(200);

/// Length of a wait, bounded by time and by the number of clock reads.
///
/// The waiting loop charges each read. A read costs the time since the previous one, and at least
/// the pause that the loop requested, of which up to 200 us count. So a clock that stops or goes
/// back cannot prolong the wait without end. If the clock has long steps, the reads between two of
/// them are not charged twice. A step forward costs at most a quarter of the timeout, or
/// [`largest_step`](Self::largest_step), so a clock that jumps does not end the wait.
///
/// ```
/// use nostall_io::{Clock, Nanos, Timeout};
///
/// /// Waits until `ready`, for 1 ms at most.
/// fn wait(clock: &impl Clock, ready: impl Fn() -> bool) -> bool {
///     let pause = Nanos::from_micros(1);
///     let mut timeout = Timeout::new(clock.now(), Nanos::from_millis(1));
///     while !timeout.is_over() {
///         if ready() {
///             return true;
///         }
///         clock.wait_until(clock.now() + pause);
///         timeout.charge(clock.now(), pause);
///     }
///     false
/// }
///
/// struct Stopped;
///
/// impl Clock for Stopped {
///     fn now(&self) -> Nanos {
///         Nanos(0)
///     }
/// }
/// assert!(!wait(&Stopped, || false));
/// ```
#[derive(Clone, Debug)]
pub struct Timeout {
    start: Nanos,
    span: Nanos,
    elapsed: Nanos,
    largest_step: Nanos,
    last: Nanos,
    /// Time charged for reads without progress, beyond the time that the clock has shown.
    ahead: Nanos,
}

impl Timeout {
    /// Creates a wait of `span` that starts at `now`.
    pub const fn new(now: Nanos, span: Nanos) -> Self {
        Self {
            start: now,
            span,
            elapsed: Nanos::ZERO,
            largest_step: Nanos(span.0 / LARGEST_STEP),
            last: now,
            ahead: Nanos::ZERO,
        }
    }

    /// Sets the longest step of the clock that counts in full, instead of a quarter of the timeout.
    #[must_use]
    pub const fn largest_step(self, largest_step: Nanos) -> Self {
        Self {
            largest_step,
            ..self
        }
    }

    /// Charges a read at `now`, after a requested pause of `pause`. If the clock shows less than
    /// the pause, at most 200 us of it count.
    pub fn charge(&mut self, now: Nanos, pause: Nanos) {
        // A read without a pause must also bring the end nearer.
        self.look(now, pause.min(LONGEST_UNSEEN).max(Nanos(1)));
    }

    /// Charges a read at `now` that takes at least `least`.
    fn look(&mut self, now: Nanos, least: Nanos) {
        let passed = (now - self.last).min(self.largest_step);
        let cost = (passed - self.ahead).max(least);
        self.ahead = self.ahead + cost - passed;
        self.elapsed = self.elapsed + cost;
        self.last = now;
    }

    /// Polls `clock` for `pause`, and returns whether it advanced meanwhile.
    ///
    /// Calls [`Clock::now`], and `relax` in between. It does not call [`Clock::wait_until`] and
    /// [`Clock::sleep_until`], because a clock's own implementation may not return if the clock
    /// stops. A poll without progress counts as `still`, so there are at most `pause / still` of
    /// them in a row.
    pub fn poll(
        &mut self,
        clock: &impl Clock,
        pause: Nanos,
        still: Nanos,
        mut relax: impl FnMut(),
    ) -> bool {
        let start = self.update(clock);
        let mut has_moved = false;
        while self.elapsed - start < pause {
            relax();
            let now = clock.now();
            if now > self.last {
                has_moved = true;
                self.look(now, Nanos::ZERO);
            } else {
                self.look(now, still);
            }
        }
        has_moved
    }

    /// Reads `clock` without a charge, and returns the time since the start, which never decreases.
    ///
    /// A loop that calls only this does not end if the clock stops.
    pub fn update(&mut self, clock: &impl Clock) -> Nanos {
        self.look(clock.now(), Nanos::ZERO);
        self.elapsed
    }

    /// Returns the clock's time, as if it had advanced evenly since the start.
    pub fn now(&self) -> Nanos {
        self.start + self.elapsed
    }

    /// Returns the used time.
    pub const fn elapsed(&self) -> Nanos {
        self.elapsed
    }

    /// Returns the remaining time.
    pub const fn left(&self) -> Nanos {
        Nanos(self.span.0.saturating_sub(self.elapsed.0))
    }

    /// Returns whether no time remains.
    pub const fn is_over(&self) -> bool {
        self.elapsed.0 >= self.span.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    const SPAN: Nanos = Nanos::from_millis(10);
    const PAUSE: Nanos = Nanos::from_micros(1);
    const HOUR: Nanos = Nanos::from_secs(3_600);

    /// Charges reads until a timeout is over, with `clock` giving the time of each. Returns their
    /// number.
    fn looks(clock: impl Fn(u64) -> Nanos) -> u64 {
        let mut timeout = Timeout::new(clock(0), SPAN);
        let mut looks = 0;
        while !timeout.is_over() {
            looks += 1;
            timeout.charge(clock(looks), PAUSE);
        }
        looks
    }

    #[test]
    fn a_timeout_is_used_up_by_time() {
        assert_eq!(looks(|look| Nanos::from_micros(5) * look), 2_000);
    }

    #[test]
    fn a_clock_with_long_steps_uses_a_timeout_up_in_its_time() {
        // Reads are 2 us apart, and request 1 us.
        let step = Nanos::from_millis(1);
        assert_eq!(
            looks(|look| step * (Nanos::from_micros(2) * look / step.0).0),
            5_000
        );
    }

    #[test]
    fn a_clock_that_stops_or_goes_back_cannot_prolong_a_timeout() {
        assert_eq!(looks(|_| HOUR), 10_000);
        assert_eq!(looks(|look| HOUR - PAUSE * look), 10_000);
        let set_back = |look| match look {
            0..100 => HOUR + PAUSE * look,
            _ => PAUSE * look,
        };
        assert_eq!(looks(set_back), 10_000);
    }

    #[test]
    fn without_a_rate_reads_are_counted_and_the_rate_may_be_set_meanwhile() {
        assert_eq!(looks(|_| Nanos::UNKNOWN), 10_000);
        let late = |look| match look {
            0..100 => Nanos::UNKNOWN,
            _ => HOUR + PAUSE * look,
        };
        assert_eq!(looks(late), 10_000);
    }

    #[test]
    fn a_jump_ahead_costs_a_quarter_of_a_timeout_or_the_largest_step() {
        let jumping = |look| match look {
            0..100 => PAUSE * look,
            _ => HOUR + PAUSE * look,
        };
        assert_eq!(looks(jumping), 7_501);
        let mut timeout = Timeout::new(Nanos::ZERO, SPAN).largest_step(SPAN / 10);
        timeout.charge(HOUR, PAUSE);
        assert_eq!(timeout.left(), SPAN * 9 / 10);
    }

    #[test]
    fn the_time_of_a_timeout_is_its_start_plus_the_time_that_it_counted() {
        let mut timeout = Timeout::new(HOUR, SPAN);
        assert_eq!(timeout.now(), HOUR);
        timeout.charge(HOUR + PAUSE * 3, PAUSE);
        assert_eq!(timeout.now(), HOUR + PAUSE * 3);
    }

    const STILL: Nanos = Nanos(50);

    /// Clock that returns these times in turn, and the last one forever.
    struct Shows<'a>(&'a [u64], Cell<usize>);

    impl Clock for Shows<'_> {
        fn now(&self) -> Nanos {
            let at = self.1.get();
            self.1.set(at + 1);
            Nanos(self.0[at.min(self.0.len() - 1)])
        }
    }

    /// Polls this clock for each of `pauses`. Returns the number of reads, the counted time, and
    /// whether the clock advanced in the last pause.
    fn poll(times: &[u64], pauses: &[u64]) -> (usize, Nanos, bool) {
        let clock = Shows(times, Cell::new(0));
        let mut timeout = Timeout::new(clock.now(), HOUR).largest_step(SPAN);
        let mut has_moved = false;
        for &pause in pauses {
            has_moved = timeout.poll(&clock, Nanos(pause), STILL, || ());
        }
        (clock.1.get(), timeout.elapsed(), has_moved)
    }

    #[test]
    fn a_poll_ends_at_its_time() {
        assert_eq!(
            poll(&[100, 100, 150, 200, 300], &[100]),
            (4, Nanos(100), true)
        );
        assert_eq!(poll(&[100], &[0]), (2, Nanos::ZERO, false));
    }

    #[test]
    fn a_poll_ends_even_if_the_clock_stops_goes_back_or_jumps_ahead() {
        const NAP: Nanos = Nanos(200 * STILL.0);
        assert_eq!(poll(&[5], &[NAP.0]), (202, NAP, false));
        assert_eq!(poll(&[u64::MAX], &[NAP.0]), (202, NAP, false));
        let nap = NAP + Nanos(100);
        let back = [2 * HOUR.0, 2 * HOUR.0, 2 * HOUR.0 + 100, HOUR.0];
        assert_eq!(poll(&back, &[nap.0]), (203, nap, true));
        assert_eq!(poll(&[0, 0, HOUR.0], &[NAP.0]), (3, SPAN, true));
    }

    #[test]
    fn a_poll_of_a_coarse_clock_is_not_counted_twice_nor_are_polls_in_a_row() {
        let tick = 10 * STILL.0;
        let times = [0, 0, 0, 0, tick, tick, tick, 2 * tick];
        assert_eq!(poll(&times, &[2 * tick]), (8, Nanos(2 * tick), true));
        // Two pauses end before the clock's step, and are a part of its time.
        let times = [0, 0, 0, 0, 0, 0, 0, tick];
        let pauses = [2 * STILL.0, 2 * STILL.0, 0];
        assert_eq!(poll(&times, &pauses), (8, Nanos(tick), false));
    }
}
