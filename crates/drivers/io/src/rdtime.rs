//! RISC-V's `time` counter as a clock.

use core::arch::asm;

use crate::rate::Rate;
use crate::{Clock, Nanos};

/// Counter `time` of RISC-V (unprivileged specification, "Zicntr"), as a clock for a `static`.
///
/// The rate is the property `timebase-frequency` in the device tree's node `/cpus`. Until
/// [`set_rate`](Self::set_rate), [`now`](Clock::now) returns [`Nanos::UNKNOWN`]: log records have
/// no time, and drivers bound their waits by polls. All harts share the counter, so no hart needs
/// an offset.
///
/// A kernel in supervisor mode can always read it, because firmware emulates the instruction on
/// hardware without it. In machine mode such hardware traps instead (for example SiFive's FU540);
/// read the timer's register `mtime` there.
#[derive(Debug)]
pub struct Rdtime {
    rate: Rate,
}

impl Rdtime {
    /// Creates a clock without a rate.
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
        // SAFETY: the instruction reads a counter. Firmware emulates it on hardware without it.
        unsafe { asm!("rdtime {}", out(reg) ticks, options(nostack, preserves_flags)) };
        ticks
    }

    /// Returns the first counter value at which [`now`](Clock::now) is at least `at`, for
    /// `mtimecmp` or the firmware's timer. Returns `None` if the rate or `at` is unknown.
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
