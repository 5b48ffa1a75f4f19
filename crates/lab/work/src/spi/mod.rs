//! SPI jobs: a flash, and a busy bus.
//!
//! [`flash`] accesses its device through any controller. [`can`] measures the bus itself, on a
//! [`CanMachine`] that runs two tasks and a worker concurrently.

mod can;
mod flash;
mod job;
mod job_result;

pub use can::{CanBus, CanMachine, Counted, Failed, FarEnd, IDLE_TIMEOUT, Wired, can};
pub use flash::{SECTOR, flash};
pub use job::{BusStrategy, FRAMES, Job};
pub use job_result::{Digest, JobResult, Sector, SpiMeasured};
