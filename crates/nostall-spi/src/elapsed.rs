//! The length of a wait, on any clock.

use nostall_io::Nanos;

/// Looks at a clock that stands still, after which every wait is over. A clock that ticks
/// a hundred times a second is looked at less often between two ticks.
const LOOKS: u32 = 1 << 24;

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

    /// The time until `now`; the longest there is after too many looks at a clock that
    /// stands still.
    pub(crate) fn at(&mut self, now: Nanos) -> Nanos {
        self.looks = match now > self.last {
            true => 0,
            false => self.looks.saturating_add(1),
        };
        // A step back counts as no time.
        self.total = self.total + (now - self.last);
        self.last = now;
        match self.looks < LOOKS {
            true => self.total,
            false => Nanos(u64::MAX),
        }
    }
}
