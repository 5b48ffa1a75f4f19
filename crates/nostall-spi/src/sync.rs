//! What the bus's state is kept in. The model-checked tests put loom's in its place.

use core::cell::UnsafeCell;

pub(crate) use portable_atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use spin::mutex::{SpinMutex, SpinMutexGuard};

/// A value for whoever has the bus, and for nobody else.
///
/// Not a [`Lock`]: that would be a second atomic exchange for every message, which
/// costs a fifth of what a short one does.
#[derive(Debug)]
pub(crate) struct Owned<T>(UnsafeCell<T>);

// SAFETY: it is used through `with` only, by one context at a time; which may be
// another each time.
#[allow(unsafe_code)]
unsafe impl<T: Send> Sync for Owned<T> {}

impl<T> Owned<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// # Safety
    ///
    /// Nobody else may be in here, from any context, and `act` must not come here
    /// again.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the caller's.
        act(unsafe { &mut *self.0.get() })
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

/// A value that one context at a time uses, as the protocol around it has made sure.
///
/// The lock in it is never waited for: it is what lets the compiler believe the
/// protocol without unsafe code.
#[derive(Debug)]
pub(crate) struct Lock<T>(SpinMutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(SpinMutex::new(value))
    }

    /// For whom the protocol has let in.
    #[inline]
    pub(crate) fn enter(&self) -> SpinMutexGuard<'_, T> {
        self.0.lock()
    }

    /// For whom another may be in the way for a few instructions, but never one that
    /// he himself has interrupted.
    pub(crate) fn enter_soon(&self) -> SpinMutexGuard<'_, T> {
        self.0.lock()
    }

    /// For whom nothing has let in: not if somebody is there.
    pub(crate) fn try_enter(&self) -> Option<SpinMutexGuard<'_, T>> {
        self.0.try_lock()
    }
}
