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
    /// Sums of the durations of calls without entries that ended since the call around them, by
    /// depth.
    pub alone: Vec<u64>,
}

/// Depths at which calls without entries count for the call around them.
const DEEPEST_ALONE: usize = 256;

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

    /// Takes a call of which only the exit and its duration are recorded, as with a minimum
    /// duration. Returns the time in the functions that it called.
    pub fn ended_alone(&mut self, depth: u32, duration: u64) -> u64 {
        let depth = depth as usize;
        if depth >= DEEPEST_ALONE {
            return 0;
        }
        if self.alone.len() < depth + 2 {
            self.alone.resize(depth + 2, 0);
        }
        self.alone[depth] = self.alone[depth].saturating_add(duration);
        let inner = self.alone[depth + 1];
        self.alone.truncate(depth + 1);
        inner.min(duration)
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
