//! Primitives of the ring and its owners. The model-checked tests replace them with loom's, and
//! the tests that kill producers with their own.

pub(crate) use core::hint::spin_loop;
pub(crate) use portable_atomic::{AtomicUsize, Ordering, fence};

use nostall_io::Nanos;

/// Assumed time of a poll of a clock that stands still: about its real duration.
pub(crate) const STILL: Nanos = Nanos(50);
