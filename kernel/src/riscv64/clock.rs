//! The `time` register as a clock (RISC-V unprivileged specification, "Zicntr").

use nostall_io::{Clock, Nanos};
use riscv::register::time;

use super::tree;

/// The `time` register, which all harts share, of known rate.
#[derive(Clone, Copy)]
pub struct Timebase {
    start: u64,
    hz: u64,
    /// Nanoseconds a step, times 2^32.
    scale: u64,
}

impl Timebase {
    /// At the rate that the device tree tells.
    pub fn find() -> Self {
        let Some(hz) = tree::timebase() else {
            panic!("no clock to go by: the device tree has no timebase-frequency");
        };
        Self {
            start: time::read64(),
            hz,
            scale: u64::try_from((1_000_000_000u128 << 32) / u128::from(hz)).unwrap_or(u64::MAX),
        }
    }

    /// What the register shows at `at`, or just after.
    pub fn steps_at(&self, at: Nanos) -> u64 {
        let steps = (u128::from(at.0) * u128::from(self.hz)).div_ceil(1_000_000_000);
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        self.start.saturating_add(steps)
    }

    /// Steps a second.
    pub const fn hz(&self) -> u64 {
        self.hz
    }
}

impl Clock for Timebase {
    fn now(&self) -> Nanos {
        let steps = time::read64().wrapping_sub(self.start);
        Nanos(((u128::from(steps) * u128::from(self.scale)) >> 32) as u64)
    }
}
