//! A clock whose time passes only when a caller spends it.

use std::cell::Cell;
use std::rc::Rc;

use nostall_io::{Clock, Nanos};

/// A virtual clock: it advances only in [`advance`](Self::advance) and in waits.
///
/// Clones share one time.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(Rc<Times>);

#[derive(Debug, Default)]
struct Times {
    now: Cell<Nanos>,
    slept: Cell<Nanos>,
}

impl VirtualClock {
    /// Creates a clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Advances the time by `span`.
    pub fn advance(&self, span: Nanos) {
        self.0.now.set(self.now() + span);
    }

    /// Returns the total duration of sleeps. A second task on the same CPU could have run for
    /// exactly this long.
    pub fn slept(&self) -> Nanos {
        self.0.slept.get()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Nanos {
        self.0.now.get()
    }

    fn wait_until(&self, deadline: Nanos) {
        self.0.now.set(self.now().max(deadline));
    }

    fn sleep_until(&self, deadline: Nanos) {
        self.0.slept.set(self.slept() + (deadline - self.now()));
        self.wait_until(deadline);
    }
}
