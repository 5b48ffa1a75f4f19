//! The CPUs as the tasks of a bus: each CPU has one task, and sleeps while it is idle.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::task::Waker;

use nostall_io::{Clock, Nanos, Processor};
use nostall_spi::{AnySlots, Bus, Controller, Platform, WakeTask, task_waker};

use crate::arch::{self, Cpu, MAX_CPUS, MachineClock};
use crate::cpu::{self, NEVER};

/// The task of one CPU.
struct Task {
    cpu: usize,
    /// Set when the task is woken; cleared when the task checks it.
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

    /// Takes a pending wake-up.
    fn take_wake_up(&self) -> Option<()> {
        self.woken.swap(false, Ordering::AcqRel).then_some(())
    }
}

impl WakeTask for Task {
    fn wake(&'static self) {
        wake(self.cpu);
    }
}

/// Wakes the task of `cpu`. If the task is awake, its next sleep returns at once.
pub fn wake(cpu: usize) {
    TASKS[cpu].woken.store(true, Ordering::Release);
    cpu::unpark([cpu]);
}

/// The machine's CPUs with one task each. One of them is the bus's worker while it runs
/// [`serve`](Self::serve).
pub struct Cpus {
    clock: MachineClock,
    /// CPU of the worker.
    worker: usize,
    serves: AtomicBool,
    stop: AtomicBool,
    /// Time of the worker's next poll in nanoseconds.
    next: AtomicU64,
    /// Time for which the worker has been awake, in nanoseconds.
    busy: AtomicU64,
}

impl Cpus {
    /// Creates the CPUs; the worker will run on the CPU `worker`.
    pub const fn new(clock: MachineClock, worker: usize) -> Self {
        Self {
            clock,
            worker,
            serves: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            next: AtomicU64::new(0),
            busy: AtomicU64::new(0),
        }
    }

    /// Serves `bus` on this CPU, which must be the worker's, until [`stop`](Self::stop).
    pub fn serve<C>(bus: &Bus<C, Self, dyn AnySlots>)
    where
        C: Controller,
    {
        let platform = bus.platform();
        platform.serves.store(true, Ordering::Release);
        while !platform.stop.load(Ordering::Acquire) {
            let start = platform.now();
            if platform.next.load(Ordering::Acquire) > start.0 {
                platform.sleep_until_called();
                continue;
            }
            platform.next.store(NEVER.0, Ordering::Release);
            let next = bus.poll().unwrap_or(NEVER);
            platform.next.fetch_min(next.0, Ordering::AcqRel);
            let busy = platform.now() - start;
            platform.busy.fetch_add(busy.0, Ordering::Relaxed);
        }
        platform.serves.store(false, Ordering::Release);
        // Runs messages that were queued for the worker just before.
        bus.poll();
    }

    /// Sleeps until a wake-up or the next poll. Another CPU may set an earlier time meanwhile. It
    /// needs no wake-up for this, because every tick of this CPU checks the time.
    fn sleep_until_called(&self) {
        cpu::park(NEVER, || {
            let due = self.next.load(Ordering::Acquire) <= self.now().0;
            let woken = TASKS[Cpu.id()].take_wake_up();
            woken.or(due.then_some(()))
        });
    }

    /// Ends the worker.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        wake(self.worker);
    }

    /// Returns whether there is a worker.
    pub fn serves(&self) -> bool {
        self.serves.load(Ordering::Acquire)
    }

    /// Returns the time for which the worker has been awake.
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
        // A pending wake-up is for `block`, and stays pending.
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

    fn poll_at(&self, at: Nanos) -> bool {
        let serves = self.serves();
        if serves && at < NEVER {
            self.next.fetch_min(at.0, Ordering::AcqRel);
            if at <= self.now() {
                wake(self.worker);
            }
        }
        serves
    }

    /// Approximate cost of a sleep and a wake-up from another CPU.
    fn spin_time(&self) -> Nanos {
        Nanos::from_micros(20)
    }
}
