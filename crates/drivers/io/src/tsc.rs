//! Time stamp counter of x86-64 CPUs as a clock.

use core::arch::x86_64::{__cpuid, _rdtsc, CpuidResult};

use crate::tick_clock::{TickClock, TickSource};

/// Time stamp counter of x86-64 CPUs, as a clock for a `static`.
///
/// ```
/// use nostall_io::{Clock, Nanos, Tsc};
///
/// static CLOCK: Tsc = Tsc::new();
///
/// /// Measures the rate, in hertz, with a timer of known rate.
/// # fn measured() -> u64 { 3_000_000_000 }
/// # if cfg!(miri) { return }
/// assert_eq!(CLOCK.now(), Nanos::UNKNOWN);
/// CLOCK.set_rate(Tsc::reported_rate().unwrap_or_else(measured));
/// assert!(CLOCK.now().is_known());
/// ```
///
/// Processors with an invariant counter (from about 2008) start it on all CPUs with one reset, and
/// hypervisors keep it equal.
///
/// Firmware may leave the counters of several sockets different. Then a kernel sets
/// `IA32_TSC_ADJUST` on each CPU during its start (Intel SDM volume 3, "Time-Stamp Counter
/// Adjustment"). This clock needs no change. Time 0 is usually the machine's reset.
pub type Tsc = TickClock<TimeStampCounter>;

/// Source of [`Tsc`].
#[derive(Debug)]
pub enum TimeStampCounter {}

impl TickSource for TimeStampCounter {
    #[inline]
    fn ticks() -> u64 {
        // SAFETY: every x86-64 CPU has the instruction, and a kernel may always use it.
        unsafe { _rdtsc() }
    }
}

impl TickClock<TimeStampCounter> {
    /// Returns the rate in hertz that the hypervisor or the processor reports.
    ///
    /// Reads the hypervisor's timing leaf (4000_0010h: VMware, and KVM's users on request), then
    /// the processor's leaves 15h and 16h (Intel, from Skylake). AMD processors and most guests of
    /// QEMU report none: measure the rate with another timer.
    pub fn reported_rate() -> Option<u64> {
        reported_rate(cpuid)
    }
}

#[allow(unused_unsafe, reason = "safe from Rust 1.94 on")]
fn cpuid(leaf: u32) -> CpuidResult {
    // SAFETY: every x86-64 CPU has the instruction.
    unsafe { __cpuid(leaf) }
}

