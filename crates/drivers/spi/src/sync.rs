//! Synchronization primitives of the bus. The model-checked tests replace them with loom's.
//!
//! # Order of each atomic
//!
//! The models are tests of `tests/loom`. Its platform replaces `Threads`, and its critical section
//! replaces the one of this file.
//!
//! | atomic | stores and loads | why | model |
//! | --- | --- | --- | --- |
//! | `gate` (`ownership.rs`): `take`, `release`, `is_owned` | exchange Acquire; exchange Release; load Acquire | An owner acquires what the last owner released: the station and its counters. Only exchanges change the gate in between, so the chain holds. | `three_callers_are_all_served_once`, and each other model with a fast path |
//! | `gate` in the critical section | exchanges AcqRel; first loads Relaxed | The first load only proposes a value, which the exchange checks. The exchange acquires from a fast release. It releases to a fast `take` what the last owner left, also after a forfeited grant. | `an_overdue_waiter_is_granted_the_bus_and_a_late_one_loses_it` |
//! | `gate`: `word` | load Relaxed | Only shown. | - |
//! | `worker` (`bus.rs`) | exchanges AcqRel; loads Acquire | A worker clears its bit before it checks the line for the last time. A caller stores its message before it loads the bit. Both use the line's critical section, so one of them sees the other. | `a_worker_that_ends_leaves_no_message_behind`, `a_worker_that_begins_sees_hardware_that_was_woken_before` |
//! | `serves` (`threads.rs`) | stores Release; load Acquire | The same as `worker`. A waker is only taken from the state, under its lock. | - (`tests/stress.rs`) |
//! | `long` (`bus.rs`) | store Release; load Acquire; `reset` Relaxed | Value only. A waiter reads it after it has waited for the lock time-out. `reset` has the bus alone. | - |
//! | counters that `raise` changes (`statistics.rs`) | load and store Relaxed | Only the owner changes them, and `gate` passes them on. Waiters compare them to see progress. | each model with a fast path |
//! | counters that `count` changes (`statistics.rs`) | addition Relaxed | Counter only. | - |
//! | `ENTERED` (this file) | load and store Relaxed, compiler fence; store Release | Critical sections pass it on. Inside of one, only a handler on the same CPU reads it, in program order. | - (a unit test below) |

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::compiler_fence;

use portable_atomic::AtomicBool;
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
pub struct Critical<T: ?Sized>(UnsafeCell<T>);

/// Set in the section of any bus. All buses share it, because critical sections exclude one another:
/// in each bus, it would take 8 bytes with its padding.
static ENTERED: AtomicBool = AtomicBool::new(false);

// SAFETY: `with` is the only access through a shared reference. Critical sections exclude one
// another, so one context at a time uses the cell.
#[allow(unsafe_code)]
unsafe impl<T: ?Sized + Send> Sync for Critical<T> {}

impl<T> Critical<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }
}

impl<T: ?Sized> Critical<T> {
    /// Calls `act`, which must be short and must not run foreign code.
    ///
    /// # Panics
    ///
    /// If it interrupts the section of a bus, as a signal handler can.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        critical_section::with(|_| {
            let _entered = Entered::new();
            #[allow(unsafe_code)]
            // SAFETY: the critical section excludes other contexts, and `ENTERED` a context that
            // interrupts this one. So there is no other reference.
            act(unsafe { &mut *self.0.get() })
        })
    }
}

/// Stay in the section of a bus.
struct Entered;

impl Entered {
    fn new() -> Self {
        let entered = ENTERED.load(Ordering::Relaxed);
        assert!(!entered, "a critical section of a bus was interrupted");
        ENTERED.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        Self
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        ENTERED.store(false, Ordering::Release);
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

#[cfg(all(test, feature = "std"))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::Critical;

    #[test]
    fn a_context_that_interrupts_the_section_of_a_bus_panics_and_the_next_one_does_not() {
        let (bus, other) = (Critical::new(1), Critical::new(2));
        for interrupted in [&bus, &other] {
            let nested = AssertUnwindSafe(|| interrupted.with(|_| bus.with(|_| ())));
            assert!(catch_unwind(nested).is_err());
        }
        assert_eq!(bus.with(|value| *value), 1);
    }
}
