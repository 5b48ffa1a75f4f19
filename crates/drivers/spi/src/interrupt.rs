//! Interrupt of the controller, and the owner that waits for it.

use core::mem::{swap, take};
use core::task::Waker;

use nostall_io::Nanos;

use crate::cold::Cold;

impl Cold {
    /// Records the interrupt. Returns the waker of the owner.
    pub(crate) const fn raise(&mut self) -> Option<Waker> {
        self.came = true;
        self.owner.take()
    }

    /// Returns the waker of an owner whose deadline has passed.
    pub(crate) fn late_owner(&mut self, now: Nanos) -> Option<Waker> {
        self.owner.take_if(|_| now >= self.deadline)
    }

    /// Returns the time from which [`late_owner`](Self::late_owner) returns a waker.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.owner.as_ref().map(|_| self.deadline)
    }

    /// Returns whether the interrupt has come, and clears it. Otherwise `waker` is woken when it
    /// comes.
    pub(crate) fn take_or_wait(&mut self, waker: &mut Option<Waker>, deadline: Nanos) -> bool {
        self.wait(waker, deadline);
        take(&mut self.came)
    }

    /// Stores `waker` for [`late_owner`](Self::late_owner) after `deadline`. Returns the previous
    /// waker in its place, to be dropped outside of the critical section.
    pub(crate) fn wait(&mut self, waker: &mut Option<Waker>, deadline: Nanos) {
        swap(&mut self.owner, waker);
        self.deadline = deadline;
    }
}
