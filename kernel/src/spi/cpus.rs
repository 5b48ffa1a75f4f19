//! CPUs as the tasks of a bus: each has one, and sleeps when that has nothing to do.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::task::Waker;

use nostall_io::{Clock, Nanos, Processor};
use nostall_spi::{Bus, Controller, HasWorker, Platform, WakeTask, task_waker};

use crate::arch::{self, Cpu, MAX_CPUS, MachineClock};

/// A time that does not come.
const NEVER: u64 = u64::MAX;

/// State that a sleeping CPU shares with those that wake it.
struct Bed {
    cpu: usize,
    /// Its task was woken since it last looked.
    woken: AtomicBool,
    /// It sleeps, or is about to: only an interrupt ends that.
    asleep: AtomicBool,
    /// Times that it went to sleep for want of work.
    sleeps: AtomicU64,
}

static BEDS: [Bed; MAX_CPUS] = {
    let mut beds = [const { Bed::new(0) }; MAX_CPUS];
    let mut cpu = 0;
    while cpu < MAX_CPUS {
        beds[cpu] = Bed::new(cpu);
        cpu += 1;
    }
    beds
};

impl Bed {
    const fn new(cpu: usize) -> Self {
        Self {
            cpu,
            woken: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            sleeps: AtomicU64::new(0),
        }
    }
}

impl WakeTask for Bed {
    fn wake(&'static self) {
        wake(self.cpu);
    }
}

/// Times that CPUs went to sleep for want of work.
pub fn sleeps() -> u64 {
    let all = BEDS.iter().map(|bed| bed.sleeps.load(Ordering::Relaxed));
    all.sum()
}

/// Wakes this CPU's task. If it is awake, it will not sleep the next time.
pub fn wake(cpu: usize) {
    let bed = &BEDS[cpu];
    // Both sides write one word and then read the other, in one order that all see: one
    // of the two sees what the other has written.
    bed.woken.store(true, Ordering::SeqCst);
    if bed.asleep.load(Ordering::SeqCst) && cpu != Cpu.id() {
        arch::wake([cpu]);
    }
}

/// Lets this CPU sleep until there is `something`, or `until` has come.
fn sleep<T>(
    clock: &MachineClock,
    until: Nanos,
    something: impl Fn(&Bed) -> Option<T>,
) -> Option<T> {
    let bed = &BEDS[Cpu.id()];
    let mut slept = false;
    bed.asleep.store(true, Ordering::SeqCst);
    let result = loop {
        let over = arch::sleep_unless(|| match something(bed) {
            None if clock.now() < until => {
                if !slept {
                    slept = true;
                    arch::set_alarm(clock, until);
                }
                None
            }
            something => Some(something),
        });
        if let Some(something) = over {
            break something;
        }
    };
    bed.asleep.store(false, Ordering::SeqCst);
    if slept {
        arch::set_alarm(clock, Nanos(NEVER));
        bed.sleeps.fetch_add(1, Ordering::Relaxed);
    }
    result
}

/// The machine's CPUs, each with one task; one of them is the bus's worker, while it is in
/// [`serve`](Self::serve).
pub struct Cpus {
    clock: MachineClock,
    /// The worker's CPU.
    worker: usize,
    serves: AtomicBool,
    called: AtomicBool,
    stop: AtomicBool,
    /// When the bus's timer goes off.
    timer: AtomicU64,
    /// For how long the worker has been awake, in nanoseconds.
    busy: AtomicU64,
}

impl Cpus {
    /// With `worker` as the worker's CPU, once it serves.
    pub const fn new(clock: MachineClock, worker: usize) -> Self {
        Self {
            clock,
            worker,
            serves: AtomicBool::new(false),
            called: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            timer: AtomicU64::new(NEVER),
            busy: AtomicU64::new(0),
        }
    }

    /// Makes this CPU, which must be the worker's, serve `bus` until [`stop`](Self::stop).
    pub fn serve<C, const W: usize, const S: usize, const B: usize>(bus: &Bus<C, Self, W, S, B>)
    where
        C: Controller,
    {
        let platform = bus.platform();
        platform.serves.store(true, Ordering::Release);
        bus.begin_work();
        while !platform.stop.load(Ordering::Acquire) {
            let start = platform.now();
            if platform.called.swap(false, Ordering::AcqRel) {
                bus.work();
            } else if platform.timer.load(Ordering::Acquire) <= start.0 {
                platform.timer.store(NEVER, Ordering::Release);
                bus.on_timer();
            } else {
                platform.sleep_until_called();
                continue;
            }
            let busy = platform.now() - start;
            platform.busy.fetch_add(busy.0, Ordering::Relaxed);
        }
        platform.serves.store(false, Ordering::Release);
        // What was left to us just before.
        bus.work();
    }

    /// Or until the timer goes off: it may be set later meanwhile, and is looked at
    /// whenever the CPU ticks, so that nobody has to be told.
    fn sleep_until_called(&self) {
        sleep(&self.clock, Nanos(NEVER), |bed| {
            let due = self.timer.load(Ordering::Acquire) <= self.now().0;
            (bed.woken.swap(false, Ordering::SeqCst) || due).then_some(())
        });
    }

    /// Ends the worker.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        wake(self.worker);
    }

    /// Whether there is a worker.
    pub fn serves(&self) -> bool {
        self.serves.load(Ordering::Acquire)
    }

    /// For how long the worker has been awake.
    pub fn busy(&self) -> Nanos {
        Nanos(self.busy.load(Ordering::Relaxed))
    }
}

impl Clock for Cpus {
    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn sleep_until(&self, deadline: Nanos) {
        if arch::in_interrupt() {
            return self.wait_until(deadline);
        }
        // A wake-up is for `block`, and stays.
        sleep(&self.clock, deadline, |_| None::<()>);
    }
}

impl Platform for Cpus {
    fn current(&self) -> Option<Waker> {
        (!arch::in_interrupt()).then(|| task_waker(&BEDS[Cpu.id()]))
    }

    fn block(&self, until: Nanos) {
        sleep(&self.clock, until, |bed| {
            bed.woken.swap(false, Ordering::SeqCst).then_some(())
        });
    }

    fn has_worker(&self) -> HasWorker {
        match self.serves() {
            true => HasWorker::Yes,
            false => HasWorker::No,
        }
    }

    fn wake_worker(&self) {
        self.called.store(true, Ordering::Release);
        wake(self.worker);
    }

    fn set_timer(&self, at: Nanos) {
        self.timer.store(at.0, Ordering::Release);
    }

    /// About what it takes to sleep and be woken by another CPU.
    fn looks(&self) -> Nanos {
        Nanos::from_micros(20)
    }
}
