//! State that is not needed for a message on an idle bus.

use core::mem::take;
use core::task::Waker;

use nostall_io::Nanos;

use crate::capabilities::Capabilities;
use crate::interrupt::Interrupt;

/// Time of a disabled timer.
pub(crate) const NEVER: Nanos = Nanos(u64::MAX);

/// State in one critical section, which takes less memory than several.
#[derive(Debug)]
pub(crate) struct Cold {
    pub(crate) interrupt: Interrupt,
    pub(crate) duty: Duty,
    /// Set when the first device is created.
    pub(crate) capabilities: Option<Capabilities>,
}

impl Cold {
    pub(crate) const NEW: Self = Self {
        interrupt: Interrupt::NONE,
        duty: Duty::NONE,
        capabilities: None,
    };
}

/// Duties of the worker.
#[derive(Debug)]
pub(crate) struct Duty {
    /// Wakes a worker that is a future.
    pub(crate) waker: Option<Waker>,
    /// Time that the worker's timer was last set to; [`NEVER`] after it has expired.
    pub(crate) timer: Nanos,
    /// The worker was called.
    pub(crate) called: bool,
    /// The worker must put the hardware to sleep.
    pub(crate) suspend_due: bool,
    /// The timer is set before `look`, for a waiter.
    pub(crate) early: bool,
    /// A message was stopped half-way since `look` was set. Its last words may still be on the wire.
    pub(crate) stopped: bool,
    /// Number of messages run when `look` was set.
    pub(crate) seen: u32,
    /// Time of the next check for activity.
    pub(crate) look: Nanos,
}

impl Duty {
    pub(crate) const NONE: Self = Self {
        waker: None,
        timer: NEVER,
        called: false,
        suspend_due: false,
        early: false,
        stopped: false,
        seen: 0,
        look: Nanos::ZERO,
    };

    pub(crate) const fn call(&mut self) -> Option<Waker> {
        self.called = true;
        self.waker.take()
    }

    /// Begins an idle time, which ends at `look`.
    pub(crate) const fn begin_idle(&mut self, look: Nanos, messages: u32) {
        self.look = look;
        self.seen = messages;
        self.stopped = false;
    }

    /// Returns whether the bus has been idle since the idle time began.
    pub(crate) const fn is_idle(&self, messages: u32) -> bool {
        messages == self.seen && !self.stopped
    }

    /// Sets the timer. Returns the waker only if the time is earlier than before.
    pub(crate) fn set_timer(&mut self, at: Nanos) -> Option<Waker> {
        let earlier = at < core::mem::replace(&mut self.timer, at);
        self.waker.take_if(|_| earlier)
    }

    /// Returns whether the worker was called (`true`) or its timer has expired (`false`). If
    /// neither, stores `waker` and returns the timer. The last part is a waker to drop.
    pub(crate) fn look(
        &mut self,
        now: Nanos,
        waker: Waker,
    ) -> (Option<bool>, Nanos, Option<Waker>) {
        if take(&mut self.called) {
            return (Some(true), NEVER, Some(waker));
        }
        if now >= self.timer {
            self.timer = NEVER;
            return (Some(false), NEVER, Some(waker));
        }
        (None, self.timer, self.waker.replace(waker))
    }
}
