//! A flood of messages on a slow serial console: as it stalls, and without the stall.
//!
//! CPUs replay a recorded log, each a share of its lines, at the times at which they
//! were logged, while a watchdog looks after each of them. What a message goes through
//! is a [`Path`]: [`Inline`], as Linux did it, or [`Bounded`], by
//! [`nostall_console`]. All that a machine has to offer is a [`Cpu`], so that the
//! very same code runs in a kernel and in virtual time. A virtual port, which takes every
//! byte at once, is made as slow as a real one by a [`Throttle`].

mod bounded;
mod cpu;
mod flood;
mod inline;
mod job;
mod lines;
mod strategy;
mod throttle;
mod told;

use nostall_console::layout::{HEADER_BYTES, SLOT_BYTES};

pub use bounded::Bounded;
pub use cpu::{Context, Cpu, Hold};
pub use flood::{FIRST_WORDS, Fired, Flood, LAST_WORDS, PerCpu, What};
pub use inline::Inline;
pub use job::Job;
pub use lines::{LONGEST_GAP, Lines, LogLine};
pub use strategy::{Path, Role, Strategy};
pub use throttle::Throttle;
pub use told::{Delays, Held, Times, Told};

/// Slots of the ring, which is 1 MiB.
pub const SLOTS: usize = ((1 << 20) - HEADER_BYTES) / SLOT_BYTES;
