//! loom's primitives as a replacement of `src/sync.rs`.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};

pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use loom::sync::{Mutex, MutexGuard};

/// Replaces `const` constructors, which loom's atomics do not have.
macro_rules! constant {
    ($(#[$meta:meta])* $vis:vis fn $($rest:tt)*) => {
        $(#[$meta])* $vis fn $($rest)*
    };
}
pub(crate) use constant;

macro_rules! array_of {
    ($value:expr) => {
        core::array::from_fn(|_| $value)
    };
}
pub(crate) use array_of;

/// A cell that fails the test if two contexts use it at the same time.
#[derive(Debug)]
pub(crate) struct Owned<T>(loom::cell::UnsafeCell<T>);

// SAFETY: loom checks the accesses.
unsafe impl<T: Send> Sync for Owned<T> {}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }

    pub(crate) unsafe fn get(&self) -> Used<'_, T> {
        Used(self.0.get_mut(), PhantomData)
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

pub(crate) struct Used<'a, T>(loom::cell::MutPtr<T>, PhantomData<&'a mut T>);

impl<T> Deref for Used<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: loom checks that there is no other user.
        unsafe { self.0.deref() }
    }
}

impl<T> DerefMut for Used<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: loom checks that there is no other user.
        unsafe { self.0.deref() }
    }
}

#[derive(Debug)]
pub struct Critical<T: ?Sized>(Mutex<T>);

impl<T> Critical<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }
}

impl<T: ?Sized> Critical<T> {
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        // Threads are coroutines under loom. A panic in one thread may poison a lock of another
        // one.
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A lock that fails the test if a context would have to wait for it.
#[derive(Debug)]
pub struct Lock<T: ?Sized>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }
}

impl<T: ?Sized> Lock<T> {
    /// Does nothing, because no model leaks a guard.
    pub(crate) unsafe fn break_open(&self) {}

    pub(crate) fn enter(&self) -> MutexGuard<'_, T> {
        match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => panic!("the protocol allows only one context"),
        }
    }
}
