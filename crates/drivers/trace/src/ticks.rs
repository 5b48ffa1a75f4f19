//! Sources of time stamps.

use nostall_io::Clock;

/// Counter that is read for each record.
///
/// It should advance at a constant rate and be equal on all CPUs, because records of several CPUs
/// are merged by it.
pub trait Ticks {
    /// Returns the counter's value.
    fn now(&self) -> u64;
}

impl<T: Ticks + ?Sized> Ticks for &T {
    #[inline]
    fn now(&self) -> u64 {
        (**self).now()
    }
}

/// Time stamp counter of an x86 CPU.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Tsc;

#[cfg(target_arch = "x86_64")]
impl Ticks for Tsc {
    #[inline(always)]
    fn now(&self) -> u64 {
        // SAFETY: every x86-64 CPU has this instruction.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
}

/// `time` counter of a RISC-V hart.
#[cfg(target_arch = "riscv64")]
#[derive(Clone, Copy, Debug, Default)]
pub struct RdTime;

#[cfg(target_arch = "riscv64")]
impl Ticks for RdTime {
    #[inline(always)]
    fn now(&self) -> u64 {
        let time;
        // SAFETY: reads a counter. An environment without it emulates the instruction.
        unsafe { core::arch::asm!("rdtime {}", out(reg) time, options(nostack)) };
        time
    }
}

/// Virtual counter of an AArch64 CPU's generic timer. A CPU may read it up to a pipeline's length
/// before earlier instructions end.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Cntvct;

#[cfg(target_arch = "aarch64")]
impl Ticks for Cntvct {
    #[inline(always)]
    fn now(&self) -> u64 {
        let time;
        // SAFETY: reads a counter.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) time, options(nostack)) };
        time
    }
}

/// Any clock, with a tick of one nanosecond. Its rate must be known before the first record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nanoseconds<C>(pub C);

impl<C: Clock> Ticks for Nanoseconds<C> {
    #[inline]
    fn now(&self) -> u64 {
        self.0.now().0
    }
}
