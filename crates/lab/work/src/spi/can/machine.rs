//! Interface of a machine for the CAN job.

use nostall_io::Nanos;
use nostall_spi::{Bus, Controller, Platform, Slots};

use super::wired::Wired;

/// Bus of the job, with room for every waiting message and some spare slots.
pub type CanBus<M> =
    Bus<Wired<<M as CanMachine>::Controller>, <M as CanMachine>::Platform, Slots<8, 8, 32>>;

/// A machine that runs two tasks and the bus's worker concurrently.
pub trait CanMachine {
    /// Driver of the SPI controller.
    type Controller: Controller + Send;

    /// Platform with the tasks and the timer; its worker exists during [`run`](Self::run).
    type Platform: Platform + Sync;

    /// Returns the controller. It selects no device, because the device is a model. The wires carry
    /// only ones, and received bytes are ignored.
    fn controller(&self) -> Self::Controller;

    /// Returns a platform for another bus.
    fn platform(&self) -> Self::Platform;

    /// Starts a worker for `bus`, then runs both `tasks` concurrently until they return. Afterwards
    /// it calls `rest`, ends the worker, and returns the counts.
    ///
    /// Counting starts when the worker is ready and ends when both tasks have returned. The
    /// worker's own counts may continue to its end, because `rest` wakes it only once or twice.
    fn run(
        &self,
        bus: &CanBus<Self>,
        tasks: [&(dyn Fn() + Sync); 2],
        rest: &(dyn Fn() + Sync),
    ) -> Counted
    where
        Self: Sized;
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Context switches of the two tasks and the worker: each gain or loss of a CPU. A kernel with
    /// one task per CPU counts how often an idle CPU went to sleep. `None` if the machine does not
    /// count them.
    pub switches: Option<u64>,
    /// Interrupts between CPUs.
    pub cross_cpu: Option<u64>,
    /// All interrupts.
    pub interrupts: Option<u64>,
    /// CPU time of the worker.
    pub worker: Nanos,
}
