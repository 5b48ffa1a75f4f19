//! The CPU that the experiment runs on.

use nostall_io::{Clock, Nanos, Processor};

/// The CPU that runs this code, in a machine with several CPUs.
///
/// [`Clock::wait_until`] keeps the CPU busy. [`Clock::sleep_until`] is called with interrupts
/// enabled, and lets a second task run meanwhile.
pub trait Cpu: Clock + Processor {
    /// Spins while `condition` holds, with interrupts masked. The CPU that ends the condition calls
    /// [`signal`](Self::signal), as ARM's `sev` ends a `wfe`.
    fn spin_while(&self, condition: impl Fn() -> bool) {
        while condition() {
            self.relax();
        }
    }

    /// Makes CPUs that [spin](Self::spin_while) check their conditions again.
    fn signal(&self) {}

    /// Sets this CPU's one-shot timer, replacing its previous time.
    fn call_at(&self, at: Nanos);

    /// Stops all other CPUs permanently, in any state.
    fn stop_others(&self);

    /// Handles the moment after a message was stored in the ring, before any further work.
    fn stored(&self) {}

    /// Records a completed [`Hold`] of this CPU.
    fn held(&self, _: Hold) {}

    /// Records a [`Hold`] of a CPU that owned the console from `from` until now.
    fn owned(&self, context: Context, from: Nanos) {
        self.held(Hold {
            context,
            from,
            owner_from: from,
            until: self.now(),
        });
    }
}

/// Context that a CPU runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Context {
    /// A task: its work can be deferred.
    Task,
    /// An interrupt handler, with other interrupts masked.
    Interrupt,
    /// A panic.
    Panic,
}

/// A time span during which a CPU only served the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Context of the CPU.
    pub context: Context,
    /// Start of the hold.
    pub from: Nanos,
    /// Time at which the CPU became the console's owner; before, it waited.
    pub owner_from: Nanos,
    /// End of the hold.
    pub until: Nanos,
}
