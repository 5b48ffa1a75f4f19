//! A flood of messages on a slow serial console: as it stalls, and without the stall.
//!
//! CPUs replay a recorded log, each a share of its lines, at the times at which they
//! were logged, while a watchdog monitors each of them. The way of a message to the line is a
//! [`Path`]: [`Inline`], as in Linux 4.15 to 6.x; [`PrinterThread`], as in Linux's nbcon
//! consoles; or [`Bounded`], with [`nostall_console`]. A machine supplies no more than a
//! [`Cpu`], so the same code runs in a kernel and in virtual time. A [`Throttle`] makes a
//! virtual port, which takes every byte at once, as slow as a real one.

mod bounded;
mod cpu;
mod flood;
mod inline;
mod job;
mod lines;
mod position;
mod printer;
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
pub use printer::PrinterThread;
pub use strategy::{Path, Role, Strategy};
pub use throttle::Throttle;
pub use told::{Delays, Held, Times, Told};

/// Slots of the ring, which is 1 MiB.
pub const SLOTS: usize = ((1 << 20) - HEADER_BYTES) / SLOT_BYTES;
