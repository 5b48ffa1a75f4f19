//! The host's monotonic clock.

use std::time::{Duration, Instant};

use crate::{Clock, Nanos};

/// The host's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct HostClock {
    start: Instant,
}

impl HostClock {
    /// Creates a clock that starts now.
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for HostClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for HostClock {
    fn now(&self) -> Nanos {
        Nanos(
            self.start
                .elapsed()
                .as_nanos()
                .try_into()
                .unwrap_or(u64::MAX),
        )
    }

    fn sleep_until(&self, deadline: Nanos) {
        let left = deadline - self.now();
        std::thread::sleep(Duration::from_nanos(left.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_at_the_deadline_or_later() {
        let clock = HostClock::new();
        let deadline = clock.now() + Nanos::from_micros(300);
        clock.wait_until(deadline);
        assert!(clock.now() >= deadline);
        clock.wait_until(Nanos::ZERO);
        let deadline = clock.now() + Nanos::from_micros(300);
        clock.sleep_until(deadline);
        assert!(clock.now() >= deadline);
        clock.sleep_until(Nanos::ZERO);
    }

    /// A sleep for the clock's time since its start would not end.
    #[test]
    fn a_time_that_has_passed_is_not_slept_for() {
        let day = Duration::from_secs(86_400);
        let clock = HostClock {
            start: HostClock::new().start.checked_sub(day).unwrap(),
        };
        clock.sleep_until(Nanos::ZERO);
        assert!(clock.now() >= Nanos::from_secs(86_400));
    }
}
