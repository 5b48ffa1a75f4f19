//! A second task on the CPU that sends: it counts, whenever it is let.
//!
//! What it did not get is how long the CPU was held. That is measured by its
//! progress, not assumed because somebody said that he slept.

use core::cell::Cell;
use core::hint::black_box;

use nostall_io::{Clock, Nanos};

/// Steps between two looks at the clock.
const STRIDE: u64 = 64;

/// How long the task runs alone, to know what it can do.
const ALONE: Nanos = Nanos::from_millis(5);

/// The task, and the clock that gives it the CPU while the other task sleeps.
pub struct SecondTask<C> {
    clock: C,
    steps: Cell<u64>,
    state: Cell<u64>,
    /// What it does in [`ALONE`] on a CPU of its own.
    steps_alone: Cell<u64>,
}

impl<C: Clock> SecondTask<C> {
    /// Runs it alone first.
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

    /// The CPU time that its progress since its start is worth.
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
