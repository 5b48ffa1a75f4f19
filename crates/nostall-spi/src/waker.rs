//! A task of a kernel as a waker, without allocation.

use core::task::{RawWaker, RawWakerVTable, Waker};

/// A task that lives in a static.
pub trait WakeTask: Sync + Sized + 'static {
    /// Wakes the task, from any context.
    fn wake(&'static self);

    #[doc(hidden)]
    const VTABLE: &'static RawWakerVTable = &vtable::<Self>();
}

/// Makes a waker of a task, for [`Platform::current`](crate::Platform::current).
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
