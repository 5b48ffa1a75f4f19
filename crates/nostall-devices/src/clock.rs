//! Time that passes only when somebody spends it.

use std::cell::Cell;
use std::rc::Rc;

use nostall_io::{Clock, Nanos};

/// A clock that stands still until it is waited on or advanced.
///
/// Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(Rc<Times>);

#[derive(Debug, Default)]
struct Times {
    now: Cell<Nanos>,
    slept: Cell<Nanos>,
}

impl VirtualClock {
    /// A clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets `span` pass.
    pub fn advance(&self, span: Nanos) {
        self.0.now.set(self.now() + span);
    }

    /// How much of the time so far was slept: what a second task on the same CPU
    /// would have got, exactly.
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
