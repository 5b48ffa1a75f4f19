//! Threads of an operating system.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use nostall_io::{Clock, HostClock, Nanos};

use crate::Bus;
use crate::controller::Controller;
use crate::platform::{HasWorker, Platform};
use crate::sync::{AtomicBool, Ordering};

/// Threads, which sleep by parking; with a worker while a thread is in
/// [`serve`](Self::serve).
#[derive(Debug, Default)]
pub struct Threads {
    clock: HostClock,
    worker: OnceLock<Thread>,
    serves: AtomicBool,
    /// The worker was woken, and has not come yet.
    woken: AtomicBool,
    /// The worker is to end.
    stop: AtomicBool,
    /// When the timer goes off.
    timer: Mutex<Option<Nanos>>,
}

impl Threads {
    /// Threads, and no worker yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the calling thread the worker of `bus`, until [`stop`](Self::stop). Once
    /// in a lifetime: afterwards, and on another thread, it returns at once.
    pub fn serve<C, const SLOTS: usize, const BYTES: usize>(bus: &Bus<C, Self, SLOTS, BYTES>)
    where
        C: Controller,
    {
        let platform = bus.platform();
        if platform.worker.set(thread::current()).is_err() {
            return;
        }
        let serving = Serving::begin(bus);
        while !platform.stop.load(Ordering::Acquire) {
            if platform.woken.swap(false, Ordering::AcqRel) {
                bus.work();
                continue;
            }
            let timer = *platform.timer();
            match timer {
                None => thread::park(),
                Some(at) if platform.now() < at => platform.block(at),
                Some(_) => {
                    *platform.timer() = None;
                    bus.on_timer();
                }
            }
        }
        drop(serving);
        // What was left to us just before; the rest, others have been told of.
        bus.work();
    }

    /// Ends the worker.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.unpark_worker();
    }

    /// Whether a thread serves as worker.
    pub fn serves(&self) -> bool {
        self.serves.load(Ordering::Acquire)
    }

    fn timer(&self) -> MutexGuard<'_, Option<Nanos>> {
        self.timer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unpark_worker(&self) {
        if let Some(worker) = self.worker.get() {
            worker.unpark();
        }
    }
}

impl Clock for Threads {
    fn now(&self) -> Nanos {
        self.clock.now()
    }
    fn wait_until(&self, deadline: Nanos) {
        self.clock.wait_until(deadline);
    }
    fn sleep_until(&self, deadline: Nanos) {
        self.clock.sleep_until(deadline);
    }
}

impl Platform for Threads {
    type Task = Thread;

    fn current(&self) -> Option<Thread> {
        Some(thread::current())
    }

    fn block(&self, until: Nanos) {
        let span = until - self.now();
        thread::park_timeout(Duration::from_nanos(span.0));
    }

    fn wake(&self, task: &Thread) {
        task.unpark();
    }

    fn has_worker(&self) -> HasWorker {
        match self.serves.load(Ordering::Acquire) {
            true => HasWorker::Yes,
            false => HasWorker::No,
        }
    }

    fn wake_worker(&self) {
        self.woken.store(true, Ordering::Release);
        self.unpark_worker();
    }

    /// The worker's thread keeps the time too, as there is nobody else. It is told
    /// once, when the hardware was woken; after that it looks by itself.
    fn set_timer(&self, at: Nanos) {
        let earlier = {
            let mut timer = self.timer();
            timer.replace(at).is_none_or(|was| at < was)
        };
        if earlier {
            self.unpark_worker();
        }
    }

    /// About what it takes to put a thread to sleep and to wake it, with what that costs
    /// whoever wakes it.
    fn looks(&self) -> Nanos {
        Nanos::from_micros(20)
    }
}

/// A thread is the worker of `bus`.
struct Serving<'b, C: Controller, const SLOTS: usize, const BYTES: usize>(
    &'b Bus<C, Threads, SLOTS, BYTES>,
);

impl<'b, C: Controller, const SLOTS: usize, const BYTES: usize> Serving<'b, C, SLOTS, BYTES> {
    fn begin(bus: &'b Bus<C, Threads, SLOTS, BYTES>) -> Self {
        bus.platform().serves.store(true, Ordering::Release);
        Self(bus)
    }
}

impl<C: Controller, const SLOTS: usize, const BYTES: usize> Drop for Serving<'_, C, SLOTS, BYTES> {
    /// Also when the controller's driver has panicked. Whoever calls the worker from
    /// now on is told that there is none; what it was called for before is passed on.
    fn drop(&mut self) {
        self.0.platform().serves.store(false, Ordering::Release);
        self.0.gate.answer();
        self.0.pass_on();
    }
}

/// A bus's worker, a thread. It ends when this is dropped.
#[derive(Debug)]
pub struct Worker {
    platform: &'static Threads,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the worker of `bus`, and returns when it is there.
    ///
    /// # Errors
    ///
    /// If the system has no thread for us.
    pub fn start<C, const SLOTS: usize, const BYTES: usize>(
        bus: &'static Bus<C, Threads, SLOTS, BYTES>,
    ) -> std::io::Result<Self>
    where
        C: Controller + Send,
    {
        let platform = bus.platform();
        let thread = thread::Builder::new()
            .name("spi".into())
            .spawn(move || Threads::serve(bus))?;
        while platform.has_worker() == HasWorker::No && !thread.is_finished() {
            thread::yield_now();
        }
        Ok(Self {
            platform,
            thread: Some(thread),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.platform.stop();
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}
