//! A second task on the sending CPU, which counts whenever it can run.
//!
//! The CPU time that it does not get is the time for which the sender occupied the CPU. It is
//! measured from the task's progress instead of from the sender's sleeps.

use core::cell::Cell;
use core::hint::black_box;

use nostall_io::{Clock, Nanos};

/// Steps between two clock reads.
const STRIDE: u64 = 64;

/// Duration of the reference run without the other task.
const ALONE: Nanos = Nanos::from_millis(5);

/// The second task, and a clock that lets it run while the sender sleeps.
pub struct SecondTask<C> {
    clock: C,
    steps: Cell<u64>,
    state: Cell<u64>,
    /// Number of steps in [`ALONE`] without the other task.
    steps_alone: Cell<u64>,
}

impl<C: Clock> SecondTask<C> {
    /// Creates the task, and measures its speed alone.
    pub fn new(clock: C) -> Self {
        let task = Self {
            clock,
            steps: Cell::new(0),
            state: Cell::new(1),
            steps_alone: Cell::new(1),
        };
        task.run_until(task.clock.now() + ALONE);
        task.steps_alone.set(task.steps.replace(0).max(1));
        task
    }

    /// Returns the CPU time that corresponds to the task's progress since its start.
    pub fn granted(&self) -> Nanos {
        let time = u128::from(self.steps.get()) * u128::from(ALONE.0);
        Nanos((time / u128::from(self.steps_alone.get())) as u64)
    }

    fn run_until(&self, deadline: Nanos) {
        while self.clock.now() < deadline {
            for _ in 0..STRIDE {
                let next = self.state.get().wrapping_mul(6_364_136_223_846_793_005);
                self.state.set(black_box(next.wrapping_add(1)));
            }
            self.steps.set(self.steps.get() + STRIDE);
        }
    }
}

impl<C: Clock> Clock for SecondTask<C> {
    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn wait_until(&self, deadline: Nanos) {
        self.clock.wait_until(deadline);
    }

    fn sleep_until(&self, deadline: Nanos) {
        self.run_until(deadline);
    }
}
