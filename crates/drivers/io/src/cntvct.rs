//! AArch64's virtual counter as a clock.

use core::arch::asm;

use crate::tick_clock::{TickClock, TickSource};

/// Virtual counter of the generic timer (Arm ARM, DDI 0487, section D12.2, "The system counter"),
/// as a clock for a `static`.
///
/// The rate is [`VirtualCounter::hz`], unless the device tree's timer node has a `clock-frequency`.
/// All CPUs share the counter. A kernel that starts at EL2 must set the virtual offset to 0 on each
/// CPU.
pub type Cntvct = TickClock<VirtualCounter>;

/// Source of [`Cntvct`].
#[derive(Debug)]
pub enum VirtualCounter {}

impl VirtualCounter {
    /// Returns the rate in hertz that the firmware stored in `CNTFRQ_EL0`; 0 if it stored none.
    #[inline]
    pub fn hz() -> u64 {
        let hz: u64;
        // SAFETY: reads a register that the firmware has set.
        unsafe {
            asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags))
        };
        hz & 0xffff_ffff
    }
}

impl TickSource for VirtualCounter {
    #[inline]
    fn ticks() -> u64 {
        let ticks;
        // SAFETY: reads a counter. Without the barrier, the CPU may read it before earlier
        // instructions (section D12.2.2).
        unsafe {
            asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags));
        }
        ticks
    }
}
