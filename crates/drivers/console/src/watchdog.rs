//! Watchdogs as in Linux, for a CPU that does not schedule and for CPUs that delay a grace period.
//! They return reports; the kernel decides when to log them.
//!
//! If the clock goes back, a report is late by at most one more threshold.

use nostall_io::Nanos;

use crate::sync::{AtomicUsize, Ordering};

/// Time of the last progress, and of the last report of its absence.
#[derive(Debug)]
struct Progress {
    /// In milliseconds, plus 1; 0 for never.
    last: AtomicUsize,
    /// In the unit of `last`; 0 before the first report.
    reported: AtomicUsize,
}

impl Progress {
    const fn none() -> Self {
        Self {
            last: AtomicUsize::new(0),
            reported: AtomicUsize::new(0),
        }
    }

    fn note(&self, now: Nanos) {
        self.last.store(stamp(now), Ordering::Relaxed);
        self.reported.store(0, Ordering::Relaxed);
    }

    /// Returns the time since the last progress if it exceeds `threshold`: to one caller, and again
    /// after each further `again`.
    fn overdue(&self, now: Nanos, threshold: Nanos, again: Nanos) -> Option<Nanos> {
        let last = self.last.load(Ordering::Relaxed);
        let reported = self.reported.load(Ordering::Relaxed);
        let (since, wait) = match reported {
            0 => (last, threshold),
            reported => (reported, again),
        };
        let passed = stamp(now).wrapping_sub(since) as isize;
        let is_over = |limit: Nanos| passed.unsigned_abs() as u64 > limit.0 / 1_000_000;
        if last == 0 {
            return None;
        }
        if passed < 0 {
            // Another CPU's clock is ahead, or `now` was read before the progress. A greater
            // difference means that the clock went back: the measurement starts again.
            if is_over(threshold) {
                self.note(now);
            }
            return None;
        }
        if !is_over(wait) {
            return None;
        }
        let (now, order) = (stamp(now), Ordering::Relaxed);
        let is_first = self.reported.compare_exchange(reported, now, order, order);
        is_first.ok()?;
        Some(Nanos::from_millis(now.wrapping_sub(last) as u64))
    }
}

/// Converts a time to milliseconds plus 1. Never 0. Wraps after 49 days on 32-bit machines.
fn stamp(now: Nanos) -> usize {
    ((now.0 / 1_000_000) as usize).wrapping_add(1).max(1)
}

/// Soft-lockup detector of one CPU.
///
/// The scheduler [touches](Self::touch) it, and the timer interrupt [checks](Self::check) it. It
/// reports nothing before the first touch.
#[derive(Debug)]
pub struct Watchdog {
    touched: Progress,
}

/// A CPU that has not scheduled for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lockup {
    /// Time since it last did.
    pub stuck: Nanos,
}

impl Watchdog {
    /// Threshold of Linux's soft-lockup report: twice the default `watchdog_thresh` of 10 s.
    pub const THRESHOLD: Nanos = Nanos::from_secs(20);

    /// Creates a watchdog that was never touched.
    #[allow(clippy::new_without_default)] // For a `static`.
    pub const fn new() -> Self {
        Self {
            touched: Progress::none(),
        }
    }

    /// Records that this CPU has scheduled, or is busy for a good reason.
    pub fn touch(&self, now: Nanos) {
        self.touched.note(now);
    }

    /// Returns a report if this CPU is stuck, and again after each further `threshold`.
    pub fn check(&self, now: Nanos, threshold: Nanos) -> Option<Lockup> {
        let stuck = self.touched.overdue(now, threshold, threshold)?;
        Some(Lockup { stuck })
    }
}

/// Detector of CPUs that delay a grace period, as in RCU. A grace period ends after each CPU has
/// passed a quiescent state. For as many CPUs as a word has bits.
#[derive(Debug)]
pub struct StallDetector {
    /// CPUs that have not passed a quiescent state, one bit each.
    waiting: AtomicUsize,
    started: Progress,
}

