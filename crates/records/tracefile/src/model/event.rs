//! One event of a trace.

use super::{Name, Task};

/// One event of a trace, on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time in the source's [unit](super::Source::unit).
    pub time: u64,
    /// Number of the CPU. A program's recording without CPU numbers has 0.
    pub cpu: u32,
    /// Task that ran on the CPU. A kernel without tasks has [`Task::NONE`].
    pub task: Task,
    /// Meaning of the event.
    pub kind: EventKind,
}

/// Meaning of an [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A function or a scope was entered. An [`Exit`](Self::Exit) should follow.
    Enter {
        /// Function's name.
        function: Name,
        /// Number of functions around it, if the record has it.
        depth: Option<u32>,
        /// Argument that was passed to the recorder.
        argument: Option<u64>,
    },
    /// A function or a scope returned.
    Exit {
        /// Function's name, if the record has it.
        function: Option<Name>,
        /// Number of functions around it, if the record has it.
        depth: Option<u32>,
        /// Duration, if the record has it. It takes precedence over the difference between entry
        /// and exit, and is also valid for exits without an entry.
        duration: Option<u64>,
    },
    /// A function was entered, as recorded by a tracer that records no exits.
    Call {
        /// Function's name.
        function: Name,
        /// Caller's name, if known.
        caller: Option<Name>,
    },
    /// A CPU waited for a device. The event's time is the end of the wait.
    Stall {
        /// Awaited condition.
        condition: Name,
        /// Waiting function or file, if known.
        place: Option<Name>,
        /// Duration of the wait.
        duration: u64,
    },
    /// Sample of a counter.
    Counter {
        /// Counter's name.
        counter: Name,
        /// New value.
        value: i64,
    },
    /// Any other event, as text: trace events, markers.
    Mark {
        /// Event's name and fields.
        text: Name,
    },
    /// Records are missing: overwritten, dropped or damaged.
    Lost {
        /// Number of missing records; 0 if unknown.
        records: u64,
    },
}

impl EventKind {
    /// Returns the event with its names replaced by `name`.
    pub fn renamed(self, mut name: impl FnMut(Name) -> Name) -> Self {
        match self {
            Self::Enter {
                function,
                depth,
                argument,
            } => Self::Enter {
                function: name(function),
                depth,
                argument,
            },
            Self::Exit {
                function,
                depth,
                duration,
            } => Self::Exit {
                function: function.map(name),
                depth,
                duration,
            },
            Self::Call { function, caller } => Self::Call {
                function: name(function),
                caller: caller.map(name),
            },
            Self::Stall {
                condition,
                place,
                duration,
            } => Self::Stall {
                condition: name(condition),
                place: place.map(name),
                duration,
            },
            Self::Counter { counter, value } => Self::Counter {
                counter: name(counter),
                value,
            },
            Self::Mark { text } => Self::Mark { text: name(text) },
            Self::Lost { records } => Self::Lost { records },
        }
    }
}
