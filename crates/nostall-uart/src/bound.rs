//! Bounds on waits.

use nostall_io::Nanos;

/// One step of the clock uses up at most this fraction of a bound.
const LARGEST_STEP: u64 = 4;

/// A look without progress of the clock uses up at most this. [`Clock::wait_until`] as
/// implemented by its trait returns after 16,384 such reads, which take about as long.
///
/// [`Clock::wait_until`]: nostall_io::Clock::wait_until
const LONGEST_UNSEEN: Nanos = Nanos::from_micros(200);

/// A bound on a wait, which holds whatever the clock does.
///
/// The waiting loop charges each of its looks. A look costs the time since the look before,
/// and at least the pause that was asked for, up to 200 us, so that a clock that stops or
/// goes back cannot make the wait endless. If the clock has long steps, the looks between
/// two of them are not charged twice. A look costs at most a quarter of the bound, so that a
/// clock that jumps ahead does not end the wait.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    left: Nanos,
    largest_step: Nanos,
    last: Nanos,
    /// Charged for looks without progress, beyond the time that the clock has shown.
    ahead: Nanos,
}

impl Bound {
    /// A wait of `span` that begins at `now`.
    pub(crate) fn new(now: Nanos, span: Nanos) -> Self {
        Self {
            left: span,
            largest_step: span / LARGEST_STEP,
            last: now,
            ahead: Nanos::ZERO,
        }
    }

    /// Charges a look at `now`, made after a pause that was to last for `pause`.
    pub(crate) fn charge(&mut self, now: Nanos, pause: Nanos) {
        // A look without any pause must still bring the end nearer.
        let least = pause.min(LONGEST_UNSEEN).max(Nanos(1));
        let passed = (now - self.last).min(self.largest_step);
        let cost = (passed - self.ahead).max(least);
        self.ahead = self.ahead + cost - passed;
        self.left = self.left - cost;
        self.last = now;
    }

    /// Time that is left.
    pub(crate) const fn left(&self) -> Nanos {
        self.left
    }

    /// Whether the bound is used up.
    pub(crate) fn is_spent(&self) -> bool {
        self.left == Nanos::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Nanos = Nanos::from_millis(10);
    const PAUSE: Nanos = Nanos::from_micros(1);

    /// Looks until a bound is used up, with `clock` showing the time of each look.
    fn looks(clock: impl Fn(u64) -> Nanos) -> u64 {
        let mut bound = Bound::new(clock(0), SPAN);
        let mut looks = 0;
        while !bound.is_spent() {
            looks += 1;
            bound.charge(clock(looks), PAUSE);
        }
        looks
    }

    #[test]
    fn a_bound_is_used_up_by_time() {
        assert_eq!(looks(|look| Nanos::from_micros(5) * look), 2_000);
    }

    #[test]
    fn a_clock_with_long_steps_uses_a_bound_up_in_its_time() {
        // Looks are 2 us apart, and ask for 1 us.
        let step = Nanos::from_millis(1);
        assert_eq!(
            looks(|look| step * (Nanos::from_micros(2) * look / step.0).0),
            5_000
        );
    }

    #[test]
    fn a_clock_that_stops_or_goes_back_cannot_prolong_a_bound() {
        let hour = Nanos::from_secs(3_600);
        assert_eq!(looks(|_| hour), 10_000);
        assert_eq!(looks(|look| hour - PAUSE * look), 10_000);
        let set_back = |look| match look {
            0..100 => hour + PAUSE * look,
            _ => PAUSE * look,
        };
        assert_eq!(looks(set_back), 10_000);
    }

    #[test]
    fn a_jump_ahead_costs_a_quarter_of_a_bound() {
        let hour = Nanos::from_secs(3_600);
        let jumping = |look| match look {
            0..100 => PAUSE * look,
            _ => hour + PAUSE * look,
        };
        assert_eq!(looks(jumping), 7_501);
    }
}
