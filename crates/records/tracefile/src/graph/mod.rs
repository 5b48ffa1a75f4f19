//! Pairing of entries and exits to calls of functions.
//!
//! [`Graph`] reads events and yields [`Step`]s. An entry and its exit form a [`Slice`]. Missing
//! entries and exits are never invented: their slice has no start or no end, and [`Match`] states
//! why.
//!
//! ```
//! use nostall_tracefile::graph::{self, Match, Step};
//! use nostall_tracefile::model::{Catalog, Event, EventKind, Events, ReadError, Task, TimeUnit};
//!
//! let mut catalog = Catalog::default();
//! let function = catalog.name("console_write");
//! let event = |time, kind| Event { time, cpu: 0, task: Task::NONE, kind };
//! let enter = EventKind::Enter { function, depth: None, argument: None };
//! let exit = EventKind::Exit { function: Some(function), depth: None, duration: None };
//! let events = vec![event(10, enter), event(421, exit)];
//! let mut source = Events::new(catalog, events, TimeUnit::Nanoseconds, Vec::new());
//!
//! let mut slices = Vec::new();
//! graph::walk(&mut source, |catalog, step| {
//!     if let Step::Leave(slice) = step {
//!         slices.push((catalog.text(slice.function.unwrap()).to_owned(), slice.duration));
//!     }
//!     Ok::<_, ReadError>(())
//! })?;
//! assert_eq!(slices, [("console_write".to_owned(), Some(411))]);
//! # Ok::<_, ReadError>(())
//! ```

mod context;
mod pair;
mod step;
#[cfg(test)]
mod tests;

pub use pair::Graph;
pub(crate) use pair::MOST_CPUS;
pub use step::{Entry, Match, Slice, Step};

use crate::model::{Catalog, ReadError, Source};

/// Passes the steps of the whole source to `sink`, the open calls last.
///
/// # Errors
///
/// The error of the source or of `sink`; the walk then stops.
pub fn walk<E: From<ReadError>>(
    source: &mut (impl Source + ?Sized),
    mut sink: impl FnMut(&Catalog, Step) -> Result<(), E>,
) -> Result<(), E> {
    let mut graph = Graph::default();
    while let Some(event) = source.next_event()? {
        let catalog = source.catalog();
        graph.push(&event, catalog, &mut |step| sink(catalog, step))?;
    }
    let catalog = source.catalog();
    graph.finish(&mut |step| sink(catalog, step))
}
