//! Requirements of a machine.

use nostall_io::Nanos;
use nostall_spi::{Bus, Controller, Platform};

use super::wired::Wired;

/// The bus of the experiment: a place for each message that can wait, and some to spare.
pub type CanBus<M> =
    Bus<Wired<<M as CanMachine>::Controller>, <M as CanMachine>::Platform, 8, 8, 32>;

/// A machine that can run two tasks and a bus's worker at once.
pub trait CanMachine {
    /// Driver of the wires.
    type Controller: Controller + Send;

    /// Its tasks and its timer, with a worker while [`run`](Self::run) runs.
    type Platform: Platform + Sync;

    /// The controller. It selects no device: at the other end there is a model. Over the wires go
    /// ones, and received bytes are ignored.
    fn controller(&self) -> Self::Controller;

    /// A platform for one more bus.
    fn platform(&self) -> Self::Platform;

    /// Has a worker serve `bus`, as its platform says. When that is there, runs both
    /// `tasks` at once, until they return; then calls `rest`, ends the worker, and
    /// returns.
    ///
    /// Counting begins when the worker is there and ends when both tasks have returned. The
    /// worker's own counts may run to its end, as `rest` only wakes it once or twice.
    fn run(
        &self,
        bus: &CanBus<Self>,
        tasks: [&(dyn Fn() + Sync); 2],
        rest: &(dyn Fn() + Sync),
    ) -> Counted
    where
        Self: Sized;
}

/// Counts of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Context switches of the two tasks and the worker: each time that one of them got
    /// a CPU, or was taken off it. A kernel whose CPUs have one task each counts the
    /// times that a CPU went to sleep for want of work. `None` if the machine does not.
    pub switches: Option<u64>,
    /// Interrupts from one CPU to another.
    pub cross_cpu: Option<u64>,
    /// Interrupts of all kinds.
    pub interrupts: Option<u64>,
    /// For how long the worker had a CPU.
    pub worker: Nanos,
}
