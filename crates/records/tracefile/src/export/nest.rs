//! Properly nested times for the calls of one lane.

use std::collections::VecDeque;

use crate::graph::{Match, Slice};

/// Number of nanoseconds in a microsecond.
const MICROSECOND: u64 = 1_000;

/// Times of a lane's events. They never decrease, and inner calls end before the calls around them.
///
/// The recorded duration of a call determines its end. The next event limits the end, so an end is
/// held until then. Linux's text has times in microseconds and durations in nanoseconds: the next
/// event then moves within its microsecond.
#[derive(Debug, Default)]
pub struct Nest {
    last: u64,
    /// Whether any recorded time was not in whole microseconds.
    is_fine: bool,
    /// Number of calls without an end in the export.
    depth: u32,
    /// Start times of the calls that may still end, innermost last.
    starts: VecDeque<u64>,
    /// Held ends, innermost first.
    held: Vec<Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    start: u64,
    /// Time of a recorded exit.
    time: Option<u64>,
    leave: Leave,
}

/// End of a call in the graph.
#[derive(Clone, Copy, Debug)]
pub struct Leave {
    /// [`Match::Paired`], or the reason why the exit is missing.
    pub matched: Match,
    pub end: Option<u64>,
    pub duration: Option<u64>,
}

impl From<&Slice> for Leave {
    fn from(slice: &Slice) -> Self {
        Self {
            matched: slice.matched,
            end: slice.end,
            duration: slice.duration,
        }
    }
}

/// End of a call in the export.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub time: u64,
    pub length: u64,
    /// End of the call in the graph.
    pub leave: Leave,
    /// Number of calls around this one.
    pub depth: u32,
}

impl Nest {
    /// Returns the number of calls without an end in the export.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Returns the time of the last event.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns the time in the export for an event at `time`.
    ///
    /// Call [`release`](Self::release) first.
    pub fn at(&mut self, time: u64) -> u64 {
        self.is_fine |= !time.is_multiple_of(MICROSECOND);
        self.last = self.last.max(time);
        self.last
    }

    /// Starts a call at the time of the last event.
    pub fn enter(&mut self) {
        self.depth = self.depth.saturating_add(1);
        self.starts.push_back(self.last);
    }

    /// Ends the innermost call. Passes on the ends that its own end limits.
    pub fn leave<E>(
        &mut self,
        leave: Leave,
        sink: impl FnMut(Ended) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(start) = self.starts.pop_back() else {
            return Ok(());
        };
        let computed = leave
            .duration
            .map(|duration| start.saturating_add(duration));
        let time = computed.or(leave.end);
        if time.is_some() {
            self.release(time, sink)?;
        }
        self.held.push(Held { start, time, leave });
        Ok(())
    }

    /// Leaves the outermost call open; the calls inside it can still end.
    pub fn abandon(&mut self) {
        self.starts.pop_front();
    }

    /// Passes on the held ends, none of them later than `next`, the time of the next event.
    pub fn release<E>(
        &mut self,
        next: Option<u64>,
        mut sink: impl FnMut(Ended) -> Result<(), E>,
    ) -> Result<(), E> {
        let slack = match self.is_fine {
            true => 0,
            false => MICROSECOND - 1,
        };
        for held in self.held.drain(..) {
            let time = match (held.time, next) {
                (Some(time), Some(next)) => time.min(next.saturating_add(slack)),
                (time, next) => time.or(next).unwrap_or(self.last),
            };
            self.last = self.last.max(time);
            self.depth -= 1;
            sink(Ended {
                time: self.last,
                length: self.last - held.start,
                leave: held.leave,
                depth: self.depth,
            })?;
        }
        Ok(())
    }
}
