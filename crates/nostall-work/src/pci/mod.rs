//! PCI configuration space: reads, writes and enumeration with each access method.

mod found;
mod job;
mod space;
mod told;

pub use found::{FoundBar, FoundBarKind, FoundCapability, FoundFunction};
pub use job::{Job, Method, Operation, READS, Room, WRITES};
pub use space::{Counted, RAM_AT, Space};
pub use told::{Capabilities, PciMeasured, Told, Tree};
