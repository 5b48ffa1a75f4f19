//! The environment that a bus needs.

use core::task::{RawWaker, RawWakerVTable, Waker};

use nostall_io::{Clock, Nanos};

/// Whether there is a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HasWorker {
    /// [`Platform::wake_worker`] has [`Bus::work`](crate::Bus::work) called, and
    /// [`Platform::set_timer`] has [`Bus::on_timer`](crate::Bus::on_timer) called.
    Yes,
    /// The main loop calls [`Bus::poll`](crate::Bus::poll) now and then.
    No,
}

/// How tasks wait and are woken, and how the worker is called.
///
/// Ready-made: `Threads` (feature `std`), [`Bare`](crate::Bare) for one thread and
/// interrupt handlers, `Embassy` (feature `embassy-time`). A kernel or an RTOS implements
/// this trait for its own tasks; [`task_waker`](crate::task_waker) makes a waker of a
/// static.
pub trait Platform: Clock {
    /// Wakes the calling task; `None` where the caller must not wait: in interrupt
    /// handlers, and where there are no tasks.
    fn current(&self) -> Option<Waker>;

    /// Lets the calling task sleep until it is woken, or `until` has come, or for no
    /// reason. A wake between the task's last return from here and this call counts: it
    /// returns at once.
    fn block(&self, until: Nanos);

    /// Whether there is a worker.
    fn has_worker(&self) -> HasWorker {
        HasWorker::No
    }

    /// Has the worker call [`Bus::work`](crate::Bus::work) soon. From any context.
    fn wake_worker(&self) {}

    /// Has [`Bus::on_timer`](crate::Bus::on_timer) called at `at` or later, from any
    /// context, instead of at the time that was set last.
    fn set_timer(&self, at: Nanos) {
        let _ = at;
    }

    /// Has a future's `waker` woken at `at` or later. Returns whether that will happen:
    /// `false` where there is no timer. Futures in a delay are then polled again and again;
    /// those that wait for the bus or for the controller are woken in
    /// [`Bus::poll`](crate::Bus::poll).
    fn wake_at(&self, at: Nanos, waker: &Waker) -> bool {
        let _ = (at, waker);
        false
    }

    /// How long a task spins for a busy bus before it sleeps: about the time that a sleep
    /// and a wake-up take.
    fn looks(&self) -> Nanos {
        Nanos::ZERO
    }
}

impl<P: Platform + ?Sized> Platform for &P {
    fn current(&self) -> Option<Waker> {
        (**self).current()
    }
    fn block(&self, until: Nanos) {
        (**self).block(until);
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
    fn wake_at(&self, at: Nanos, waker: &Waker) -> bool {
        (**self).wake_at(at, waker)
    }
    fn looks(&self) -> Nanos {
        (**self).looks()
    }
}

/// A task that lives in a static.
pub trait WakeTask: Sync + Sized + 'static {
    /// Wakes the task, from any context.
    fn wake(&'static self);

    #[doc(hidden)]
    const VTABLE: &'static RawWakerVTable = &vtable::<Self>();
}

/// Makes a waker of a task, for [`Platform::current`].
pub const fn task_waker<T: WakeTask>(task: &'static T) -> Waker {
    #[allow(unsafe_code)]
    // SAFETY: the table's functions use the pointer as a `&'static T`, which it is, and
    // `T` is `Sync`. There is nothing to count or to drop.
    unsafe {
        Waker::new(core::ptr::from_ref(task).cast(), T::VTABLE)
    }
}

const fn vtable<T: WakeTask>() -> RawWakerVTable {
    RawWakerVTable::new(
        |task| RawWaker::new(task, T::VTABLE),
        wake::<T>,
        wake::<T>,
        |_| {},
    )
}

#[allow(unsafe_code)]
fn wake<T: WakeTask>(task: *const ()) {
    // SAFETY: the pointer is the one that `task_waker` was given.
    unsafe { &*task.cast::<T>() }.wake();
}
