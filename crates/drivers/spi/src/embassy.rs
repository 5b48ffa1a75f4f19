//! Platform for Embassy's clock and timers.

use core::task::Waker;

use embassy_time_driver::{TICK_HZ, now, schedule_wake};
use nostall_io::{Clock, Nanos};

use crate::platform::Platform;

/// Platform for Embassy's executor and time driver. Delays and time-outs of futures are timers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Embassy;

impl Clock for Embassy {
    fn now(&self) -> Nanos {
        let ticks = now();
        let rest = u128::from(ticks % TICK_HZ) * 1_000_000_000 / u128::from(TICK_HZ);
        Nanos::from_secs(ticks / TICK_HZ) + Nanos(rest as u64)
    }
}

impl Platform for Embassy {
    fn current(&self) -> Option<Waker> {
        None
    }

    fn block(&self, until: Nanos) {
        self.wait_until(until);
    }

    fn wake_at(&self, at: Nanos, waker: &Waker) -> bool {
        let (seconds, rest) = (at.0 / 1_000_000_000, at.0 % 1_000_000_000);
        // Rounded up, so that no timer is early.
        let ticks = (u128::from(rest) * u128::from(TICK_HZ)).div_ceil(1_000_000_000) as u64;
        schedule_wake(seconds.saturating_mul(TICK_HZ).saturating_add(ticks), waker);
        true
    }
}
