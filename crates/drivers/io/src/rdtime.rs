//! RISC-V's `time` counter as a clock.

use core::arch::asm;

use crate::tick_clock::{TickClock, TickSource};

/// Counter `time` of RISC-V (unprivileged specification, "Zicntr"), as a clock for a `static`.
///
/// The rate is the property `timebase-frequency` in the device tree's node `/cpus`. All harts share
/// the counter, so no hart needs an offset.
///
/// A kernel in supervisor mode can always read it, because firmware emulates the instruction on
/// hardware without it. In machine mode such hardware traps instead (for example SiFive's FU540);
/// read the timer's register `mtime` there.
pub type Rdtime = TickClock<TimeCounter>;

/// Source of [`Rdtime`].
#[derive(Debug)]
pub enum TimeCounter {}

impl TickSource for TimeCounter {
    #[inline]
    fn ticks() -> u64 {
        let ticks;
        // SAFETY: the instruction reads a counter. Firmware emulates it on hardware without it.
        unsafe { asm!("rdtime {}", out(reg) ticks, options(nostack, preserves_flags)) };
        ticks
    }
}
