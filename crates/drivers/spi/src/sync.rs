//! Synchronization primitives of the bus. The model-checked tests replace them with loom's.

use core::cell::{RefCell, UnsafeCell};
use core::ops::{Deref, DerefMut};

pub(crate) use portable_atomic::{AtomicU8, AtomicU32, Ordering};
use spin::mutex::{SpinMutex, SpinMutexGuard};

/// Declares a constructor `const`, except under loom, whose atomics have no `const` constructors.
macro_rules! constant {
    ($(#[$meta:meta])* $vis:vis fn $($rest:tt)*) => {
        $(#[$meta])* $vis const fn $($rest)*
    };
}
pub(crate) use constant;

/// Fills an array with an initial value.
macro_rules! array_of {
    ($value:expr) => {
        [const { $value }; _]
    };
}
pub(crate) use array_of;

/// A value for the owner of the bus.
///
/// It has no lock, because a lock would cost a second atomic exchange for every message.
#[derive(Debug)]
pub(crate) struct Owned<T>(UnsafeCell<T>);

// SAFETY: `get` is the only access through a shared reference. Its contract allows one context at a
// time, possibly another one each time.
#[allow(unsafe_code)]
unsafe impl<T: Send> Sync for Owned<T> {}

impl<T> Owned<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Returns the value.
    ///
    /// # Safety
    ///
    /// The caller owns the bus for the lifetime of the reference, and has no other reference from
    /// here.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn get(&self) -> Used<'_, T> {
        // SAFETY: the caller's contract.
        Used(unsafe { &mut *self.0.get() })
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

/// An [`Owned`] value in use.
pub(crate) struct Used<'a, T>(&'a mut T);

impl<T> Deref for Used<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0
    }
}

impl<T> DerefMut for Used<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0
    }
}

/// A value in a critical section, also for use in interrupt handlers.
///
/// `critical_section::Mutex` does the same for values of a known size only.
pub struct Critical<T: ?Sized>(RefCell<T>);

// SAFETY: `with` is the only access through a shared reference. Critical sections exclude one
// another, so one context at a time uses the cell.
#[allow(unsafe_code)]
unsafe impl<T: ?Sized + Send> Sync for Critical<T> {}

impl<T> Critical<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }
}

impl<T: ?Sized> Critical<T> {
    /// Calls `act`, which must be short and must not run foreign code.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        critical_section::with(|_| act(&mut self.0.borrow_mut()))
    }
}

/// A value that the protocol gives to one context at a time.
///
/// Its lock is never waited for. It avoids unsafe code in the users of the protocol.
#[derive(Debug)]
pub struct Lock<T: ?Sized>(SpinMutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(SpinMutex::new(value))
    }
}

impl<T: ?Sized> Lock<T> {
    pub(crate) fn enter(&self) -> SpinMutexGuard<'_, T> {
        self.0.lock()
    }

    /// Opens the lock if its guard was leaked.
    ///
    /// # Safety
    ///
    /// If the lock is closed, its guard was leaked and is not used any more.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn break_open(&self) {
        if self.0.is_locked() {
            // SAFETY: the caller's contract.
            unsafe { self.0.force_unlock() }
        }
    }
}
