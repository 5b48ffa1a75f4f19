//! Bytes move through two pipes while the called functions are traced into persistent RAM. This is
//! `dd if=/dev/zero | pv | dd of=/dev/null`, as measured for Linux's patches "pstore: Improve
//! performance of ftrace backend with ramoops" (2016).
//!
//! Three [stages](Stage), each on its own CPU, move blocks of 512 bytes. A few functions stand for
//! the kernel's, and have the names of Linux's functions on the same path. They report their
//! entries to a [`Tracer`]: [`ENTRIES_PER_BLOCK`] for each block.
//!
//! Linux enters about five times as many. A waiting stage is not traced, as in Linux, so the number
//! of records is exact. The pipes are lock-free rings of 64 KiB with one reader and one writer.
//! Linux's are pages under a mutex.

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
pub use recovered::{JobResult, Recovered, TextKind, TraceSummary};
pub use region::{FEWEST_CPUS, LINUX, LOGS, MOST_CPUS, REGION, Traces, params};
pub use stage::{Crew, ENTRIES_PER_BLOCK, Moved, Pipes, Stage, StageRun};
pub use strategy::{Job, ZoneStrategy};

/// Number of blocks in one measurement: 8 MiB.
pub const BLOCKS: u32 = 16_384;
