//! Interrupt of the controller, and the owner that waits for it or for a long transfer.

use core::mem::{swap, take};
use core::task::Waker;

use nostall_io::Nanos;

/// State of the interrupt, and the waker of the waiting task.
#[derive(Debug)]
pub(crate) struct Interrupt {
    came: bool,
    /// Second of the clock at which the last long transfer has reached its time limit.
    long: u32,
    waker: Option<Waker>,
    /// Time at which the owner polls without an interrupt, if it has no timer of its own.
    deadline: Nanos,
}

impl Interrupt {
    pub(crate) const NONE: Self = Self {
        came: false,
        long: 0,
        waker: None,
        deadline: Nanos::ZERO,
    };

    /// Records a transfer whose time limit ends at `end`.
    pub(crate) fn begin_long(&mut self, end: Nanos) {
        self.long = u32::try_from(end.0.div_ceil(1_000_000_000)).unwrap_or(u32::MAX);
    }

    /// Returns whether a long transfer may be under way.
    pub(crate) fn is_long(&self, now: Nanos) -> bool {
        now < Nanos::from_secs(self.long.into())
    }

    /// Records the interrupt. Returns the waker of the owner.
    pub(crate) const fn raise(&mut self) -> Option<Waker> {
        self.came = true;
        self.waker.take()
    }

    /// Returns the waker of an owner whose deadline has passed.
    pub(crate) fn late(&mut self, now: Nanos) -> Option<Waker> {
        self.waker.take_if(|_| now >= self.deadline)
    }

    /// Returns the time from which [`late`](Self::late) returns a waker.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.waker.as_ref().map(|_| self.deadline)
    }

    /// Returns whether the interrupt has come, and clears it. Otherwise `waker` is woken when it
    /// comes.
    pub(crate) fn take_or_wait(&mut self, waker: &mut Option<Waker>, deadline: Nanos) -> bool {
        self.wait(waker, deadline);
        take(&mut self.came)
    }

    /// Stores `waker` for [`late`](Self::late) after `deadline`. Returns the previous waker in its
    /// place, to be dropped outside of the critical section.
    pub(crate) fn wait(&mut self, waker: &mut Option<Waker>, deadline: Nanos) {
        swap(&mut self.waker, waker);
        self.deadline = deadline;
    }
}
