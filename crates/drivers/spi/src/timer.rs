//! Timer of the futures on `Threads`: one thread for all buses of the process.

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::Instant;

/// Identity of a waker: its data and its functions.
type Key = (usize, usize);

/// Wakers by their times. A waker has one time, its earliest.
#[derive(Default)]
struct Waits {
    times: HashMap<Key, (Instant, Waker)>,
    order: BTreeSet<(Instant, Key)>,
}

#[derive(Default)]
struct Timer {
    waits: Mutex<Waits>,
    earlier: Condvar,
}

static TIMER: OnceLock<Option<Timer>> = OnceLock::new();

/// Wakes `waker` at `at` or later, at least once. Returns `false` if the system cannot create the
/// timer's thread.
pub(crate) fn wake_at(at: Instant, waker: &Waker) -> bool {
    let timer = TIMER.get_or_init(|| {
        let thread = thread::Builder::new().name("spi timer".into());
        let started = thread.spawn(|| TIMER.wait().as_ref().map(Timer::run));
        started.ok().map(|_| Timer::default())
    });
    let Some(timer) = timer else { return false };
    let key = (
        waker.data().addr(),
        std::ptr::from_ref(waker.vtable()).addr(),
    );
    // The clone and the drop are foreign code, which must not run in the lock.
    let waker = waker.clone();
    let mut waits = timer.waits();
    let known = waits.times.get(&key).map(|(known, _)| *known);
    if known.is_some_and(|known| known <= at) {
        drop(waits);
        return true;
    }
    if let Some(known) = known {
        waits.order.remove(&(known, key));
    }
    let is_first = waits.order.first().is_none_or(|(first, _)| at < *first);
    waits.order.insert((at, key));
    let replaced = waits.times.insert(key, (at, waker));
    drop(waits);
    drop(replaced);
    if is_first {
        timer.earlier.notify_one();
    }
    true
}

impl Timer {
    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes each waker at its time, for ever.
    fn run(&self) {
        let mut waits = self.waits();
        loop {
            let now = Instant::now();
            let first = waits.order.first().copied();
            waits = match first {
                Some((at, key)) if at <= now => {
                    waits.order.remove(&(at, key));
                    let due = waits.times.remove(&key);
                    drop(waits);
                    if let Some((_, waker)) = due {
                        // A waker that panics must not end the timer.
                        _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
                    }
                    self.waits()
                }
                Some((at, _)) => {
                    let waited = self.earlier.wait_timeout(waits, at - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = self.earlier.wait(waits);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }
}
