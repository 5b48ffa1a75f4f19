//! The CPU that the experiment runs on.

use nostall_io::{Clock, Nanos, Processor};

/// The CPU that runs this code, in a machine of several.
///
/// [`Clock::wait_until`] keeps the CPU; [`Clock::sleep_until`] is called with
/// interrupts on, and gives it to a second task meanwhile.
pub trait Cpu: Clock + Processor {
    /// Spins while `condition` holds, with interrupts masked. The CPU that
    /// ends it calls [`signal`](Self::signal), as ARM's `sev` ends a `wfe`.
    fn spin_while(&self, condition: impl Fn() -> bool) {
        while condition() {
            self.relax();
        }
    }

    /// Makes CPUs that [spin](Self::spin_while) check their conditions again.
    fn signal(&self) {}

    /// Sets this CPU's one-shot timer, and replaces its previous setting.
    fn call_at(&self, at: Nanos);

    /// Stops all other CPUs, wherever they are, for good.
    fn stop_others(&self);

    /// Called when a message is in the ring, and nothing else has happened yet.
    fn stored(&self) {}

    /// Takes each time that the console held this CPU, when it is over.
    fn held(&self, _: Hold) {}

    /// Reports the [`Hold`] of a CPU that had the console from `from` until now.
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
    /// Work that can be put off.
    Task,
    /// An interrupt handler; others are masked.
    Interrupt,
    /// The end.
    Panic,
}

/// A time during which a CPU could do nothing but serve the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Context that the CPU was in.
    pub context: Context,
    /// Its start.
    pub from: Nanos,
    /// From here on it had the console; before that it waited for it.
    pub owner_from: Nanos,
    /// Its end.
    pub until: Nanos,
}
