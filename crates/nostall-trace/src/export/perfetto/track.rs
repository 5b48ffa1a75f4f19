//! Track whose slices nest and whose times never decrease.

use std::collections::VecDeque;
use std::io::{self, Write};

use super::messages::Type;
use super::packets::{Draft, Key, Packets, Uuid};

/// A track, with the ends that are not written yet.
#[derive(Debug)]
pub struct Track {
    uuid: Uuid,
    /// Time of the last written event.
    last: u64,
    /// Slices without an end, as Perfetto counts them.
    depth: u32,
    /// Written starts of the slices that may still end, innermost last.
    starts: VecDeque<u64>,
    /// Ends that wait for the next event, which bounds their times. The innermost is first.
    held: Vec<End>,
}

/// End of a slice.
#[derive(Debug)]
struct End {
    /// Written start.
    start: u64,
    how: Ending,
}

/// Known end of a slice.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    /// Both entry and exit are recorded.
    Paired {
        /// Time of the recorded exit.
        end: u64,
        /// Duration, if it is known.
        duration: Option<u64>,
    },
    /// The exit is missing for this reason.
    Cut(&'static str),
}

impl Track {
    pub const fn new(uuid: Uuid) -> Self {
        Self {
            uuid,
            last: 0,
            depth: 0,
            starts: VecDeque::new(),
            held: Vec::new(),
        }
    }

    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Number of slices around the next one.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Time of the last written event.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Starts an event of this time. The held ends come before it.
    pub fn event<W: Write>(
        &mut self,
        packets: &mut Packets<W>,
        kind: Type,
        time: u64,
    ) -> io::Result<Draft> {
        self.release(packets, Some(time))?;
        let mut draft = self.draft(packets, kind, time);
        if self.last != time {
            draft.number(Key::Time, time);
        }
        if kind == Type::SliceBegin {
            self.depth = self.depth.saturating_add(1);
            self.starts.push_back(self.last);
        }
        Ok(draft)
    }

    /// Ends the innermost slice.
    pub fn end<W: Write>(&mut self, packets: &mut Packets<W>, how: Ending) -> io::Result<()> {
        let Some(start) = self.starts.pop_back() else {
            return Ok(());
        };
        self.depth -= 1;
        let end = End { start, how };
        if let Some(time) = end.time() {
            self.release(packets, Some(time))?;
        }
        self.held.push(end);
        Ok(())
    }

    /// Leaves the outermost slice open for ever.
    pub fn abandon(&mut self) {
        self.starts.pop_front();
    }

    /// Writes the held ends, none of them after `next`, the time of the next event.
    pub fn release<W: Write>(
        &mut self,
        packets: &mut Packets<W>,
        next: Option<u64>,
    ) -> io::Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let mut held = std::mem::take(&mut self.held);
        for end in held.drain(..) {
            let time = match (end.time(), next) {
                (Some(time), Some(next)) => time.min(next),
                (time, next) => time.or(next).unwrap_or(self.last),
            };
            let mut draft = self.draft(packets, Type::SliceEnd, time);
            match end.how {
                Ending::Cut(reason) => draft.word(Key::Exit, reason),
                Ending::Paired { duration: None, .. } => draft.word(Key::Duration, "unknown"),
                Ending::Paired {
                    duration: Some(duration),
                    ..
                } if duration != self.last - end.start => draft.number(Key::Duration, duration),
                Ending::Paired { .. } => {}
            }
            packets.put(draft)?;
        }
        // Its memory is used again.
        self.held = held;
        Ok(())
    }

    fn draft<W: Write>(&mut self, packets: &mut Packets<W>, kind: Type, time: u64) -> Draft {
        self.last = self.last.max(time);
        packets.event(kind, self.uuid, self.last)
    }
}

impl End {
    fn time(&self) -> Option<u64> {
        match self.how {
            Ending::Paired { end, duration } => {
                Some(duration.map_or(end, |duration| self.start.saturating_add(duration)))
            }
            Ending::Cut(_) => None,
        }
    }
}
