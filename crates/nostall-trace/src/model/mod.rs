//! Traces in memory: events, the names in them, and the sources that yield them.
//!
//! Every reader is a [`Source`], and every report and every export consumes one. So each report
//! works on each kind of trace, and no trace has to fit into memory.

mod catalog;
mod event;
mod merge;
mod source;

pub use catalog::{Catalog, Name, Task, TaskName};
pub use event::{Event, EventKind};
pub use merge::Merge;
pub use source::{Events, Progress, ReadError, Source, TimeUnit};