/// Returns the rate from the answers of `cpuid` (Intel SDM volume 2, CPUID).
fn reported_rate(cpuid: impl Fn(u32) -> CpuidResult) -> Option<u64> {
    /// Bit set by hypervisors and by no processor.
    const HYPERVISOR: u32 = 1 << 31;
    /// Leaf that returns the last of the hypervisor's leaves.
    const HYPERVISOR_LEAVES: u32 = 0x4000_0000;
    /// Leaf with the rate in kHz.
    const TIMING: u32 = 0x4000_0010;
    /// Leaf with the counter's ratio to the crystal's rate, and that rate in Hz.
    const COUNTER: u32 = 0x15;
    /// Leaf with the base frequency in MHz.
    const FREQUENCY: u32 = 0x16;
    if cpuid(1).ecx & HYPERVISOR != 0 && cpuid(HYPERVISOR_LEAVES).eax >= TIMING {
        let khz = cpuid(TIMING).eax;
        if khz != 0 {
            return Some(u64::from(khz) * 1_000);
        }
    }
    let last = cpuid(0).eax;
    if last < COUNTER {
        return None;
    }
    let counter = cpuid(COUNTER);
    if counter.eax == 0 || counter.ebx == 0 {
        return None;
    }
    if counter.ecx != 0 {
        let rate = u128::from(counter.ecx) * u128::from(counter.ebx) / u128::from(counter.eax);
        return u64::try_from(rate).ok();
    }
    // Without the crystal's rate, the counter runs at the base frequency.
    let mhz = if last >= FREQUENCY {
        cpuid(FREQUENCY).eax & 0xffff
    } else {
        0
    };
    (mhz != 0).then(|| u64::from(mhz) * 1_000_000)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::{Clock, Nanos};
    use std::vec::Vec;

    /// Number of a leaf, and EAX, EBX and ECX of its answer.
    type Leaf = (u32, [u32; 3]);

    fn rate_of(leaves: &[Leaf]) -> Option<u64> {
        reported_rate(|leaf| {
            let known = leaves.iter().find(|known| known.0 == leaf);
            let [eax, ebx, ecx] = known.map_or([0; 3], |known| known.1);
            CpuidResult {
                eax,
                ebx,
                ecx,
                edx: 0,
            }
        })
    }

    const GUEST: Leaf = (1, [0, 0, 1 << 31]);

    #[test]
    fn the_hypervisors_rate_comes_first() {
        let kvm = [
            (0, [0x16, 0, 0]),
            GUEST,
            (0x15, [2, 200, 24_000_000]),
            (0x4000_0000, [0x4000_0010, 0, 0]),
            (0x4000_0010, [2_496_001, 0, 0]),
        ];
        assert_eq!(rate_of(&kvm), Some(2_496_001_000));
        // A machine without a hypervisor answers leaves above its last one with any value.
        let bare: Vec<_> = kvm.into_iter().filter(|leaf| leaf.0 != 1).collect();
        assert_eq!(rate_of(&bare), Some(2_400_000_000));
        let silent = [
            GUEST,
            (0x4000_0000, [0x4000_0001, 0, 0]),
            (0x4000_0010, [7, 0, 0]),
        ];
        assert_eq!(rate_of(&silent), None);
    }

    #[test]
    fn the_processors_rate_is_its_crystals_times_a_ratio() {
        let skylake = [
            (0, [0x16, 0, 0]),
            (0x15, [2, 176, 24_000_000]),
            (0x16, [2_100, 0, 0]),
        ];
        assert_eq!(rate_of(&skylake), Some(2_112_000_000));
        let largest = [(0, [0x15, 0, 0]), (0x15, [1, u32::MAX, u32::MAX])];
        assert_eq!(rate_of(&largest), Some(u64::from(u32::MAX).pow(2)));
    }

    #[test]
    fn without_the_crystals_rate_it_is_the_base_frequency() {
        let no_crystal = [
            (0, [0x16, 0, 0]),
            (0x15, [2, 216, 0]),
            (0x16, [0x1_0a28, 0, 0]),
        ];
        assert_eq!(rate_of(&no_crystal), Some(2_600_000_000));
        assert_eq!(
            rate_of(&[(0, [0x15, 0, 0]), no_crystal[1], no_crystal[2]]),
            None
        );
    }

    #[test]
    fn a_processor_without_the_leaves_reports_no_rate() {
        assert_eq!(rate_of(&[]), None);
        assert_eq!(
            rate_of(&[(0, [0x14, 0, 0]), (0x15, [2, 200, 24_000_000])]),
            None
        );
        for unknown in [[0, 0, 24_000_000], [0, 200, 24_000_000], [2, 0, 24_000_000]] {
            assert_eq!(rate_of(&[(0, [0x16, 0, 0]), (0x15, unknown)]), None);
        }
        assert_eq!(rate_of(&[(0, [0x16, 0, 0]), (0x16, [2_600, 0, 0])]), None);
    }

    #[test]
    #[cfg(not(miri))] // Miri has no counter
    fn the_time_is_unknown_until_the_rate_is_set() {
        static CLOCK: Tsc = Tsc::new();
        assert_eq!(CLOCK.now(), Nanos::UNKNOWN);
        assert_eq!(CLOCK.ticks_at(Nanos(1)), None);
        CLOCK.set_rate(1_000_000_000);
        let (before, now) = (Tsc::ticks(), CLOCK.now());
        assert!(before > 1, "it counts from the machine's start");
        assert!(now.is_known() && now.0 >= before, "a step is a nanosecond");
        assert!(
            CLOCK
                .ticks_at(now)
                .is_some_and(|ticks| ticks.abs_diff(now.0) <= 1)
        );
    }

    #[test]
    #[cfg(not(miri))] // Miri has no CPUID
    fn a_rate_that_this_machine_reports_is_plausible() {
        assert_ne!(cpuid(0).ebx, 0, "the name of the processor's maker");
        let rate = Tsc::reported_rate();
        assert_eq!(rate, reported_rate(cpuid));
        assert!(
            rate.is_none_or(|hz| (100_000_000..20_000_000_000).contains(&hz)),
            "{rate:?}"
        );
    }
}
