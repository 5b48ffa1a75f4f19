//! What `src/sync.rs` is in the crate, of loom's.

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use loom::sync::{Mutex, MutexGuard};

/// Fails the test if two use it at once.
#[derive(Debug)]
pub(crate) struct Owned<T>(loom::cell::UnsafeCell<T>);

// SAFETY: loom checks it.
unsafe impl<T: Send> Sync for Owned<T> {}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }

    pub(crate) unsafe fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: loom checks that nobody else is there.
        self.0.with_mut(|value| act(unsafe { &mut *value }))
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

#[derive(Debug)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn enter(&self) -> MutexGuard<'_, T> {
        self.0.try_lock().expect("only one is let in")
    }

    pub(crate) fn enter_soon(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }

    pub(crate) fn try_enter(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}
