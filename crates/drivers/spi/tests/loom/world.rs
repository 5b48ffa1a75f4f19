//! A platform of loom's threads.

use std::cell::Cell;
use std::sync::{Arc as StdArc, PoisonError};
use std::task::{Wake, Waker};

use loom::sync::{Condvar, Mutex};
use loom::thread;
use nostall_io::{Clock, Nanos};

use crate::cold::NEVER;
use crate::platform::Platform;
use crate::sync::{AtomicU32, Ordering};

/// A parked thread and its token. loom's own `park` loses a token that comes while its thread is in
/// a join or yields.
pub(crate) struct Token(Mutex<bool>, Condvar);

loom::thread_local! {
    static TOKEN: StdArc<Token> = StdArc::new(Token::new());
    static MAY_WAIT: Cell<bool> = Cell::new(true);
    static AHEAD: Cell<u32> = Cell::new(0);
}

/// Runs `act` in this thread only at a time that is `micros` microseconds later.
pub(crate) fn ahead<R>(micros: u32, act: impl FnOnce() -> R) -> R {
    AHEAD.with(|ahead| ahead.set(micros));
    let acted = act();
    AHEAD.with(|ahead| ahead.set(0));
    acted
}

/// Runs `handler` as an interrupt handler, which must not wait.
pub(crate) fn in_interrupt<R>(handler: impl FnOnce() -> R) -> R {
    MAY_WAIT.with(|may| may.set(false));
    let handled = handler();
    MAY_WAIT.with(|may| may.set(true));
    handled
}

impl Token {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(false), Condvar::new())
    }

    pub(crate) fn mine() -> StdArc<Self> {
        TOKEN.with(StdArc::clone)
    }

    pub(crate) fn park(&self) {
        let mut there = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*there {
            there = self.1.wait(there).unwrap_or_else(PoisonError::into_inner);
        }
        *there = false;
    }

    pub(crate) fn unpark(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.1.notify_one();
    }
}

impl Wake for Token {
    fn wake(self: StdArc<Self>) {
        self.unpark();
    }
}

/// Presence of a worker.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum HasWorker {
    Yes,
    No,
}

/// A platform of loom's threads. The test sets its time.
pub(crate) struct World {
    pub(crate) serves: AtomicU32,
    pub(crate) now: AtomicU32,
    /// Set if contexts may wait.
    pub(crate) tasks: bool,
    /// Set if a context that blocks wakes up by itself, after 100 ms.
    pub(crate) has_sleep: bool,
    pub(crate) worker: Token,
    pub(crate) woken: AtomicU32,
    pub(crate) stop: AtomicU32,
    pub(crate) timers: AtomicU32,
}

impl World {
    pub(crate) fn new(has_worker: HasWorker) -> Self {
        Self {
            serves: AtomicU32::new((has_worker == HasWorker::Yes).into()),
            now: AtomicU32::new(0),
            tasks: true,
            has_sleep: false,
            worker: Token::new(),
            woken: AtomicU32::new(0),
            stop: AtomicU32::new(0),
            timers: AtomicU32::new(0),
        }
    }
}

impl Clock for World {
    fn now(&self) -> Nanos {
        let now = self.now.load(Ordering::Relaxed) + AHEAD.with(Cell::get);
        Nanos::from_micros(now.into())
    }
    fn wait_until(&self, _deadline: Nanos) {}
}

impl Platform for World {
    fn current(&self) -> Option<Waker> {
        (self.tasks && MAY_WAIT.with(Cell::get)).then(|| Token::mine().into())
    }

    /// Blocks forever: a lost wake-up is a deadlock, which loom reports.
    fn block(&self, _until: Nanos) {
        if self.has_sleep {
            self.now.fetch_add(100_000, Ordering::AcqRel);
            return thread::yield_now();
        }
        Token::mine().park();
    }

    fn poll_at(&self, at: Nanos) -> bool {
        let serves = self.serves.load(Ordering::Acquire) != 0;
        match at {
            NEVER => {}
            Nanos::ZERO if serves => {
                // This is not a store, because loom may order a store before an earlier swap.
                self.woken.swap(1, Ordering::AcqRel);
                self.worker.unpark();
            }
            _ if serves => _ = self.timers.fetch_add(1, Ordering::Relaxed),
            _ => {}
        }
        serves
    }
}
