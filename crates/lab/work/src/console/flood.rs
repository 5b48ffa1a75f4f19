//! The flood experiment, as run on each CPU.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use heapless::String;
use nostall_console::{Level, Meta, Priority, StallDetector, Watchdog};
use nostall_io::Nanos;

use super::{Context, Cpu, Lines, Path, Role};

/// Upper bound for the length of a report's line, in bytes.
const REPORT_LINE: usize = 96;

/// Trace that follows a report printed from the timer interrupt.
const REPORT_TRACE: [&str; 4] = ["Call Trace:", " <IRQ>", " watchdog_timer_fn", " </IRQ>"];

/// First line of the panic message.
pub const FIRST_WORDS: &str = "Kernel panic - not syncing: injected in mid-flood";

/// Last line of the panic message.
pub const LAST_WORDS: &str = "---[ end Kernel panic - not syncing: injected in mid-flood ]---";

/// The panic message, as a kernel prints it.
const PANIC: &str = "\
Kernel panic - not syncing: injected in mid-flood
CPU: 0 PID: 0 Comm: swapper Kdump: loaded Not tainted
Call Trace:
 <NMI>
 panic
 nmi_handle
 exc_nmi
 end_repeat_nmi
 </NMI>
---[ end Kernel panic - not syncing: injected in mid-flood ]---";

/// A recorded log that several CPUs replay, taking its lines in turn.
///
/// Each CPU calls [`run`](Self::run) as a task, and [`tick`](Self::tick) and [`timer`](Self::timer)
/// in interrupts.
#[derive(Debug)]
pub struct Flood<'a, P> {
    path: &'a P,
    log: &'a [u8],
    /// Time of the first line.
    start: Nanos,
    /// Divisor for the time limits of Linux's detectors.
    speedup: u32,
    cpus: &'a [PerCpu],
    /// Delay of each line's caller in nanoseconds, by line number.
    delays: &'a [AtomicU64],
    grace: StallDetector,
    /// Number of CPUs that have logged all their lines.
    through: AtomicUsize,
}

/// State of the experiment for each CPU.
#[derive(Debug)]
pub struct PerCpu {
    watchdog: Watchdog,
    /// Not 0: pre-emption is off.
    held: AtomicUsize,
    ticks: AtomicU64,
    missed: AtomicU64,
}

/// Report of a detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fired {
    /// Time of the report.
    pub at: Nanos,
    /// Finding of the detector.
    pub what: What,
    /// Whether printing the report made the interrupt handler the console's owner.
    pub cascaded: bool,
}

/// Finding of a detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// This CPU has not scheduled for this time.
    SoftLockup(Nanos),
    /// Some CPU has blocked a grace period for this time.
    Stall(Nanos),
}

impl PerCpu {
    /// Creates the state before the first tick.
    #[allow(clippy::new_without_default)] // For a `static`.
    pub const fn new() -> Self {
        Self {
            watchdog: Watchdog::new(),
            held: AtomicUsize::new(0),
            ticks: AtomicU64::new(0),
            missed: AtomicU64::new(0),
        }
    }

    /// Returns the number of timer ticks that were handled.
    pub fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// Returns the number of timer ticks that were missed, because interrupts were masked until the
    /// next.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}

impl<'a, P: Path> Flood<'a, P> {
    /// Creates the replay of `log` through `path`, starting at `start`. `delays` should have an
    /// entry for each line.
    pub const fn new(
        path: &'a P,
        log: &'a [u8],
        start: Nanos,
        cpus: &'a [PerCpu],
        delays: &'a [AtomicU64],
    ) -> Self {
        Self {
            path,
            log,
            start,
            speedup: 1,
            cpus,
            delays,
            grace: StallDetector::new(),
            through: AtomicUsize::new(0),
        }
    }

    /// Divides the detectors' time limits by `speedup`, for a log that is shorter by this factor.
    #[must_use]
    pub const fn with_speedup(self, speedup: u32) -> Self {
        Self { speedup, ..self }
    }

    /// Logs this CPU's share of the lines, each at its time or as soon as possible after it.
    pub fn run(&self, cpu: &impl Cpu) {
        let mine = Lines::new(self.log).enumerate();
        let mine = mine.filter(|(n, _)| n % self.cpus.len() == cpu.id());
        for (n, line) in mine {
            self.sleep_until(cpu, self.start + line.at);
            let before = cpu.now();
            let meta = Meta {
                time: before,
                cpu: cpu.id() as u16,
                level: line.level,
                priority: Priority::Normal,
                target: "",
            };
            self.log(cpu, Context::Task, &meta, line.text);
            if let Some(delay) = self.delays.get(n) {
                delay.store((cpu.now() - before).0, Ordering::Relaxed);
            }
            // Between two lines, a real task waits for the disk, and other tasks may run.
            self.schedule(cpu);
        }
        self.through.fetch_add(1, Ordering::Release);
    }

