//! Options of a bus.

use nostall_io::Nanos;

/// The context that runs a message which was submitted to an idle bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Submitted {
    /// The submitting task, before `submit` returns. From an interrupt handler, and
    /// wherever the caller [must not wait](crate::Platform::current), as `ByWorker`.
    #[default]
    ByCaller,
    /// The worker, which is woken. Without one, `poll` or the next caller.
    ByWorker,
}

/// Options of a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The context that runs a message which was submitted to an idle bus.
    pub submitted: Submitted,
    /// Idle time before the hardware is put to sleep. Activity is checked once in this time, so it
    /// takes up to twice as long. Reading the clock after every message would cost more than a
    /// short message. With 0, the worker puts an idle bus to sleep whenever it is
    /// [called](crate::Bus::call_worker).
    pub idle_timeout: Nanos,
    /// Longest wait for the bus. Also the time after which a waiter that was woken for the
    /// bus and has not come loses its place, and an owner that has not moved counts as
    /// [gone](crate::Error::Abandoned).
    pub lock_timeout: Nanos,
}

impl Config {
    /// Submitted messages run by their caller; Linux's idle time of a second; ten seconds for
    /// the bus.
    pub const DEFAULT: Self = Self {
        submitted: Submitted::ByCaller,
        idle_timeout: Nanos::from_secs(1),
        lock_timeout: Nanos::from_secs(10),
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}
