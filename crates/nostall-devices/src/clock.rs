//! Time that passes only when somebody spends it.

use std::cell::Cell;
use std::rc::Rc;

use nostall_io::{Clock, Nanos};

/// A clock that stands still until it is waited on or advanced.
///
/// Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(Rc<Cell<Nanos>>);

impl VirtualClock {
    /// A clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets `span` pass.
    pub fn advance(&self, span: Nanos) {
        self.0.set(self.0.get() + span);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Nanos {
        self.0.get()
    }

    fn wait_until(&self, deadline: Nanos) {
        self.0.set(self.0.get().max(deadline));
    }
}