/// A grace period that does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Time since it started.
    pub lasts: Nanos,
    /// CPUs that delay it, one bit each.
    pub cpus: usize,
}

impl StallDetector {
    /// Threshold of Linux's stall reports (`rcu_cpu_stall_timeout` in distributions).
    pub const THRESHOLD: Nanos = Nanos::from_secs(21);

    /// Creates a detector without a grace period.
    #[allow(clippy::new_without_default)] // For a `static`.
    pub const fn new() -> Self {
        Self {
            waiting: AtomicUsize::new(0),
            started: Progress::none(),
        }
    }

    /// Starts a grace period for these CPUs, one bit each. Returns `false` if one is in progress.
    pub fn start(&self, cpus: usize, now: Nanos) -> bool {
        if self.waiting.load(Ordering::Acquire) != 0 {
            return false;
        }
        self.started.note(now);
        self.waiting
            .compare_exchange(0, cpus, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// Records that a CPU is in a quiescent state: it schedules, idles or runs user code.
    pub fn quiescent(&self, cpu: u16) {
        let bit = 1_usize.checked_shl(cpu.into()).unwrap_or(0);
        if self.waiting.load(Ordering::Relaxed) & bit != 0 {
            self.waiting.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    /// Returns the grace period if it lasts too long: to one caller, and again after three times
    /// the threshold, as Linux does.
    pub fn check(&self, now: Nanos, threshold: Nanos) -> Option<Stall> {
        let cpus = self.waiting.load(Ordering::Acquire);
        if cpus == 0 {
            return None;
        }
        let lasts = self.started.overdue(now, threshold, threshold * 3)?;
        Some(Stall { lasts, cpus })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_does_not_schedule_is_reported_once_every_threshold() {
        let watchdog = Watchdog::new();
        let s = Nanos::from_secs;
        let check = |at| watchdog.check(s(at), Watchdog::THRESHOLD);
        assert_eq!(check(1_000), None);
        watchdog.touch(s(1_000));
        assert_eq!(check(1_020), None);
        assert_eq!(check(1_021), Some(Lockup { stuck: s(21) }));
        assert_eq!(check(1_030), None);
        assert_eq!(check(1_042), Some(Lockup { stuck: s(42) }));
        watchdog.touch(s(1_043));
        assert_eq!(check(1_063), None);
        assert_eq!(check(1_064), Some(Lockup { stuck: s(21) }));
    }

    #[test]
    fn a_clock_that_is_behind_the_one_that_touched_reports_no_lockup() {
        let (watchdog, grace) = (Watchdog::new(), StallDetector::new());
        watchdog.touch(Nanos::from_secs(5));
        grace.start(1, Nanos::from_secs(5));
        let early = Nanos::from_millis(4_999);
        assert_eq!(watchdog.check(early, Watchdog::THRESHOLD), None);
        assert_eq!(grace.check(early, StallDetector::THRESHOLD), None);
        let late = Nanos::from_secs(30);
        assert!(watchdog.check(late, Watchdog::THRESHOLD).is_some());
        assert!(grace.check(late, StallDetector::THRESHOLD).is_some());
    }

    #[test]
    fn a_grace_period_names_the_cpus_that_hold_it_up() {
        let grace = StallDetector::new();
        let s = Nanos::from_secs;
        assert!(grace.start(0b1011, s(0)));
        assert!(!grace.start(0b1, s(1)));
        grace.quiescent(0);
        grace.quiescent(200);
        assert_eq!(grace.check(s(21), StallDetector::THRESHOLD), None);
        let stall = Stall {
            lasts: s(22),
            cpus: 0b1010,
        };
        assert_eq!(grace.check(s(22), StallDetector::THRESHOLD), Some(stall));
        assert_eq!(grace.check(s(23), StallDetector::THRESHOLD), None);
        grace.quiescent(1);
        grace.quiescent(3);
        assert_eq!(grace.check(s(900), StallDetector::THRESHOLD), None);
        assert!(grace.start(1, s(900)));
    }
}
