//! loom's threads as a platform.

use loom::sync::Arc;
use loom::thread;
use nostall_io::{Clock, Nanos};

use crate::platform::{HasWorker, Platform};
use crate::sync::{AtomicBool, AtomicUsize, Ordering};

/// A parked thread and its token. (loom's own loses one that comes while its thread
/// is in a join or yields.)
#[derive(Clone)]
pub(crate) struct Token(Arc<(loom::sync::Mutex<bool>, loom::sync::Condvar)>);

loom::thread_local! {
    static TOKEN: Token = Token(Arc::new((
        loom::sync::Mutex::new(false),
        loom::sync::Condvar::new(),
    )));
}

impl Token {
    pub(crate) fn mine() -> Self {
        TOKEN.with(Self::clone)
    }

    pub(crate) fn park(&self) {
        let mut there = self.0.0.lock().unwrap();
        while !*there {
            there = self.0.1.wait(there).unwrap();
        }
        *there = false;
    }

    pub(crate) fn unpark(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_one();
    }
}

/// loom's threads, in a world whose time is counted in looks at the clock.
pub(crate) struct World {
    pub(crate) serves: AtomicBool,
    pub(crate) looks: Nanos,
    /// How often somebody has looked at the clock: that is the time.
    looked: std::sync::atomic::AtomicU64,
    pub(crate) worker: Token,
    pub(crate) woken: AtomicBool,
    pub(crate) stop: AtomicBool,
    pub(crate) timers: AtomicUsize,
}

impl World {
    pub(crate) fn new(has_worker: HasWorker) -> Self {
        Self {
            serves: AtomicBool::new(has_worker == HasWorker::Yes),
            looks: Nanos::ZERO,
            looked: std::sync::atomic::AtomicU64::new(0),
            worker: Token(Arc::new((
                loom::sync::Mutex::new(false),
                loom::sync::Condvar::new(),
            ))),
            woken: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            timers: AtomicUsize::new(0),
        }
    }
}

impl Clock for World {
    fn now(&self) -> Nanos {
        Nanos(self.looked.fetch_add(1, Ordering::Relaxed))
    }
    fn wait_until(&self, _deadline: Nanos) {}
}

impl Platform for World {
    type Task = Token;

    fn current(&self) -> Option<Token> {
        Some(Token::mine())
    }

    /// For ever, unless it is only for a moment.
    fn block(&self, until: Nanos) {
        if until < Nanos::from_millis(1) {
            thread::yield_now();
        } else {
            Token::mine().park();
        }
    }

    fn wake(&self, task: &Token) {
        task.unpark();
    }

    fn has_worker(&self) -> HasWorker {
        match self.serves.load(Ordering::Acquire) {
            true => HasWorker::Yes,
            false => HasWorker::No,
        }
    }

    fn looks(&self) -> Nanos {
        self.looks
    }

    fn wake_worker(&self) {
        // Not a store: loom may put that before a swap that it came after.
        self.woken.swap(true, Ordering::AcqRel);
        self.worker.unpark();
    }

    fn set_timer(&self, _at: Nanos) {
        self.timers.fetch_add(1, Ordering::Relaxed);
    }
}
