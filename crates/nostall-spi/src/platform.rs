//! What the bus needs of whatever runs it.

use nostall_io::{Clock, Nanos};

/// Whether there is a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HasWorker {
    /// [`Platform::wake_worker`] has [`Bus::work`](crate::Bus::work) called, and
    /// [`Platform::set_timer`] has [`Bus::on_timer`](crate::Bus::on_timer) called.
    Yes,
    /// Nobody; somebody calls [`Bus::poll`](crate::Bus::poll) now and then.
    No,
}

/// How tasks wait and are woken, and who the worker is.
///
/// Four kinds of places to run in, and what they make of it:
///
/// - threads of an operating system: `Threads` (feature `std`);
/// - a kernel: its own tasks, its timer, a task of its own as worker;
/// - bare metal with one thread: `Bare`;
/// - an async executor: `Bare` too, or any of the others. Futures bring their own
///   wakers and need nothing of this.
pub trait Platform: Clock {
    /// What is needed to wake a task.
    type Task: Clone + Send;

    /// Whoever calls; `None` if he must not wait: an interrupt handler, or where
    /// there are no tasks.
    fn current(&self) -> Option<Self::Task>;

    /// Lets the calling task sleep until it is [woken](Self::wake), or `until` has
    /// come, or for no reason. A wake between the task's last return from here and
    /// this call counts: it returns at once.
    fn block(&self, until: Nanos);

    /// Wakes a task, from any context.
    fn wake(&self, task: &Self::Task);

    /// Whether there is a worker.
    fn has_worker(&self) -> HasWorker;

    /// Has the worker call [`Bus::work`](crate::Bus::work) soon. From any context.
    fn wake_worker(&self) {}

    /// Has [`Bus::on_timer`](crate::Bus::on_timer) called at `at` or later, from any
    /// context, instead of when it was said last.
    fn set_timer(&self, at: Nanos) {
        let _ = at;
    }

    /// How long a task that waits for the bus looks before it sleeps. A message that is
    /// over sooner than a task can sleep and be woken is worth some looks. One
    /// who looks needs not be woken, and takes a bus that was left to the worker.
    fn looks(&self) -> Nanos {
        Nanos::ZERO
    }
}

impl<P: Platform + ?Sized> Platform for &P {
    type Task = P::Task;

    fn current(&self) -> Option<Self::Task> {
        (**self).current()
    }
    fn block(&self, until: Nanos) {
        (**self).block(until);
    }
    fn wake(&self, task: &Self::Task) {
        (**self).wake(task);
    }
    fn has_worker(&self) -> HasWorker {
        (**self).has_worker()
    }
    fn wake_worker(&self) {
        (**self).wake_worker();
    }
    fn set_timer(&self, at: Nanos) {
        (**self).set_timer(at);
    }
    fn looks(&self) -> Nanos {
        (**self).looks()
    }
}
