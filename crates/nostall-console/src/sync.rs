//! What the ring and its owners are made of. The model-checked tests put loom's in
//! its place, those that kill producers put their own.

pub(crate) use core::hint::spin_loop;
pub(crate) use portable_atomic::{AtomicUsize, Ordering, fence};

use nostall_io::Nanos;

/// What a poll of a clock that stands still counts for: about as long as it takes.
pub(crate) const STILL: Nanos = Nanos(50);
