//! The model of a trace: events, their names, and the sources that yield them.
//!
//! Every reader is a [`Source`], and every report and export consumes one. Each report thus works
//! on each kind of trace, and no trace has to fit into memory.

mod catalog;
mod event;
mod merge;
mod source;

pub use catalog::{Catalog, Name, Task, TaskName};
pub use event::{Event, EventKind};
pub use merge::Merge;
pub use source::{Events, Progress, ReadError, Source, TimeUnit};
