//! Clocks of a Linux program.

#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::Ticks;

/// The time stamp counter, if it has a constant rate in all CPU states and Linux has not found it
/// unstable. Otherwise Linux's `CLOCK_MONOTONIC` with a tick of one nanosecond, read without a
/// system call.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramClock;

#[cfg(target_arch = "x86_64")]
static USES_TSC: AtomicBool = AtomicBool::new(false);

/// Chooses the clock, once before its first read.
pub(super) fn choose() {
    #[cfg(target_arch = "x86_64")]
    {
        let power = raw_cpuid::CpuId::new().get_advanced_power_mgmt_info();
        let invariant = power.is_some_and(|info| info.has_invariant_tsc());
        let available = std::fs::read_to_string(AVAILABLE).ok();
        let trusted = invariant && has_tsc(available.as_deref());
        USES_TSC.store(trusted, Ordering::Relaxed);
    }
}

/// Linux's list of clocks.
#[cfg(target_arch = "x86_64")]
const AVAILABLE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Returns whether the time stamp counter is in Linux's list of clocks. Linux removes it if its
/// watchdog finds it unstable. Without a list, only the CPU's features count.
#[cfg(target_arch = "x86_64")]
fn has_tsc(available: Option<&str>) -> bool {
    available.is_none_or(|clocks| clocks.split_whitespace().any(|clock| clock == "tsc"))
}

impl Ticks for ProgramClock {
    #[inline(always)]
    fn now(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if USES_TSC.load(Ordering::Relaxed) {
            return crate::Tsc.now();
        }
        nanos(ClockId::Monotonic)
    }
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Duration of a calibration. Reading both clocks is accurate to about 50 ns, so the rate is
/// accurate to a few parts per million.
const CALIBRATION: Duration = Duration::from_millis(10);

/// Number of reads of both clocks per pair; the fastest read counts.
const READS: usize = 8;

/// Returns the ticks per second of a counter, and its value at a time since 1970.
pub(super) fn calibrate(ticks: &impl Ticks) -> (u64, (u64, u64)) {
    let (start, start_nanos) = pair(ticks, ClockId::Monotonic);
    std::thread::sleep(CALIBRATION);
    let (end, end_nanos) = pair(ticks, ClockId::Monotonic);
    let passed = u128::from(end.wrapping_sub(start)) * 1_000_000_000;
    let rate = passed / u128::from((end_nanos - start_nanos).max(1));
    (rate as u64, pair(ticks, ClockId::Realtime))
}

/// Reads a counter and a clock at the same time.
fn pair(ticks: &impl Ticks, clock: ClockId) -> (u64, u64) {
    let read = |_| {
        let before = ticks.now();
        let nanos = nanos(clock);
        let took = ticks.now().wrapping_sub(before);
        (took, before.wrapping_add(took / 2), nanos)
    };
    let (_, ticks, nanos) = (0..READS).map(read).min().unwrap_or_default();
    (ticks, nanos)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::has_tsc;

    #[test]
    fn a_time_stamp_counter_that_linux_found_unstable_is_not_used() {
        assert!(has_tsc(Some("tsc hpet acpi_pm \n")));
        assert!(has_tsc(Some("kvm-clock tsc acpi_pm \n")));
        assert!(!has_tsc(Some("hpet acpi_pm \n")));
        assert!(!has_tsc(Some("tsc-early jiffies \n")));
        assert!(has_tsc(None));
    }
}
