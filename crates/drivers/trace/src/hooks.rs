//! Type-erased entry points of a recorder.

use crate::site::Site;

/// Result of an entry. The caller passes it to [`Recorder::exit`](crate::Recorder::exit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the exit needs it"]
pub struct Entered {
    /// Ticks at the entry, for calls that are recorded once at their exit. Otherwise it identifies
    /// the recording that has the entry: an exit with another value is not recorded.
    pub time: u64,
    /// Meta word of the exit; 0 if the exit is not recorded.
    pub exit: u64,
}

impl Entered {
    /// An entry that was not recorded.
    pub const NOT_RECORDED: Self = Self { time: 0, exit: 0 };
}

/// Entry points of a recorder; its first field.
#[derive(Debug)]
pub(crate) struct Hooks {
    pub(crate) enter: unsafe fn(*const Hooks, &'static Site, Option<u64>) -> Entered,
    pub(crate) exit: unsafe fn(*const Hooks, Entered),
    pub(crate) mark: unsafe fn(*const Hooks, &'static Site, Option<u64>),
    pub(crate) counter: unsafe fn(*const Hooks, &'static Site, i64),
    pub(crate) stall: unsafe fn(*const Hooks, &str, u64, &str),
}
