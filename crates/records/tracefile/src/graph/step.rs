//! Results of pairing.

use crate::model::{Event, Name, Task};

/// One step through a function graph, in the order of the source's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A function was entered.
    Enter(Entry),
    /// A call of a function ended, or its end is known to be missing.
    ///
    /// Inner calls end before the call around them.
    Leave(Slice),
    /// An event that is neither an entry nor an exit.
    Event(Event),
}

/// Entry into a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Function's name.
    pub function: Name,
    /// Time of the entry.
    pub time: u64,
    /// Number of functions around it, as recorded, otherwise as far as known.
    pub depth: u32,
    /// CPU.
    pub cpu: u32,
    /// Task.
    pub task: Task,
    /// Argument that was passed to the recorder.
    pub argument: Option<u64>,
}

/// One call of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Function's name. An exit without an entry may have none.
    pub function: Option<Name>,
    /// Time of the recorded entry.
    pub start: Option<u64>,
    /// Time of the recorded exit.
    pub end: Option<u64>,
    /// Duration as recorded with the exit, otherwise the difference of the times. It is missing
    /// without an entry or exit, and if the clock stepped back in between.
    pub duration: Option<u64>,
    /// Time in functions that this call called directly, as far as known.
    pub inner: u64,
    /// Whether records are missing inside this call, so that `inner` may be too small.
    pub is_partial: bool,
    /// Whether no entry was recorded inside this call.
    pub is_leaf: bool,
    /// Whether the same function is open around this call, whose duration contains this one's.
    pub is_recursive: bool,
    /// Number of functions around it, as recorded, otherwise as far as known.
    pub depth: u32,
    /// CPU of the entry; of the exit, if there is no entry.
    pub cpu: u32,
    /// CPU of the exit; of the entry, if there is no exit.
    pub last_cpu: u32,
    /// Task.
    pub task: Task,
    /// Argument that was passed to the recorder at the entry.
    pub argument: Option<u64>,
    /// Whether entry and exit were found.
    pub matched: Match,
}

impl Slice {
    /// Returns the start: recorded, or computed from the recorded duration.
    pub fn begin(&self) -> Option<u64> {
        self.start.or_else(|| self.end?.checked_sub(self.duration?))
    }

    /// Returns the duration without the called functions.
    pub fn own(&self) -> Option<u64> {
        Some(self.duration?.saturating_sub(self.inner))
    }
}

/// Outcome of pairing one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Match {
    /// Entry and exit were found.
    Paired,
    /// The exit has no entry: the trace started later, or the entry is lost.
    NoEntry,
    /// The trace ends inside the call.
    Open,
    /// The exit is missing although the caller continued: the function was left by a jump, or the
    /// record is lost.
    Skipped,
    /// Records are missing since the entry, and the exit may be among them.
    Lost,
    /// Too many calls are open, so the outermost are dropped.
    TooDeep,
}