    /// Runs the path's own task on this CPU until `deadline`. While that task sleeps, a second task
    /// runs.
    pub fn sleep_until(&self, cpu: &impl Cpu, deadline: Nanos) {
        loop {
            let again = self.path.run_task(cpu);
            if cpu.now() >= deadline {
                return;
            }
            cpu.sleep_until(again.map_or(deadline, |at| at.min(deadline)));
        }
    }

    /// Returns whether all lines were logged and passed to the port.
    pub fn is_over(&self) -> bool {
        self.through.load(Ordering::Acquire) == self.cpus.len() && self.path.is_idle()
    }

    /// Handles the timer tick: checks this CPU and the grace period for stalls. `missed` is the
    /// number of skipped ticks.
    pub fn tick(&self, cpu: &impl Cpu, missed: u64, mut fired: impl FnMut(Fired)) {
        let me = &self.cpus[cpu.id()];
        me.ticks.fetch_add(1, Ordering::Relaxed);
        me.missed.fetch_add(missed, Ordering::Relaxed);
        let at = cpu.now();
        let lockup = me.watchdog.check(at, self.patience(Watchdog::THRESHOLD));
        // With pre-emption on, the interrupted task could be replaced now. If the reports below
        // hold this handler, the next tick comes before that. Its check counts the time from here.
        if me.held.load(Ordering::Relaxed) == 0 {
            self.schedule(cpu);
        }
        if let Some(lockup) = lockup {
            let what = What::SoftLockup(lockup.stuck);
            let cascaded = self.report(cpu, what);
            fired(Fired { at, what, cascaded });
        }
        if let Some(stall) = self
            .grace
            .check(cpu.now(), self.patience(StallDetector::THRESHOLD))
        {
            let at = cpu.now();
            let what = What::Stall(stall.lasts);
            let cascaded = self.report(cpu, what);
            fired(Fired { at, what, cascaded });
        }
        let all = usize::MAX >> (usize::BITS as usize - self.cpus.len());
        self.grace.start(all, cpu.now());
    }

    /// Handles the timer that the path has set.
    pub fn timer(&self, cpu: &impl Cpu) {
        self.path.timer(cpu);
    }

    /// Runs the injected panic, which can interrupt any work of this CPU.
    pub fn panic(&self, cpu: &impl Cpu) {
        let meta = Meta {
            level: Level::Emergency,
            priority: Priority::Panic,
            ..self.urgent(cpu)
        };
        self.path.panic(cpu, &meta, PANIC.as_bytes());
    }

    fn patience(&self, threshold: Nanos) -> Nanos {
        threshold / u64::from(self.speedup.max(1))
    }

    /// Records that this CPU could run another task now.
    fn schedule(&self, cpu: &impl Cpu) {
        self.cpus[cpu.id()].watchdog.touch(cpu.now());
        self.grace.quiescent(cpu.id() as u16);
    }

    fn log(&self, cpu: &impl Cpu, context: Context, meta: &Meta<'_>, text: &[u8]) -> Role {
        let held = &self.cpus[cpu.id()].held;
        held.fetch_add(1, Ordering::Relaxed);
        let role = self.path.log(cpu, context, meta, text);
        held.fetch_sub(1, Ordering::Relaxed);
        role
    }

    /// Prints a report line by line, as Linux does. Returns whether that made this CPU the
    /// console's owner.
    fn report(&self, cpu: &impl Cpu, what: What) -> bool {
        let mut first = String::<REPORT_LINE>::new();
        // The buffer is large enough.
        let _ = match what {
            What::SoftLockup(stuck) => core::fmt::write(
                &mut first,
                format_args!(
                    "watchdog: BUG: soft lockup - CPU#{} stuck for {}s!",
                    cpu.id(),
                    stuck.0 / 1_000_000_000
                ),
            ),
            What::Stall(lasts) => core::fmt::write(
                &mut first,
                format_args!(
                    "rcu: INFO: rcu_sched detected stalls on CPUs (detected by {}, t={} ms)",
                    cpu.id(),
                    lasts.0 / 1_000_000
                ),
            ),
        };
        let mut owned = false;
        for line in [first.as_str()].into_iter().chain(REPORT_TRACE) {
            let meta = self.urgent(cpu);
            let role = self.log(cpu, Context::Interrupt, &meta, line.as_bytes());
            owned |= role == Role::Owner;
        }
        owned
    }

    fn urgent(&self, cpu: &impl Cpu) -> Meta<'static> {
        Meta {
            time: cpu.now(),
            cpu: cpu.id() as u16,
            level: Level::Emergency,
            priority: Priority::Emergency,
            target: "",
        }
    }
}
