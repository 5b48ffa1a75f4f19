//! The `time` register as a clock (RISC-V unprivileged specification, "Zicntr").

use nostall_io::{Clock, Nanos};
use riscv::register::time;

use super::harts;

/// The `time` register, which all harts share, with a known rate.
#[derive(Clone, Copy)]
pub struct Timebase {
    start: u64,
    hz: u32,
    /// Nanoseconds per step, times 2^32.
    scale: u64,
}

impl Timebase {
    /// Creates the clock with the rate in the device tree.
    pub fn find() -> Self {
        let Some(hz) = harts::timebase() else {
            panic!("no clock: the device tree has no timebase-frequency below 4 GHz");
        };
        Self {
            start: time::read64(),
            hz,
            scale: (1_000_000_000 << 32) / u64::from(hz),
        }
    }

    /// Returns the first register value at which [`now`](Clock::now) is at least `at`. It uses the
    /// same rounded scale, so a timer never expires early.
    pub fn steps_at(&self, at: Nanos) -> u64 {
        let steps = (u128::from(at.0) << 32).div_ceil(self.scale.into());
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        self.start.saturating_add(steps)
    }

    /// Returns the rate in steps per second.
    pub const fn hz(&self) -> u64 {
        self.hz as u64
    }
}

impl Clock for Timebase {
    fn now(&self) -> Nanos {
        let steps = time::read64().wrapping_sub(self.start);
        Nanos(((u128::from(steps) * u128::from(self.scale)) >> 32) as u64)
    }
}
