//! Options of a bus.

use nostall_io::Nanos;

/// Context that runs a message submitted to an idle bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Submitted {
    /// The submitting task, before `submit` returns. In an interrupt handler, or in a caller that
    /// [must not wait](crate::Platform::current), the same as `ByWorker`.
    #[default]
    ByCaller,
    /// The worker, which is woken. Without one, `poll` or the next caller.
    ByWorker,
}

/// Options of a bus. Times are rounded up to milliseconds. More than 49 days mean never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Context that runs a message submitted to an idle bus.
    pub submitted: Submitted,
    /// Idle time before the hardware is put to sleep. Activity is checked once in this time, so it
    /// takes up to twice as long. Reading the clock after every message would cost more than a
    /// short message. With 0, the worker puts an idle bus to sleep whenever it is
    /// [called](crate::Bus::call_worker). The controller may still send the last words of a dropped
    /// future. So if futures are dropped, this must be more than the time of its FIFO.
    pub idle_timeout: Nanos,
    /// Longest wait for the bus. After the same time, a woken waiter that has not responded loses
    /// its place, and an owner without progress counts as [abandoned](crate::Error::Abandoned). An
    /// owner in a long message has the time limit of its transfer.
    pub lock_timeout: Nanos,
}

impl Config {
    /// Default options: the caller runs submitted messages, 1 s of idle time as in Linux, 10 s for
    /// the bus.
    pub const DEFAULT: Self = Self {
        submitted: Submitted::ByCaller,
        idle_timeout: Nanos::from_secs(1),
        lock_timeout: Nanos::from_secs(10),
    };
}

/// A time-out in milliseconds, in half the memory of a [`Nanos`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Millis(u32);

impl Millis {
    pub(crate) const fn new(span: Nanos) -> Self {
        let millis = span.0.div_ceil(1_000_000);
        Self(if millis > u32::MAX as u64 {
            u32::MAX
        } else {
            millis as u32
        })
    }

    pub(crate) const fn nanos(self) -> Nanos {
        match self.0 {
            u32::MAX => Nanos(u64::MAX),
            millis => Nanos::from_millis(millis as u64),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}
