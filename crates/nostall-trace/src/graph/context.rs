//! Stack of open calls of one task, or of one CPU without tasks.

use super::{Entry, Match, Slice};
use crate::model::Event;

/// Calls that are open in one task, innermost last.
#[derive(Debug, Default)]
pub struct Context {
    pub stack: Vec<Open>,
    /// CPU of the last event.
    pub cpu: u32,
    /// Number of the event after which records are missing.
    pub lost: u64,
}

/// Call without an exit so far.
#[derive(Debug)]
pub struct Open {
    pub entry: Entry,
    /// Number of the entry's event.
    pub number: u64,
    pub inner: u64,
    pub is_partial: bool,
    pub is_leaf: bool,
}

/// Fields of an exit.
pub struct Exit<'a> {
    pub event: &'a Event,
    pub depth: Option<u32>,
    pub duration: Option<u64>,
}

impl Open {
    pub const fn new(entry: Entry, number: u64) -> Self {
        Self {
            entry,
            number,
            inner: 0,
            is_partial: false,
            is_leaf: true,
        }
    }

    /// Whether `exit`, behind missing records, is certainly the exit of this call.
    ///
    /// Linux's text has times in microseconds, hence the tolerance.
    pub fn is_confirmed_by(&self, exit: &Exit<'_>) -> bool {
        exit.duration.is_some_and(|duration| {
            let end = self.entry.time.saturating_add(duration);
            end.abs_diff(exit.event.time) <= 2_000
        })
    }

    /// The call with its exit.
    pub fn close(self, exit: &Exit<'_>) -> Slice {
        let time = exit.event.time;
        let measured = time.checked_sub(self.entry.time);
        Slice {
            end: Some(time),
            duration: exit.duration.or(measured),
            last_cpu: exit.event.cpu,
            ..self.cut(Match::Paired)
        }
    }

    /// The call without an exit.
    pub fn cut(self, matched: Match) -> Slice {
        let Entry {
            function,
            time,
            depth,
            cpu,
            task,
            argument,
        } = self.entry;
        Slice {
            function: Some(function),
            start: Some(time),
            end: None,
            duration: None,
            inner: self.inner,
            is_partial: self.is_partial,
            is_leaf: self.is_leaf,
            depth,
            cpu,
            last_cpu: cpu,
            task,
            argument,
            matched,
        }
    }
}

impl Context {
    /// Whether records are missing since the entry of this call.
    pub fn has_gap(&self, open: &Open) -> bool {
        self.lost > open.number
    }

    /// Tells the call around a call that has ended: its duration, if that is known.
    pub fn ended(&mut self, duration: Option<u64>) {
        if let Some(around) = self.stack.last_mut() {
            match duration {
                Some(duration) => around.inner = around.inner.saturating_add(duration),
                None => around.is_partial = true,
            }
        }
    }
}
