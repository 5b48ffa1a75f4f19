//! PCI configuration space: reads, writes and enumeration with each access method.

mod found;
mod job;
mod job_result;
mod space;

pub use found::{FoundBar, FoundBarKind, FoundCapability, FoundFunction};
pub use job::{Job, Method, Operation, READS, Room, WRITES};
pub use job_result::{Capabilities, JobResult, PciMeasured, Tree};
pub use space::{Counted, RAM_AT, Space};
