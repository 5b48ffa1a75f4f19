//! Stack of open calls of one task, or of one CPU without tasks.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Counted;

use super::{Entry, Match, Slice};
use crate::model::{Event, Name};

/// Open calls of one task, innermost last.
#[derive(Debug, Default)]
pub struct Context {
    pub stack: Vec<Open>,
    /// CPU of the last event.
    pub cpu: u32,
    /// Number of the event after which records are missing.
    pub lost: u64,
    /// Durations of calls without entries, summed by depth. The exit of such a call one level up
    /// takes the sum and clears it.
    pub alone: Vec<u64>,
    /// Number of open calls of each function from [`NEAR`] on.
    pub deep: HashMap<Name, u32>,
}

/// Number of outermost calls among which a function is searched one by one.
const NEAR: usize = 64;

/// Limit for the depths at which calls without entries are counted.
const DEEPEST_ALONE: usize = 256;

/// A call without an exit so far.
#[derive(Debug)]
pub struct Open {
    pub entry: Entry,
    /// Number of the entry's event.
    pub number: u64,
    pub inner: u64,
    pub is_partial: bool,
    pub is_leaf: bool,
}

/// An exit, with its recorded fields.
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

    /// Returns whether the recorded duration of `exit` proves, after missing records, that it
    /// belongs to this call.
    ///
    /// Linux's text has times in microseconds, so 2 us of difference are tolerated.
    pub fn is_confirmed_by(&self, exit: &Exit<'_>) -> bool {
        exit.duration.is_some_and(|duration| {
            let end = self.entry.time.saturating_add(duration);
            end.abs_diff(exit.event.time) <= 2_000
        })
    }

    /// Ends the call with its exit.
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

    /// Ends the call without an exit.
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
            is_recursive: false,
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
    /// Opens a call.
    pub fn push(&mut self, open: Open) {
        if self.stack.len() >= NEAR {
            *self.deep.entry(open.entry.function).or_default() += 1;
        }
        self.stack.push(open);
    }

    /// Closes the innermost call.
    pub fn pop(&mut self) -> Option<Open> {
        let open = self.stack.pop()?;
        if self.stack.len() >= NEAR
            && let Counted::Occupied(mut count) = self.deep.entry(open.entry.function)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(open)
    }

    /// Removes the outer half of the calls.
    pub fn drop_outer(&mut self) -> Vec<Open> {
        let outer = self.stack.drain(..self.stack.len() / 2).collect();
        self.deep.clear();
        for open in self.stack.iter().skip(NEAR) {
            *self.deep.entry(open.entry.function).or_default() += 1;
        }
        outer
    }

    /// Returns whether a call of the function is open.
    pub fn is_open(&self, function: Name) -> bool {
        let mut near = self.stack.iter().take(NEAR);
        near.any(|open| open.entry.function == function)
            || !self.deep.is_empty() && self.deep.contains_key(&function)
    }

    /// Returns whether records are missing since the entry of this call.
    pub fn has_gap(&self, open: &Open) -> bool {
        self.lost > open.number
    }

    /// Counts a call with only an exit and a duration, as recorded with a minimum duration. Returns
    /// the time in the functions that it called.
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

    /// Adds the duration of an ended call, if known, to the call around it.
    pub fn ended(&mut self, duration: Option<u64>) {
        if let Some(around) = self.stack.last_mut() {
            match duration {
                Some(duration) => around.inner = around.inner.saturating_add(duration),
                None => around.is_partial = true,
            }
        }
    }
}
