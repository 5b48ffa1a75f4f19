//! Environment of a bus.

use core::task::{RawWaker, RawWakerVTable, Waker};

use nostall_io::{Clock, Nanos};

/// Ways in which tasks wait and are woken, and the worker is called.
///
/// Provided are `Threads` (feature `std`), [`Bare`](crate::Bare) for one thread and interrupt
/// handlers, and `Embassy` (feature `embassy-time`). A kernel or an RTOS implements this trait for
/// its own tasks; [`task_waker`](crate::task_waker) creates a waker for a static.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a platform of an SPI bus",
    note = "without tasks, wrap a clock: `Bare(clock)`; `Threads` and `Embassy` are platforms"
)]
pub trait Platform: Clock {
    /// Returns a waker of the calling task; `None` if the caller must not wait: in interrupt
    /// handlers, and without tasks.
    fn current(&self) -> Option<Waker>;

    /// Blocks the calling task until it is woken or `until` has come; it may also return earlier.
    /// If the task was woken since its last return from this method, it returns at once.
    fn block(&self, until: Nanos);

    /// Makes the worker call [`Bus::poll`](crate::Bus::poll) at `at`, or at once if that has passed.
    /// For any context. Returns `false` if there is no worker, so that the main loop polls.
    ///
    /// The next call is at the earliest of these times and the one that the last `poll` returned.
    /// `Nanos(u64::MAX)` requests no call: it only asks for the worker.
    fn poll_at(&self, at: Nanos) -> bool {
        let _ = at;
        false
    }

    /// Wakes a future's `waker` at `at` or later. Returns whether it will: `false` without a timer.
    /// Then futures in a delay are polled again and again. Futures that wait for the bus or for
    /// the controller are woken in [`Bus::poll`](crate::Bus::poll).
    fn wake_at(&self, at: Nanos, waker: &Waker) -> bool {
        let _ = (at, waker);
        false
    }

    /// Returns the time for which a task spins for a busy bus before it sleeps: about the time of a
    /// sleep and a wake-up.
    fn spin_time(&self) -> Nanos {
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
    fn poll_at(&self, at: Nanos) -> bool {
        (**self).poll_at(at)
    }
    fn wake_at(&self, at: Nanos, waker: &Waker) -> bool {
        (**self).wake_at(at, waker)
    }
    fn spin_time(&self) -> Nanos {
        (**self).spin_time()
    }
}

/// A task in a static.
pub trait WakeTask: Sync + Sized + 'static {
    /// Wakes the task, from any context.
    fn wake(&'static self);

    #[doc(hidden)]
    const VTABLE: &'static RawWakerVTable = &vtable::<Self>();
}

/// Creates a waker for a task, for [`Platform::current`].
pub const fn task_waker<T: WakeTask>(task: &'static T) -> Waker {
    #[allow(unsafe_code)]
    // SAFETY: the table's functions use the pointer as the `&'static T` that it is, and `T` is
    // `Sync`. Nothing is counted or dropped.
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
    // SAFETY: the pointer is the one that was passed to `task_waker`.
    unsafe { &*task.cast::<T>() }.wake();
}
