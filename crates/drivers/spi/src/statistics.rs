//! Counters of a bus, as in Linux.

use nostall_io::Counter;

use crate::error::Error;
use crate::sync::{AtomicU32, Ordering, constant};

/// Counters of a bus.
///
/// Each has 32 bits and wraps; differences stay correct. They are read one after the other without
/// a lock, so on a busy bus they may be from slightly different times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Number of messages run to their end, successful or not.
    pub messages: u32,
    /// Number of transfers of successful messages.
    pub transfers: u32,
    /// Number of bytes of successful messages.
    pub bytes: u32,
    /// Number of messages run from their caller's memory: `sync`, and futures.
    pub sync: u32,
    /// Number of messages in `sync` that did not wait in line for the bus. Messages of a
    /// [`Locked`](crate::Locked) bus do not wait for it.
    pub sync_immediate: u32,
    /// Number of submitted messages.
    pub asynchronous: u32,
    /// Number of messages run by the worker.
    pub by_worker: u32,
    /// Number of wake-ups of the worker by other contexts. The times of its own polls do not count.
    pub wakeups: u32,
    /// Number of wake-ups of the hardware.
    pub preparations: u32,
    /// Number of times that the hardware was put to sleep.
    pub teardowns: u32,
    /// Number of failed messages, including time-outs.
    pub errors: u32,
    /// Number of messages that took too long.
    pub timeouts: u32,
    /// Number of messages withdrawn before they were begun.
    pub cancelled: u32,
    /// Number of panics of callbacks and wakers, and of drivers in a `submit` that found the line
    /// full.
    pub panics: u32,
}

/// Way in which a message's caller took the bus.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Taken {
    AtOnce,
    AfterWait,
}

/// Counters in memory.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Number of submitted messages that were run.
    stored: AtomicU32,
    transfers: AtomicU32,
    bytes: AtomicU32,
    sync_immediate: AtomicU32,
    sync_waited: AtomicU32,
    pub(crate) asynchronous: AtomicU32,
    pub(crate) by_worker: AtomicU32,
    pub(crate) wakeups: AtomicU32,
    pub(crate) preparations: AtomicU32,
    pub(crate) teardowns: AtomicU32,
    errors: AtomicU32,
    timeouts: AtomicU32,
    pub(crate) cancelled: AtomicU32,
    pub(crate) panics: AtomicU32,
}

impl Counters {
    constant! {
        pub(crate) fn new() -> Self {
            Self {
                stored: AtomicU32::new(0),
                transfers: AtomicU32::new(0),
                bytes: AtomicU32::new(0),
                sync_immediate: AtomicU32::new(0),
                sync_waited: AtomicU32::new(0),
                asynchronous: AtomicU32::new(0),
                by_worker: AtomicU32::new(0),
                wakeups: AtomicU32::new(0),
                preparations: AtomicU32::new(0),
                teardowns: AtomicU32::new(0),
                errors: AtomicU32::new(0),
                timeouts: AtomicU32::new(0),
                cancelled: AtomicU32::new(0),
                panics: AtomicU32::new(0),
            }
        }
    }

    /// Counts a message run from its caller's memory.
    #[inline]
    pub(crate) fn ran(
        &self,
        taken: Taken,
        transfers: usize,
        bytes: usize,
        result: &Result<(), Error>,
    ) {
        let count = match taken {
            Taken::AtOnce => &self.sync_immediate,
            Taken::AfterWait => &self.sync_waited,
        };
        raise(count, 1);
        self.ended(transfers, bytes, result);
    }

    /// Counts a submitted message that was run.
    pub(crate) fn ran_stored(&self, transfers: usize, bytes: usize, result: &Result<(), Error>) {
        raise(&self.stored, 1);
        self.ended(transfers, bytes, result);
    }

    #[inline]
    fn ended(&self, transfers: usize, bytes: usize, result: &Result<(), Error>) {
        nostall_io::count(Counter::SpiMessages, 1);
        match result {
            Ok(()) => {
                nostall_io::count(Counter::SpiBytes, bytes as u64);
                raise(&self.transfers, transfers as u32);
                raise(&self.bytes, bytes as u32);
            }
            Err(error) => self.failed(error),
        }
    }

    #[cold]
    fn failed(&self, error: &Error) {
        raise(&self.errors, 1);
        if matches!(error, Error::Timeout { .. }) {
            raise(&self.timeouts, 1);
        }
    }

    /// Returns the number of messages run.
    pub(crate) fn messages(&self) -> u32 {
        let counts = [&self.sync_immediate, &self.sync_waited, &self.stored];
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        counts.into_iter().fold(0, u32::wrapping_add)
    }

    pub(crate) fn read(&self) -> Statistics {
        let read = |count: &AtomicU32| count.load(Ordering::Relaxed);
        let sync_immediate = read(&self.sync_immediate);
        let sync = sync_immediate.wrapping_add(read(&self.sync_waited));
        Statistics {
            messages: sync.wrapping_add(read(&self.stored)),
            transfers: read(&self.transfers),
            bytes: read(&self.bytes),
            sync,
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

/// Increases a counter that only the owner of the bus changes, without an atomic exchange.
#[inline]
pub(crate) fn raise(count: &AtomicU32, by: u32) {
    let value = count.load(Ordering::Relaxed);
    count.store(value.wrapping_add(by), Ordering::Relaxed);
}

/// Increases any other counter by one.
pub(crate) fn count(count: &AtomicU32) {
    count.fetch_add(1, Ordering::Relaxed);
}
