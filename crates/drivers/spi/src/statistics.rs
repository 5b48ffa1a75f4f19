//! Counters of a bus, as in Linux.

use nostall_io::Counter;

use crate::error::Error;
use crate::sync::{AtomicU32, Ordering, constant};

/// Declares the counters as [`Statistics`] and in memory.
macro_rules! counters {
    ($($(#[$meta:meta])* $name:ident)*) => {
        /// Counters of a bus.
        ///
        /// Each has 32 bits and wraps; differences stay correct. They are read one after the other
        /// without a lock, so on a busy bus they may be from slightly different times.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Statistics {
            /// Number of messages run to their end, successful or not.
            pub messages: u32,
            /// Number of messages run from their caller's memory: `sync`, and futures.
            pub sync: u32,
            $($(#[$meta])* pub $name: u32,)*
        }

        /// Counters in memory. The others are sums of these.
        #[derive(Debug)]
        pub(crate) struct Counters {
            /// Number of submitted messages that were run.
            stored: AtomicU32,
            /// Number of messages from their caller's memory that waited in line.
            sync_waited: AtomicU32,
            $(pub(crate) $name: AtomicU32,)*
        }

        impl Counters {
            constant! {
                pub(crate) fn new() -> Self {
                    Self {
                        stored: AtomicU32::new(0),
                        sync_waited: AtomicU32::new(0),
                        $($name: AtomicU32::new(0),)*
                    }
                }
            }

            pub(crate) fn read(&self) -> Statistics {
                let read = |count: &AtomicU32| count.load(Ordering::Relaxed);
                let mut all = Statistics {
                    messages: read(&self.stored),
                    sync: read(&self.sync_waited),
                    $($name: read(&self.$name),)*
                };
                all.sync = all.sync.wrapping_add(all.sync_immediate);
                all.messages = all.messages.wrapping_add(all.sync);
                all
            }
        }
    };
}

counters! {
    /// Number of transfers of successful messages.
    transfers
    /// Number of bytes of successful messages.
    bytes
    /// Number of messages in `sync` that did not wait in line for the bus. Messages of a
    /// [`Locked`](crate::Locked) bus do not wait for it.
    sync_immediate
    /// Number of submitted messages.
    asynchronous
    /// Number of messages run by the worker.
    by_worker
    /// Number of wake-ups of the worker by other contexts. The times of its own polls do not count.
    wakeups
    /// Number of calls that woke the hardware.
    preparations
    /// Number of calls that put the hardware to sleep. Many controllers do nothing then.
    teardowns
    /// Number of failed messages, including time-outs.
    errors
    /// Number of messages that took too long.
    timeouts
    /// Number of messages withdrawn before they were begun.
    cancelled
    /// Number of panics of callbacks and wakers, and of drivers in a `submit` that found the line
    /// full.
    panics
}

/// Way in which a message's caller took the bus.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Acquired {
    AtOnce,
    AfterWait,
}

impl Counters {
    /// Counts a message run from its caller's memory.
    #[inline]
    pub(crate) fn ran(
        &self,
        acquired: Acquired,
        transfers: usize,
        bytes: usize,
        result: &Result<(), Error>,
    ) {
        let count = match acquired {
            Acquired::AtOnce => &self.sync_immediate,
            Acquired::AfterWait => &self.sync_waited,
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
