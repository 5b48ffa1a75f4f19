//! Time in nanoseconds, and clocks that tell it.

use core::fmt;
use core::ops::{Add, Div, Mul, Sub};

/// A point in time since some fixed start, or a span of it, in nanoseconds.
///
/// 64 bits last for 584 years. Arithmetic saturates: a deadline that overflows
/// lies in the far future instead of in the past, and nothing panics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of `us` microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// A span of `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// A span of `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Nanos {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl Div<u64> for Nanos {
    type Output = Self;
    /// Rounds down; a divisor of 0 gives the far future.
    fn div(self, divisor: u64) -> Self {
        Self(self.0.checked_div(divisor).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Nanos {
    /// With the largest unit that leaves a whole part: `1.7 us`, `22.0 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..1_000 => return write!(f, "{} ns", self.0),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        write!(f, "{}.{} {name}", self.0 / unit, self.0 % unit * 10 / unit)
    }
}

/// A clock that never runs backwards.
///
/// It must advance by itself, or by being waited on: drivers bound their waits
/// by it.
pub trait Clock {
    /// The time since this clock's start.
    fn now(&self) -> Nanos;

    /// Returns at `deadline` or soon after; at once if it has passed. Keeps the
    /// CPU: for waits of microseconds, and where nobody may run meanwhile.
    fn wait_until(&self, deadline: Nanos) {
        while self.now() < deadline {
            core::hint::spin_loop();
        }
    }

    /// Returns at `deadline` or later, and lets others have the CPU until then.
    ///
    /// A kernel with a scheduler blocks the caller here. Without anybody to give
    /// the CPU to it is [`wait_until`](Self::wait_until).
    fn sleep_until(&self, deadline: Nanos) {
        self.wait_until(deadline);
    }
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Nanos {
        (**self).now()
    }
    fn wait_until(&self, deadline: Nanos) {
        (**self).wait_until(deadline);
    }
    fn sleep_until(&self, deadline: Nanos) {
        (**self).sleep_until(deadline);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping_or_panicking() {
        let never = Nanos(u64::MAX);
        assert_eq!(never + Nanos(1), never);
        assert_eq!(Nanos(1) - Nanos(2), Nanos::ZERO);
        assert_eq!(Nanos::from_secs(u64::MAX), never);
        assert_eq!(Nanos(2) * u64::MAX, never);
        assert_eq!(Nanos(2) / 0, never);
    }

    #[test]
    fn a_span_prints_with_the_unit_a_person_would_choose() {
        extern crate std;
        use std::string::ToString;
        assert_eq!(Nanos(999).to_string(), "999 ns");
        assert_eq!(Nanos(1_700).to_string(), "1.7 us");
        assert_eq!(Nanos(12_870_000).to_string(), "12.8 ms");
        assert_eq!(Nanos::from_secs(22).to_string(), "22.0 s");
    }
}
