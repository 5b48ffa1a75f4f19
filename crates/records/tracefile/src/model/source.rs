//! Sources of events.

use std::fmt;

use super::{Catalog, Event};

/// Yields the events of one trace, merged over its CPUs by time.
///
/// The events of one CPU are in the order of recording, even if the clock stepped back.
pub trait Source {
    /// Returns the next event; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if the rest of the trace cannot be read. Damaged records are no error: they
    /// are skipped, and replaced with the event [`Lost`](super::EventKind::Lost).
    fn next_event(&mut self) -> Result<Option<Event>, ReadError>;

    /// Returns the names in the events so far.
    fn catalog(&self) -> &Catalog;

    /// Returns the unit of times and durations.
    fn unit(&self) -> TimeUnit {
        TimeUnit::Nanoseconds
    }

    /// Returns the position of the reader.
    fn progress(&self) -> Progress;

    /// Returns notes for the user about damage and missing parts found so far.
    fn notes(&self) -> &[String] {
        &[]
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        (**self).next_event()
    }
    fn catalog(&self) -> &Catalog {
        (**self).catalog()
    }
    fn unit(&self) -> TimeUnit {
        (**self).unit()
    }
    fn progress(&self) -> Progress {
        (**self).progress()
    }
    fn notes(&self) -> &[String] {
        (**self).notes()
    }
}

/// Unit of a source's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUnit {
    /// Nanoseconds.
    #[default]
    Nanoseconds,
    /// Ticks of a clock with an unknown rate, or a count of events.
    Ticks,
}

/// Position of a reader in its input. Both numbers have the same unit: bytes or records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Amount read so far.
    pub done: u64,
    /// Size of the whole input; 0 if unknown.
    pub total: u64,
}

/// Error: the rest of a trace cannot be read.
#[derive(Debug)]
pub struct ReadError(Box<dyn std::error::Error + Send + Sync>);

impl ReadError {
    /// Creates an error with this cause or text.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Events in memory, as a [`Source`].
#[derive(Clone, Debug, Default)]
pub struct Events {
    catalog: Catalog,
    events: Vec<Event>,
    next: usize,
    unit: TimeUnit,
    notes: Vec<String>,
}

impl Events {
    /// Creates a source from events and their names.
    pub fn new(catalog: Catalog, events: Vec<Event>, unit: TimeUnit, notes: Vec<String>) -> Self {
        Self {
            catalog,
            events,
            next: 0,
            unit,
            notes,
        }
    }
}

impl Source for Events {
    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        let event = self.events.get(self.next).copied();
        self.next += usize::from(event.is_some());
        Ok(event)
    }
    fn catalog(&self) -> &Catalog {
        &self.catalog
    }
    fn unit(&self) -> TimeUnit {
        self.unit
    }
    fn progress(&self) -> Progress {
        let size = size_of::<Event>();
        Progress {
            done: (self.next * size) as u64,
            total: (self.events.len() * size) as u64,
        }
    }
    fn notes(&self) -> &[String] {
        &self.notes
    }
}
