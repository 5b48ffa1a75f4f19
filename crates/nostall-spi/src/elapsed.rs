//! The length of a wait, on any clock.

use nostall_io::Nanos;

/// Looks at a clock that stands still, after which every wait is over. A clock that ticks
/// a hundred times a second is looked at less often between two ticks.
const LOOKS: u32 = 1 << 24;

/// Longer than any wait.
pub(crate) const NEVER: Nanos = Nanos(u64::MAX);

/// Time that a wait has taken so far. A clock that stops or goes back does not make a wait
/// endless: the looks are counted.
#[derive(Debug)]
pub(crate) struct Elapsed {
    last: Nanos,
    total: Nanos,
    looks: u32,
}

impl Elapsed {
    /// A wait that begins.
    pub(crate) const fn new(now: Nanos) -> Self {
        Self {
            last: now,
            total: Nanos::ZERO,
            looks: 0,
        }
    }

    /// The time until `now`; [`NEVER`] after too many looks at a clock that stands still.
    pub(crate) fn at(&mut self, now: Nanos) -> Nanos {
        self.count(now, 1)
    }

    /// The same after the platform has waited for `span`, which are as many looks as
    /// [`wait_until`](nostall_io::Clock::wait_until) takes at a clock that stands still.
    pub(crate) fn after(&mut self, span: Nanos, now: Nanos) -> Nanos {
        self.count(now, span.0.clamp(1_000, 16_384) as u32)
    }

    fn count(&mut self, now: Nanos, looks: u32) -> Nanos {
        self.looks = match now > self.last {
            true => 0,
            false => self.looks.saturating_add(looks),
        };
        // A step back counts as no time.
        self.total = self.total + (now - self.last);
        self.last = now;
        match self.looks < LOOKS {
            true => self.total,
            false => NEVER,
        }
    }
}
