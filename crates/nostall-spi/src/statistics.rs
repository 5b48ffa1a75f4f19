//! What a bus has done, counted as Linux counts it.

use crate::error::Error;
use crate::sync::{AtomicUsize, Ordering};

/// What a bus has done since it was made.
///
/// Each count is a machine word and wraps; differences are right all the same. They
/// are read one after the other and without a lock, so that of a bus at work they may
/// be of slightly different moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Messages run to their end, however that was.
    pub messages: usize,
    /// Transfers of those that ended well.
    pub transfers: usize,
    /// Bytes of those that ended well.
    pub bytes: usize,
    /// Messages by `sync`.
    pub sync: usize,
    /// Of these, those that found the bus idle and were run by their caller at once,
    /// from his own memory.
    pub sync_immediate: usize,
    /// Messages submitted, and those of futures.
    pub asynchronous: usize,
    /// Messages that the worker ran.
    pub by_worker: usize,
    /// Times that the worker was woken.
    pub wakeups: usize,
    /// Times that the hardware was woken.
    pub preparations: usize,
    /// Times that it was put to sleep.
    pub teardowns: usize,
    /// Messages that failed, time-outs included.
    pub errors: usize,
    /// Messages that took too long.
    pub timeouts: usize,
    /// Messages that were withdrawn before their turn.
    pub cancelled: usize,
    /// Callbacks and wakers that panicked.
    pub panics: usize,
}

/// The counts, as they are kept.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Messages run from the queue.
    queued: AtomicUsize,
    transfers: AtomicUsize,
    bytes: AtomicUsize,
    pub(crate) sync_queued: AtomicUsize,
    sync_immediate: AtomicUsize,
    pub(crate) asynchronous: AtomicUsize,
    pub(crate) by_worker: AtomicUsize,
    pub(crate) wakeups: AtomicUsize,
    pub(crate) preparations: AtomicUsize,
    pub(crate) teardowns: AtomicUsize,
    errors: AtomicUsize,
    timeouts: AtomicUsize,
    pub(crate) cancelled: AtomicUsize,
    pub(crate) panics: AtomicUsize,
}

impl Counters {
    pub(crate) fn new() -> Self {
        let zero = || AtomicUsize::new(0);
        Self {
            queued: zero(),
            transfers: zero(),
            bytes: zero(),
            sync_queued: zero(),
            sync_immediate: zero(),
            asynchronous: zero(),
            by_worker: zero(),
            wakeups: zero(),
            preparations: zero(),
            teardowns: zero(),
            errors: zero(),
            timeouts: zero(),
            cancelled: zero(),
            panics: zero(),
        }
    }

    /// A message was run by its caller, who has the bus.
    #[inline]
    pub(crate) fn ran_at_once(&self, transfers: usize, bytes: usize, result: Result<(), Error>) {
        raise(&self.sync_immediate, 1);
        self.ended(transfers, bytes, result);
    }

    /// A message of the queue was run, by whoever has the bus.
    pub(crate) fn ran_queued(&self, transfers: usize, bytes: usize, result: Result<(), Error>) {
        raise(&self.queued, 1);
        self.ended(transfers, bytes, result);
    }

    #[inline]
    fn ended(&self, transfers: usize, bytes: usize, result: Result<(), Error>) {
        match result {
            Ok(()) => {
                raise(&self.transfers, transfers);
                raise(&self.bytes, bytes);
            }
            Err(error) => self.failed(error),
        }
    }

    #[cold]
    fn failed(&self, error: Error) {
        raise(&self.errors, 1);
        if matches!(error, Error::Timeout { .. }) {
            raise(&self.timeouts, 1);
        }
    }

    /// Messages run.
    pub(crate) fn messages(&self) -> usize {
        let immediate = self.sync_immediate.load(Ordering::Relaxed);
        immediate.wrapping_add(self.queued.load(Ordering::Relaxed))
    }

    pub(crate) fn read(&self) -> Statistics {
        let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let sync_immediate = read(&self.sync_immediate);
        Statistics {
            messages: sync_immediate.wrapping_add(read(&self.queued)),
            transfers: read(&self.transfers),
            bytes: read(&self.bytes),
            sync: sync_immediate.wrapping_add(read(&self.sync_queued)),
            sync_immediate,
            asynchronous: read(&self.asynchronous),
            by_worker: read(&self.by_worker),
            wakeups: read(&self.wakeups),
            preparations: read(&self.preparations),
            teardowns: read(&self.teardowns),
            errors: read(&self.errors),
            timeouts: read(&self.timeouts),
            cancelled: read(&self.cancelled),
            panics: read(&self.panics),
        }
    }
}

/// For counts that only whoever has the bus changes: no atomic exchange.
#[inline]
pub(crate) fn raise(count: &AtomicUsize, by: usize) {
    let value = count.load(Ordering::Relaxed);
    count.store(value.wrapping_add(by), Ordering::Relaxed);
}

/// For the others.
pub(crate) fn count(count: &AtomicUsize) {
    count.fetch_add(1, Ordering::Relaxed);
}
