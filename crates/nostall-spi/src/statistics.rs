//! What a bus has done, counted as Linux counts it.

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
    pub(crate) messages: AtomicUsize,
    transfers: AtomicUsize,
    bytes: AtomicUsize,
    pub(crate) sync_queued: AtomicUsize,
    pub(crate) sync_immediate: AtomicUsize,
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
            messages: zero(),
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

    /// A message was run; only by whoever has the bus.
    #[inline]
    pub(crate) fn ran(&self, transfers: usize, bytes: usize, result: Result<(), crate::Error>) {
        raise(&self.messages, 1);
        match result {
            Ok(()) => {
                raise(&self.transfers, transfers);
                raise(&self.bytes, bytes);
            }
            Err(error) => {
                raise(&self.errors, 1);
                if matches!(error, crate::Error::Timeout { .. }) {
                    raise(&self.timeouts, 1);
                }
            }
        }
    }

    pub(crate) fn read(&self) -> Statistics {
        let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let sync_immediate = read(&self.sync_immediate);
        Statistics {
            messages: read(&self.messages),
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
