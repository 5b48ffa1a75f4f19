//! A track of slices.

use std::io::{self, Write};

use super::messages::Type;
use super::packets::{Draft, Key, Packets, Uuid};
use crate::export::nest::{Ended, Leave, Nest};
use crate::graph::Match;

/// A track, with its open slices.
#[derive(Debug)]
pub struct Track {
    uuid: Uuid,
    nest: Nest,
}

impl Track {
    pub fn new(uuid: Uuid) -> Self {
        Self {
            uuid,
            nest: Nest::default(),
        }
    }

    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    pub fn nest(&self) -> &Nest {
        &self.nest
    }

    /// Starts an event at a time. The held ends come before it.
    pub fn event<W: Write>(
        &mut self,
        packets: &mut Packets<W>,
        kind: Type,
        time: u64,
    ) -> io::Result<Draft> {
        self.release(packets, Some(time))?;
        let at = self.nest.at(time);
        let mut draft = packets.event(kind, self.uuid, at);
        if at != time {
            draft.number(Key::Time, time);
        }
        if kind == Type::SliceBegin {
            self.nest.enter();
        }
        Ok(draft)
    }

    /// Leaves the outermost slice open permanently.
    pub fn abandon(&mut self) {
        self.nest.abandon();
    }

    /// Ends the innermost slice.
    pub fn end<W: Write>(&mut self, packets: &mut Packets<W>, leave: Leave) -> io::Result<()> {
        let uuid = self.uuid;
        self.nest
            .leave(leave, |ended| write_end(packets, uuid, &ended))
    }

    /// Writes the held ends, none of them later than `next`, the time of the next event.
    pub fn release<W: Write>(
        &mut self,
        packets: &mut Packets<W>,
        next: Option<u64>,
    ) -> io::Result<()> {
        let uuid = self.uuid;
        self.nest
            .release(next, |ended| write_end(packets, uuid, &ended))
    }
}

fn write_end<W: Write>(packets: &mut Packets<W>, track: Uuid, ended: &Ended) -> io::Result<()> {
    let mut draft = packets.event(Type::SliceEnd, track, ended.time);
    match (ended.leave.matched, ended.leave.duration) {
        (Match::Paired, Some(duration)) if duration == ended.length => {}
        (Match::Paired, Some(duration)) => draft.number(Key::Duration, duration),
        (Match::Paired, None) => draft.word(Key::Duration, "unknown"),
        (Match::Lost, _) => draft.word(Key::Exit, "lost"),
        _ => draft.word(Key::Exit, "skipped"),
    }
    packets.put(draft)
}
