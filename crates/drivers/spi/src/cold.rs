//! State that is not needed for a message on an idle bus.

use core::num::NonZeroU16;
use core::task::Waker;

use nostall_io::Nanos;

use crate::capabilities::Capabilities;

/// Time of a disabled timer.
pub(crate) const NEVER: Nanos = Nanos(u64::MAX);

/// Low bits of the number of messages run, to recognize an owner that works.
pub type Seen = NonZeroU16;

pub(crate) fn seen(messages: u32) -> Seen {
    NonZeroU16::MIN | (messages << 1) as u16
}

/// State beside the slots of the line, in the same critical section. One structure, so that its fields
/// need no padding.
#[derive(Debug)]
pub struct Cold {
    /// One bit for each device number in use.
    pub(crate) devices: u64,
    /// Next position in the order of arrival.
    pub(crate) tickets: u32,
    /// [`Seen`] when the owner had made no progress for `lock_timeout`.
    pub(crate) abandoned: Option<Seen>,
    /// The worker was called, and has not responded yet.
    pub(crate) called: bool,
    /// The controller's interrupt came, and no owner has seen it yet.
    pub(crate) came: bool,
    /// Wakes the owner that waits for the controller.
    pub(crate) owner: Option<Waker>,
    /// Time at which that owner polls without an interrupt, if it has no timer of its own.
    pub(crate) deadline: Nanos,
    /// Wakes a worker that is a future.
    pub(crate) worker: Option<Waker>,
    /// Time of that worker's next poll.
    pub(crate) next_poll: Nanos,
    /// Set when the first device is created.
    pub(crate) capabilities: Option<Capabilities>,
}

impl Cold {
    pub(crate) const NEW: Self = Self {
        devices: 0,
        tickets: 0,
        abandoned: None,
        called: false,
        came: false,
        owner: None,
        deadline: Nanos::ZERO,
        worker: None,
        next_poll: NEVER,
        capabilities: None,
    };

    /// Forgets the worker's next poll. Returns its waker, to be dropped outside of the critical
    /// section.
    pub(crate) const fn begin_poll(&mut self) -> Option<Waker> {
        self.next_poll = NEVER;
        self.worker.take()
    }

    /// Makes a worker that is a future poll at `at` or earlier. Returns its waker if that is
    /// earlier than before.
    pub(crate) fn poll_at(&mut self, at: Nanos) -> Option<Waker> {
        let earlier = at < self.next_poll;
        self.next_poll = self.next_poll.min(at);
        self.worker.take_if(|_| earlier)
    }

    /// Returns the time of the next poll, if it has not come. Then it stores `waker`, and returns
    /// the previous one in its place.
    pub(crate) const fn sleep(&mut self, now: Nanos, waker: &mut Option<Waker>) -> Option<Nanos> {
        if now.0 >= self.next_poll.0 {
            return None;
        }
        core::mem::swap(&mut self.worker, waker);
        Some(self.next_poll)
    }
}
