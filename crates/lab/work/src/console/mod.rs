//! A flood of messages on a slow serial console, with and without the stall.
//!
//! CPUs replay a recorded log at its recorded times, each CPU a share of the lines. A watchdog
//! monitors each CPU. A [`Path`] takes messages to the line: [`Inline`], as in Linux 4.15 to 6.x;
//! [`PrinterThread`], as in Linux's nbcon consoles; or [`Bounded`], with [`nostall_console`].
//!
//! A machine only supplies a [`Cpu`], so the same code runs in a kernel and in virtual time. A
//! [`Throttle`] makes a virtual port, which accepts every byte at once, as slow as a real one.

mod bounded;
mod cpu;
mod flood;
mod inline;
mod job;
mod job_result;
mod lines;
mod position;
mod printer;
mod strategy;
mod throttle;

use nostall_console::layout::{HEADER_BYTES, SLOT_BYTES};

pub use bounded::Bounded;
pub use cpu::{Context, Cpu, Hold};
pub use flood::{FIRST_WORDS, Fired, Flood, LAST_WORDS, PerCpu, What};
pub use inline::Inline;
pub use job::Job;
pub use job_result::{Delays, Held, JobResult, Times};
pub use lines::{LONGEST_GAP, Lines, LogLine};
pub use printer::PrinterThread;
pub use strategy::{Path, PrintStrategy, Role};
pub use throttle::Throttle;

/// Number of slots in the ring, which is 1 MiB.
pub const SLOTS: usize = ((1 << 20) - HEADER_BYTES) / SLOT_BYTES;
