//! Synchronization primitives of the ring and its owners. The model-checked tests replace them with
//! loom's, and the tests that kill producers replace them with their own.

pub(crate) use core::hint::spin_loop;
#[cfg(feature = "uart")]
pub(crate) use portable_atomic::AtomicU8;
pub(crate) use portable_atomic::{AtomicUsize, Ordering, fence};
/// A lock that is tried and never waited for.
#[cfg(feature = "uart")]
pub(crate) use spin::mutex::{SpinMutex as TryLock, SpinMutexGuard as Guard};

use nostall_io::Nanos;

/// Assumed duration of one poll while the clock is stopped; close to the real one.
pub(crate) const STILL: Nanos = Nanos(50);
