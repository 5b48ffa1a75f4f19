//! One thread, and interrupt handlers.

use nostall_io::{Clock, Nanos};

use crate::platform::{HasWorker, Platform};

/// Bare metal without tasks: nobody waits for the bus, there is no worker, and
/// somebody calls [`Bus::poll`](crate::Bus::poll) in the main loop.
///
/// Also for async executors, whose futures wait by themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bare<C>(pub C);

impl<C: Clock> Clock for Bare<C> {
    fn now(&self) -> Nanos {
        self.0.now()
    }
    fn wait_until(&self, deadline: Nanos) {
        self.0.wait_until(deadline);
    }
    fn sleep_until(&self, deadline: Nanos) {
        self.0.sleep_until(deadline);
    }
}

impl<C: Clock> Platform for Bare<C> {
    type Task = ();

    fn current(&self) -> Option<()> {
        None
    }

    fn block(&self, until: Nanos) {
        self.sleep_until(until);
    }

    fn wake(&self, (): &()) {}

    fn has_worker(&self) -> HasWorker {
        HasWorker::No
    }
}
