//! What the ring and its owners are made of. The model-checked tests put loom's in
//! its place, those that kill producers put their own.

pub(crate) use portable_atomic::{AtomicUsize, Ordering, fence};
