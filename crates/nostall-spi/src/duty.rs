//! State that a message on an idle bus does not need.

use core::mem::take;
use core::task::Waker;

use nostall_io::Nanos;

use crate::capabilities::Capabilities;
use crate::interrupt::Interrupt;

/// Time of a timer that is not set.
pub(crate) const NEVER: Nanos = Nanos(u64::MAX);

/// Behind one critical section, which takes less memory than one each.
#[derive(Debug)]
pub(crate) struct Rare {
    pub(crate) interrupt: Interrupt,
    pub(crate) duty: Duty,
    /// Known once there is a device.
    pub(crate) capabilities: Option<Capabilities>,
}

impl Rare {
    pub(crate) const NEW: Self = Self {
        interrupt: Interrupt::NONE,
        duty: Duty::NONE,
        capabilities: None,
    };
}

/// The worker's duties.
#[derive(Debug)]
pub(crate) struct Duty {
    /// Wakes a worker that is a future.
    pub(crate) waker: Option<Waker>,
    /// Its timer; [`NEVER`] if it is not set.
    pub(crate) timer: Nanos,
    /// It was called.
    pub(crate) called: bool,
    /// The worker is to put the hardware to sleep.
    pub(crate) tired: bool,
    /// The timer goes off before `look`, for a waiter.
    pub(crate) early: bool,
    /// Messages run when `look` was set.
    pub(crate) seen: u32,
    /// Time of the next check for activity.
    pub(crate) look: Nanos,
}

impl Duty {
    pub(crate) const NONE: Self = Self {
        waker: None,
        timer: NEVER,
        called: false,
        tired: false,
        early: false,
        seen: 0,
        look: Nanos::ZERO,
    };

    pub(crate) const fn call(&mut self) -> Option<Waker> {
        self.called = true;
        self.waker.take()
    }

    /// Wakes it for an earlier time only.
    pub(crate) fn set_timer(&mut self, at: Nanos) -> Option<Waker> {
        let earlier = at < core::mem::replace(&mut self.timer, at);
        self.waker.take_if(|_| earlier)
    }

    /// Returns whether it was called, or its timer went off; and the timer, if neither has
    /// happened. Then it waits with `waker`. The last part is a waker to be dropped.
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
