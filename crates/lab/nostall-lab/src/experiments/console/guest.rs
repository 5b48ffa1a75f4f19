//! The flood in a guest: in real time, and so of a part of the log.

use std::ffi::OsString;

use anyhow::{Result, ensure};
use nostall_console::Watchdog;
use nostall_devices::uart::{Line, Profile};
use nostall_io::Nanos;
use nostall_uart::LineSettings;
use nostall_vm::Guest;
use nostall_vm::qemu::Qemu;
use nostall_work::console::PrintStrategy;

use super::input::Log;
use super::outcome::{FloodPair, FloodPlan, RATE};
use super::qemu::{self, bytes_on_the_line, time_on_the_line};

/// The most line time that a run may take: enough to show a flood's effects. There are six runs.
const LINE_TIME: Nanos = Nanos::from_millis(1_500);

/// Bytes of which the kernel notes when they arrive, some left for reports and panics.
const MOST_BYTES: u64 = 48 << 10;

/// A slower line has no part of a log that is worth a run.
const SLOWEST: u32 = 9_600;

/// Latest panic: a later one makes the run longer, and shows nothing more.
const LATEST_PANIC: Nanos = Nanos::from_secs(10);

/// The arguments' mistakes.
pub fn check(rate: Option<u32>, panic_at: Option<Nanos>) -> Result<()> {
    let rate = rate.unwrap_or(RATE);
    ensure!(
        rate >= SLOWEST,
        "--baud {rate}: {SLOWEST} at least in QEMU, where time is real (--on model has no limit)"
    );
    ensure!(
        panic_at.unwrap_or_default() <= LATEST_PANIC,
        "--panic-at: {LATEST_PANIC} at most in QEMU, where time is real"
    );
    Ok(())
}

/// One line in how many fits in [`LINE_TIME`].
pub fn part(log: &Log, profile: &Profile, rate: u32) -> u32 {
    let bytes = bytes_on_the_line(&log.bytes);
    let fits = |part: &u32| {
        let bytes = bytes.div_ceil((*part).into());
        bytes <= MOST_BYTES && time_on_the_line(profile, rate, bytes) <= LINE_TIME
    };
    (1..u32::MAX).find(fits).unwrap_or(u32::MAX)
}

/// Factor by which the detectors' thresholds are shorter than Linux's. It is that by which the log
/// is shorter. But it is bounded, because the reports themselves would keep a slow line busy and
/// cause more reports.
pub fn speedup(part: u32, profile: &Profile, rate: u32, cpus: usize) -> u32 {
    /// Bytes of one on the line.
    const REPORT: u64 = 300;
    let byte = match profile.line {
        Line::AtOnce => profile.access * 2,
        Line::Baud => LineSettings::baud(rate).frame_time(),
        // Byte by byte each waits for the controller.
        Line::Controller(by) => (by.latency + by.per_byte).max(by.drain),
    };
    let all_report = byte * (REPORT * cpus as u64);
    let most = Watchdog::THRESHOLD.0 / (all_report.0 * 2).max(1);
    part.min(u32::try_from(most).unwrap_or(u32::MAX)).max(1)
}

/// Each strategy, as a boot of its own, without the panic and with it.
pub fn run_all(
    qemu: &Qemu,
    kernel: &[u8],
    qemu_args: &[OsString],
    plan: FloodPlan<'_>,
    speedup: u32,
) -> Result<Vec<FloodPair>> {
    let guest = Guest {
        qemu_args,
        ..Guest::new(kernel, plan.cpus as u16)
    };
    let whole = FloodPlan {
        panic_at: None,
        ..plan
    };
    let mut runs = Vec::new();
    for strategy in PrintStrategy::ALL {
        runs.push(FloodPair {
            profile: plan.profile,
            strategy,
            whole: qemu::run(qemu, &guest, &whole, speedup, strategy)?,
            panicked: qemu::run(qemu, &guest, &plan, speedup, strategy)?,
        });
    }
    Ok(runs)
}
