//! Time in nanoseconds, and the trait for clocks.

use core::fmt;
use core::ops::{Add, Div, Mul, Sub};

use crate::{Held, StallCondition};

/// Time since a fixed start, or a duration, in nanoseconds.
///
/// A value of 64 bits lasts for 584 years. Arithmetic saturates: a deadline that overflows is in
/// the far future instead of the past, and nothing panics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// A duration of zero.
    pub const ZERO: Self = Self(0);

    /// Time of a clock without a rate: unknown, neither early nor late.
    ///
    /// No time from 2^63 ns (292 years) [is known](Self::is_known), so a deadline computed from
    /// this is also unknown. For a driver, a clock that returns this is stopped, and waits end
    /// after a number of polls ([`Timeout`](crate::Timeout)). When its rate is set, the clock goes back to the time since its
    /// start.
    pub const UNKNOWN: Self = Self(3 << 62);

    /// Creates a duration of `us` microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// Creates a duration of `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// Creates a duration of `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }

    /// Returns whether this is a time, and not [`UNKNOWN`](Self::UNKNOWN) or computed from it.
    ///
    /// A log shows blanks for an unknown time. A driver that paces by time polls instead, because
    /// the deadlines of a stopped clock are never reached.
    pub const fn is_known(self) -> bool {
        self.0 < 1 << 63
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
    /// Divides and rounds down. A divisor of 0 gives the far future.
    fn div(self, divisor: u64) -> Self {
        Self(self.0.checked_div(divisor).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Nanos {
    /// Writes the time with the largest unit that leaves an integer part: `1.7 us`, `22.0 s`.
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

/// A clock, and two ways to wait for a time.
///
/// It should advance by itself, or during a wait, and never go back. Drivers also bound their waits
/// by the number of reads. So a clock that stops or is set makes them neither hang nor fail at
/// once.
///
/// Its steps should be at most a millisecond. With longer ones, a predicted time comes with the next
/// step, so a serial port gets one FIFO of bytes for each. A clock that is too fast shortens each
/// limit of a wait. A port that is not stuck may then be reported as stuck.
pub trait Clock {
    /// Returns the time since this clock's start, or [`Nanos::UNKNOWN`] before its rate is known.
    fn now(&self) -> Nanos;

    /// Returns at `deadline` or soon after; at once if it has passed. Keeps the CPU: for waits of
    /// microseconds, and where no other code may run meanwhile.
    ///
    /// Returns at once if `deadline` [is unknown](Nanos::is_known) and the clock's time is known.
    /// The clock has got its rate since the deadline was computed, and never reaches it.
    ///
    /// The default reads the clock in a loop. It returns early if the clock stops or is set back.
    /// It does so after as many reads without progress as there are nanoseconds to wait, at least
    /// 1,000 and at most 16,384. A clock with longer steps needs its own implementation.
    fn wait_until(&self, deadline: Nanos) {
        let mut latest = self.now();
        let patience = (deadline - latest).0.clamp(1_000, 16_384);
        let mut without_progress = 0;
        while latest < deadline
            && without_progress < patience
            && (deadline.is_known() || !latest.is_known())
        {
            core::hint::spin_loop();
            let now = self.now();
            if now > latest {
                latest = now;
                without_progress = 0;
            } else {
                without_progress += 1;
            }
        }
    }

    /// Returns at `deadline` or later, and yields the CPU until then.
    ///
    /// A kernel with a scheduler blocks the caller here. Without a scheduler this is
    /// [`wait_until`](Self::wait_until), and a [stall](crate::Held).
    #[cfg_attr(feature = "stall-hook", track_caller)]
    fn sleep_until(&self, deadline: Nanos) {
        let _held = Held::begin(StallCondition::Sleep);
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
    #[cfg_attr(feature = "stall-hook", track_caller)]
    fn sleep_until(&self, deadline: Nanos) {
        (**self).sleep_until(deadline);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping_or_panicking() {
        let never = Nanos(u64::MAX);
        assert_eq!(never + Nanos(1), never);
        assert_eq!(Nanos(1) - Nanos(2), Nanos::ZERO);
        assert_eq!(Nanos::from_secs(u64::MAX), never);
        assert_eq!(Nanos(2) * u64::MAX, never);
        assert_eq!(Nanos(2) / 0, never);
    }

    /// A clock that counts its reads. Each read adds 10 ns, until the clock breaks.
    struct Broken<F> {
        reads: Cell<u64>,
        shown: F,
    }

    impl<F: Fn(u64) -> Nanos> Clock for Broken<F> {
        fn now(&self) -> Nanos {
            self.reads.set(self.reads.get() + 1);
            (self.shown)(self.reads.get())
        }
    }

    const HOUR: Nanos = Nanos::from_secs(3_600);

    /// Returns the number of reads of a clock that breaks at its 50th read, in a wait that would
    /// take 100,000 reads.
    fn reads(wait: impl Fn(&dyn Clock, Nanos), broken: impl Fn(Nanos) -> Nanos) -> u64 {
        let clock = Broken {
            reads: Cell::new(0),
            shown: |reads| {
                let right = HOUR * 2 + Nanos(10) * reads;
                if reads < 50 { right } else { broken(right) }
            },
        };
        let deadline = clock.now() + Nanos::from_millis(1);
        wait(&clock, deadline);
        clock.reads.get()
    }

    #[test]
    fn a_clock_that_stops_or_jumps_ends_a_wait_in_a_bounded_number_of_reads() {
        let waits: [fn(&dyn Clock, Nanos); 4] = [
            |clock, deadline| clock.wait_until(deadline),
            |clock, deadline| clock.sleep_until(deadline),
            |clock, deadline| (&clock).wait_until(deadline),
            |clock, deadline| (&clock).sleep_until(deadline),
        ];
        for wait in waits {
            let right = reads(wait, |right| right);
            assert!((100_000..100_010).contains(&right), "{right}");
            assert!(reads(wait, |_| HOUR * 2) < 17_000, "stopped");
            assert!(reads(wait, |right| right - HOUR) < 17_000, "set back");
            assert!(reads(wait, |right| HOUR * 3 - right) < 17_000, "backwards");
            assert!(reads(wait, |right| right + HOUR) < 60, "ahead");
        }
    }

    #[test]
    fn a_short_wait_for_a_stopped_clock_is_short() {
        let clock = Broken {
            reads: Cell::new(0),
            shown: |_| HOUR,
        };
        clock.wait_until(HOUR + Nanos::from_micros(1));
        // The first, and 1,000 without progress.
        assert_eq!(clock.reads.get(), 1_001);
    }

    #[test]
    fn a_wait_ends_with_the_read_that_shows_its_deadline() {
        let clock = Broken {
            reads: Cell::new(0),
            shown: |reads: u64| Nanos(10) * reads.min(6),
        };
        clock.wait_until(Nanos(60));
        assert_eq!(clock.reads.get(), 6);
        assert_eq!((&&clock).now(), Nanos(60));
    }

    #[test]
    fn an_unknown_time_stays_unknown_in_arithmetic_with_spans() {
        let span = HOUR * 24 * 365 * 100;
        for time in [Nanos::UNKNOWN, Nanos::UNKNOWN + span, Nanos::UNKNOWN - span] {
            assert!(!time.is_known(), "{time:?}");
        }
        assert!(Nanos::ZERO.is_known() && span.is_known());
        assert!(Nanos((1 << 63) - 1).is_known() && !Nanos(1 << 63).is_known());
        assert_eq!(
            HOUR - Nanos::UNKNOWN,
            Nanos::ZERO,
            "no span, once it is known"
        );
    }

    #[test]
    fn a_wait_for_a_clock_without_a_rate_takes_as_many_reads_as_nanoseconds() {
        let clock = Broken {
            reads: Cell::new(0),
            shown: |_| Nanos::UNKNOWN,
        };
        clock.wait_until(clock.now() + Nanos::from_micros(5));
        assert!((5_000..5_010).contains(&clock.reads.get()));
    }

    #[test]
    fn a_wait_until_an_unknown_time_ends_once_the_clock_has_a_rate() {
        let clock = Broken {
            reads: Cell::new(0),
            shown: |read| match read {
                0..=1 => Nanos::UNKNOWN,
                2..100_000 => Nanos(10) * read,
                _ => panic!("endless"),
            },
        };
        // The rate is set after the deadline was computed.
        clock.wait_until(clock.now() + Nanos::from_micros(5));
    }

    #[test]
    fn a_duration_is_written_with_its_largest_unit() {
        extern crate std;
        use std::string::ToString;
        assert_eq!(Nanos(999).to_string(), "999 ns");
        assert_eq!(Nanos(1_700).to_string(), "1.7 us");
        assert_eq!(Nanos(12_870_000).to_string(), "12.8 ms");
        assert_eq!(Nanos::from_secs(22).to_string(), "22.0 s");
    }
}
