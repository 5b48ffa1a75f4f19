//! Bytes moved through two pipes by functions that are traced into persistent
//! RAM: `dd if=/dev/zero | pv | dd of=/dev/null`, as the seed measured it.
//!
//! Three [stages](Stage), each on a CPU of its own, move blocks of 512 bytes. What
//! stands for the kernel under them is a handful of functions, named after
//! what Linux calls on the same way, that tell a [`Tracer`] when they are
//! entered: [`ENTRIES_PER_BLOCK`] for each block. (Linux enters about five times
//! as many. Here as there a stage waits without being traced, so that the
//! number of records is exact.) The pipes are rings of 64 KiB with one reader and
//! one writer, lock-free; Linux's are pages under a mutex.

mod calls;
mod logs;
mod measure;
mod pipe;
mod recover;
mod recovered;
mod region;
mod stage;
mod strategy;

pub use calls::{Sleep, Tracer};
pub use logs::Logs;
pub use measure::measure;
pub use pipe::{BLOCK, Pipe};
pub use recover::recover;
pub use recovered::{Recovered, TextKind, Told, TraceSummary};
pub use region::{FEWEST_CPUS, LINUX, LOGS, MOST_CPUS, REGION, Traces, params};
pub use stage::{Crew, ENTRIES_PER_BLOCK, Moved, Pipes, Ran, Stage};
pub use strategy::{Job, Strategy};

/// Blocks of one measurement: 8 MiB.
pub const BLOCKS: u32 = 16_384;
