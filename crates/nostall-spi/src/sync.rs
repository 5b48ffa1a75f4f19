//! What the bus's state is kept in. The model-checked tests put loom's in its place.

pub(crate) use portable_atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use spin::mutex::{SpinMutex, SpinMutexGuard};

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

    /// For whom nobody shares it with any more.
    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
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
