//! The counter that all CPUs share, as the kernel's clock.

use nostall_io::{Clock, Nanos, TickSource};

use crate::arch::{Counter, counter_hz};

/// The architecture's [`Counter`], with a known rate.
#[derive(Clone, Copy)]
pub struct Timebase {
    start: u64,
    hz: u32,
    /// Nanoseconds per step, times 2^32.
    scale: u64,
}

impl Timebase {
    /// Creates the clock with the machine's rate.
    pub fn find() -> Self {
        let hz = counter_hz();
        Self {
            start: Counter::ticks(),
            hz,
            scale: (1_000_000_000 << 32) / u64::from(hz),
        }
    }

    /// Returns the first counter value at which [`now`](Clock::now) is at least `at`. It uses the
    /// same rounded scale, so a timer never expires early.
    pub fn steps_at(&self, at: Nanos) -> u64 {
        let steps = (u128::from(at.0) << 32).div_ceil(self.scale.into());
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        self.start.saturating_add(steps)
    }

    /// Returns the rate in steps per second.
    pub const fn hz(&self) -> u64 {
        self.hz as u64
    }
}

impl Clock for Timebase {
    fn now(&self) -> Nanos {
        let steps = Counter::ticks().wrapping_sub(self.start);
        Nanos(((u128::from(steps) * u128::from(self.scale)) >> 32) as u64)
    }
}
