//! Platform for threads of an operating system.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nostall_io::{Clock, HostClock, Nanos};

use crate::bus::Shared;
use crate::cold::NEVER;
use crate::controller::Controller;
use crate::owner::THREAD;
use crate::platform::Platform;
use crate::sync::{AtomicU32, Ordering};
use crate::timer;

/// Platform for threads, and for futures of any executor on them. It has a worker while a thread is in
/// [`serve`](Self::serve).
///
/// A signal handler must not use the bus: it may interrupt its own thread's critical section.
#[derive(Debug, Default)]
pub struct Threads {
    clock: HostClock,
    serves: AtomicU32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    worker: Option<Waker>,
    /// The worker must end.
    stop: bool,
    /// Time of the worker's next poll.
    next: Nanos,
}

/// Sleep of a thread. The token of [`thread::park`] is left to the thread's own uses.
#[derive(Default)]
struct Sleep {
    woken: Mutex<bool>,
    wakes: Condvar,
}

impl Wake for Sleep {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wakes.notify_one();
    }
}

thread_local! {
    static SLEEP: Arc<Sleep> = Arc::default();
}

impl Threads {
    /// Creates the platform, without a worker.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the calling thread the worker of `bus`, until [`stop`](Self::stop).
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if the bus already has a worker.
    pub fn serve<C>(bus: &Shared<C, Self>) -> io::Result<()>
    where
        C: Controller,
    {
        Serving::begin(bus)?.run();
        Ok(())
    }

    /// Makes the worker end. If none serves, the next one ends at once: it may be about to begin.
    pub fn stop(&self) {
        let mut state = self.state();
        state.stop = true;
        if let Some(worker) = &state.worker {
            worker.wake_by_ref();
        }
    }

    /// Returns whether a thread serves as the worker.
    pub fn serves(&self) -> bool {
        self.serves.load(Ordering::Acquire) != 0
    }

    /// Returns the waker of the calling thread.
    fn own_waker() -> Waker {
        SLEEP.with(Arc::clone).into()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn current(&self) -> Option<Waker> {
        Some(Self::own_waker())
    }

    fn block(&self, until: Nanos) {
        let span = Duration::from_nanos((until - self.now()).0);
        SLEEP.with(|sleep| {
            let woken = sleep.woken.lock().unwrap_or_else(PoisonError::into_inner);
            let asleep = |woken: &mut bool| !*woken;
            let waited = sleep.wakes.wait_timeout_while(woken, span, asleep);
            *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
        });
    }

    /// The worker's thread is woken only for an earlier time.
    fn poll_at(&self, at: Nanos) -> bool {
        if at == NEVER || !self.serves() {
            return self.serves();
        }
        let mut state = self.state();
        if at < state.next {
            state.next = at;
            if let Some(worker) = &state.worker {
                worker.wake_by_ref();
            }
        }
        state.worker.is_some()
    }

    /// Wakes the waker from a thread that all buses of the process share. It starts with the first
    /// future that waits.
    fn wake_at(&self, at: Nanos, waker: &Waker) -> bool {
        let span = Duration::from_nanos((at - self.now()).0);
        let at = Instant::now().checked_add(span);
        // A time that the system cannot express never comes.
        at.is_none_or(|at| timer::wake_at(at, waker))
    }

    /// Returns about the time in which a thread sleeps and is woken.
    fn spin_time(&self) -> Nanos {
        Nanos::from_micros(20)
    }
}

/// A thread that serves as the worker of `bus`.
struct Serving<'b, C: Controller>(&'b Shared<C, Threads>);

impl<'b, C> Serving<'b, C>
where
    C: Controller,
{
    fn begin(bus: &'b Shared<C, Threads>) -> io::Result<Self> {
        if !bus.begin_service(THREAD) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let platform = bus.platform();
        // An earlier worker that ends clears both under this lock.
        let mut state = platform.state();
        (state.worker, state.next) = (platform.current(), Nanos::ZERO);
        platform.serves.store(1, Ordering::Release);
        drop(state);
        Ok(Self(bus))
    }

    /// Serves until [`Threads::stop`].
    fn run(self) {
        let bus = self.0;
        let platform = bus.platform();
        loop {
            let mut state = platform.state();
            if std::mem::take(&mut state.stop) {
                return;
            }
            let next = state.next;
            if next > platform.now() {
                drop(state);
                platform.block(next);
                continue;
            }
            state.next = NEVER;
            drop(state);
            let next = bus.poll().unwrap_or(NEVER);
            let mut state = platform.state();
            state.next = state.next.min(next);
        }
    }
}

impl<C> Drop for Serving<'_, C>
where
    C: Controller,
{
    /// Ends the worker, even after a panic of the controller's driver. From now on, callers find no
    /// worker. The messages of its earlier calls are handled here.
    fn drop(&mut self) {
        let platform = self.0.platform();
        let mut state = platform.state();
        // A request to stop was for this worker.
        (state.worker, state.stop) = (None, false);
        // In this order: a bus that is not served may have another worker at once.
        self.0.worker.fetch_and(!THREAD, Ordering::AcqRel);
        platform.serves.store(0, Ordering::Release);
        drop(state);
        match thread::panicking() {
            false => _ = self.0.poll(),
            true => self.0.call_worker(),
        }
    }
}

/// Worker thread of a bus. Dropping it ends the thread.
#[derive(Debug)]
pub struct Worker {
    platform: &'static Threads,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the worker of `bus`, and returns when it serves.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if the bus already has a worker; the system's error if it
    /// cannot create a thread.
    pub fn start<C>(bus: &'static Shared<C, Threads>) -> io::Result<Self>
    where
        C: Controller + Send,
    {
        let (tell, told) = mpsc::channel();
        let thread = thread::Builder::new().name("spi".into()).spawn(move || {
            let serving = Serving::begin(bus);
            // The starter waits for this.
            let begun = serving.as_ref().map(|_| Threads::own_waker());
            let _ = tell.send(begun.map_err(io::Error::kind));
            if let Ok(serving) = serving {
                serving.run();
            }
        })?;
        // A thread that ends without an answer has panicked.
        let waker = told.recv().unwrap_or(Err(io::ErrorKind::Other))?;
        Ok(Self {
            platform: bus.platform(),
            waker,
            thread: Some(thread),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let mut state = self.platform.state();
        // Another thread may serve by now.
        let its_own = |worker: &Waker| worker.will_wake(&self.waker);
        if state.worker.as_ref().is_some_and(its_own) {
            state.stop = true;
            self.waker.wake_by_ref();
        }
        drop(state);
        if let Some(thread) = self.thread.take() {
            // The thread's result is not needed.
            let _ = thread.join();
        }
    }
}
