//! The `time` counter of RISC-V as a clock.

use core::arch::asm;

use crate::rate::Rate;
use crate::{Clock, Nanos};

/// Counter `time` of RISC-V (unprivileged specification, "Zicntr"), as a clock that can lie in a
/// `static`.
///
/// The rate is the property `timebase-frequency` in the device tree's node `/cpus`. Until
/// [`set_rate`](Self::set_rate), [`now`](Clock::now) returns [`Nanos::UNKNOWN`]: records that
/// are logged have no time then, and drivers bound their waits by polls. All harts share the
/// counter, so no hart needs an offset.
///
/// A kernel in supervisor mode can always read it, because its firmware emulates the instruction
/// where the hardware lacks it. In machine mode such hardware traps instead (SiFive's FU540, for
/// example); read the timer's register `mtime` there.
#[derive(Debug)]
pub struct Rdtime {
    rate: Rate,
}

impl Rdtime {
    /// Creates a clock without a known rate.
    pub const fn new() -> Self {
        Self {
            rate: Rate::unknown(),
        }
    }

    /// Sets the rate in hertz, for all harts. A rate of 0 is unknown.
    pub fn set_rate(&self, hz: u64) {
        self.rate.set(hz);
    }

    /// Returns the counter's value.
    #[inline]
    pub fn ticks() -> u64 {
        let ticks;
        // SAFETY: reads a counter. An environment without it emulates the instruction.
        unsafe { asm!("rdtime {}", out(reg) ticks, options(nostack, preserves_flags)) };
        ticks
    }

    /// Returns the first counter value at which [`now`](Clock::now) is at least `at`, for
    /// `mtimecmp` or the firmware's timer; `None` if the rate or `at` is not known.
    pub fn ticks_at(&self, at: Nanos) -> Option<u64> {
        self.rate.ticks_at(at)
    }
}

impl Default for Rdtime {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for Rdtime {
    #[inline]
    fn now(&self) -> Nanos {
        self.rate.time(Self::ticks())
    }
}
