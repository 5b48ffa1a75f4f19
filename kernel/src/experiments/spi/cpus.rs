//! CPUs as the tasks of a bus: each has one, and sleeps when that has nothing to do.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::task::Waker;

use nostall_io::{Clock, Nanos, Processor};
use nostall_spi::{Bus, Controller, HasWorker, Platform, WakeTask, task_waker};

use crate::arch::{self, Cpu, MAX_CPUS, MachineClock};
use crate::cpu::{self, NEVER};

/// The task of one CPU.
struct Task {
    cpu: usize,
    /// It was woken since it last looked.
    woken: AtomicBool,
}

static TASKS: [Task; MAX_CPUS] = {
    let mut tasks = [const { Task::new(0) }; MAX_CPUS];
    let mut cpu = 0;
    while cpu < MAX_CPUS {
        tasks[cpu] = Task::new(cpu);
        cpu += 1;
    }
    tasks
};

impl Task {
    const fn new(cpu: usize) -> Self {
        let woken = AtomicBool::new(false);
        Self { cpu, woken }
    }

    /// Takes the wake-up, if there is one.
    fn take_wake_up(&self) -> Option<()> {
        self.woken.swap(false, Ordering::AcqRel).then_some(())
    }
}

impl WakeTask for Task {
    fn wake(&'static self) {
        wake(self.cpu);
    }
}

/// Wakes this CPU's task. If it is awake, it will not sleep the next time.
pub fn wake(cpu: usize) {
    TASKS[cpu].woken.store(true, Ordering::Release);
    cpu::unpark([cpu]);
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
            timer: AtomicU64::new(NEVER.0),
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
                platform.timer.store(NEVER.0, Ordering::Release);
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
        cpu::park(NEVER, || {
            let due = self.timer.load(Ordering::Acquire) <= self.now().0;
            let woken = TASKS[Cpu.id()].take_wake_up();
            woken.or(due.then_some(()))
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
        cpu::park(deadline, || None::<()>);
    }
}

impl Platform for Cpus {
    fn current(&self) -> Option<Waker> {
        (!arch::in_interrupt()).then(|| task_waker(&TASKS[Cpu.id()]))
    }

    fn block(&self, until: Nanos) {
        cpu::park(until, || TASKS[Cpu.id()].take_wake_up());
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
