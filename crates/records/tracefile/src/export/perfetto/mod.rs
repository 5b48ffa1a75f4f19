//! Perfetto's protobuf traces, for `ui.perfetto.dev` and `trace_processor`.
//!
//! Each task has a track, and so has each CPU without tasks. A call is a slice, and its CPU is an
//! annotation. Stalls and counters have their own tracks. Marks, calls without exits in the trace,
//! and lost records are instants.
//!
//! The file has no invented slice:
//!
//! - A call that is open at the end of the trace has no end.
//! - A call whose exit is missing ends, at the latest, with the call around it. Otherwise Perfetto
//!   would close the wrong slice. The end has the annotation `exit`: `skipped` or `lost`.
//! - An exit without an entry is an instant with the annotation `entry`: `missing`.
//!
//! On a track, slices nest and times never decrease. The recorded duration counts if the next event
//! allows it. Times and durations that had to move are annotations.

mod messages;
mod packets;
#[cfg(test)]
mod tests;
mod track;

use std::collections::HashMap;
use std::io::{self, Write};

use super::ExportError;
use super::lane::Lane;
use super::nest::Leave;
use crate::graph::{Entry, MOST_CPUS, Match, Slice, Step};
use crate::model::{Catalog, Event, EventKind, Name, Task};
use messages::Type;
use packets::{Draft, Key, Packets, Uuid};
use track::Track;

/// Maximum number of tracks for overlapping stalls of one CPU or task.
const MOST_STALLS: usize = 16;

/// Writer of a function graph's steps as a Perfetto trace, in bounded memory.
///
/// ```
/// use nostall_tracefile::export::Perfetto;
/// use nostall_tracefile::graph;
/// use nostall_tracefile::model::{Catalog, Event, EventKind, Events, Task, TimeUnit};
///
/// let mut catalog = Catalog::default();
/// let function = catalog.name("console_write");
/// let event = |time, kind| Event { time, cpu: 0, task: Task::NONE, kind };
/// let enter = EventKind::Enter { function, depth: None, argument: None };
/// let exit = EventKind::Exit { function: Some(function), depth: None, duration: None };
/// let events = vec![event(10, enter), event(421, exit)];
/// let mut source = Events::new(catalog, events, TimeUnit::Nanoseconds, Vec::new());
///
/// let mut perfetto = Perfetto::new(Vec::new());
/// graph::walk(&mut source, |catalog, step| perfetto.step(catalog, &step))?;
/// let file = perfetto.finish()?;
/// # Ok::<_, nostall_tracefile::export::ExportError>(())
/// ```
#[derive(Debug)]
pub struct Perfetto<W> {
    packets: Packets<W>,
    groups: [Option<Uuid>; 4],
    lanes: HashMap<Lane, Track>,
    stalls: HashMap<Lane, Vec<Track>>,
    counters: HashMap<Name, Track>,
    losses: HashMap<u32, Track>,
}

/// Groups of tracks.
#[derive(Clone, Copy, Debug)]
enum Group {
    Functions,
    Stalls,
    Counters,
    Losses,
}

impl<W: Write> Perfetto<W> {
    /// Creates an empty trace.
    pub fn new(out: W) -> Self {
        Self {
            packets: Packets::new(out),
            groups: [None; 4],
            lanes: HashMap::new(),
            stalls: HashMap::new(),
            counters: HashMap::new(),
            losses: HashMap::new(),
        }
    }

    /// Adds a step of the function graph.
    ///
    /// # Errors
    ///
    /// The error of the writer.
    pub fn step(&mut self, catalog: &Catalog, step: &Step) -> Result<(), ExportError> {
        match step {
            Step::Enter(entry) => self.enter(catalog, entry)?,
            Step::Leave(slice) => self.leave(catalog, slice)?,
            Step::Event(event) => self.event(catalog, event)?,
        }
        Ok(())
    }

    /// Writes the rest, and returns the writer.
    ///
    /// # Errors
    ///
    /// The error of the writer.
    pub fn finish(mut self) -> Result<W, ExportError> {
        // The same trace always results in the same file.
        let mut lanes: Vec<_> = self.lanes.into_values().collect();
        lanes.sort_by_key(Track::uuid);
        for mut track in lanes {
            track.release(&mut self.packets, None)?;
        }
        Ok(self.packets.finish()?)
    }

    fn enter(&mut self, catalog: &Catalog, entry: &Entry) -> io::Result<()> {
        let (packets, track) = self.lane(catalog, entry.task, entry.cpu);
        let mut draft = track.event(packets, Type::SliceBegin, entry.time)?;
        packets.name(&mut draft, entry.function, catalog);
        draft.number(Key::Cpu, entry.cpu.into());
        if let Some(argument) = entry.argument {
            draft.number(Key::Argument, argument);
        }
        if entry.depth != track.nest().depth() - 1 {
            draft.number(Key::Depth, entry.depth.into());
        }
        packets.put(draft)
    }

    fn leave(&mut self, catalog: &Catalog, slice: &Slice) -> io::Result<()> {
        let (packets, track) = self.lane(catalog, slice.task, slice.cpu);
        match slice.matched {
            Match::Paired | Match::Skipped | Match::Lost => {
                return track.end(packets, slice.into());
            }
            Match::TooDeep => {
                track.abandon();
                return Ok(());
            }
            Match::Open => return Ok(()),
            Match::NoEntry => {}
        }
        let time = slice.end.unwrap_or(0);
        let mut draft = track.event(packets, Type::Instant, time)?;
        match slice.function {
            Some(function) => packets.name(&mut draft, function, catalog),
            None => draft.title("exit of an unknown function"),
        }
        draft.number(Key::Cpu, slice.cpu.into());
        draft.word(Key::Entry, "missing");
        if let Some(duration) = slice.duration {
            draft.number(Key::Duration, duration);
        }
        packets.put(draft)
    }

    fn event(&mut self, catalog: &Catalog, event: &Event) -> io::Result<()> {
        match event.kind {
            EventKind::Call { function, caller } => {
                self.instant(catalog, event, function, |packets, draft| {
                    if let Some(caller) = caller {
                        packets.text(draft, Key::Caller, caller, catalog);
                    }
                })
            }
            EventKind::Mark { text } => self.instant(catalog, event, text, |_, _| {}),
            EventKind::Stall {
                condition,
                place,
                duration,
            } => self.stall(catalog, event, (condition, place, duration)),
            EventKind::Counter { counter, value } => {
                let group = self.group(Group::Counters);
                let packets = &mut self.packets;
                let track = self.counters.entry(counter).or_insert_with(|| {
                    let name = catalog.text(counter).to_owned();
                    Track::new(packets.track(name, Some(group), true))
                });
                let mut draft = track.event(packets, Type::Counter, event.time)?;
                draft.value(value);
                packets.put(draft)
            }
            EventKind::Lost { records } => {
                let group = self.group(Group::Losses);
                let packets = &mut self.packets;
                let track = self
                    .losses
                    .entry(event.cpu.min(MOST_CPUS))
                    .or_insert_with(|| {
                        let name = format!("CPU {}", event.cpu);
                        Track::new(packets.track(name, Some(group), false))
                    });
                let mut draft = track.event(packets, Type::Instant, event.time)?;
                draft.title("lost records");
                if records > 0 {
                    draft.number(Key::Records, records);
                }
                packets.put(draft)
            }
            // These events have no track here: the graph pairs them.
            EventKind::Enter { .. } | EventKind::Exit { .. } => Ok(()),
        }
    }

    fn instant(
        &mut self,
        catalog: &Catalog,
        event: &Event,
        name: Name,
        annotate: impl FnOnce(&mut Packets<W>, &mut Draft),
    ) -> io::Result<()> {
        let (packets, track) = self.lane(catalog, event.task, event.cpu);
        let mut draft = track.event(packets, Type::Instant, event.time)?;
        packets.name(&mut draft, name, catalog);
        draft.number(Key::Cpu, event.cpu.into());
        annotate(packets, &mut draft);
        packets.put(draft)
    }

    /// Adds a stall. It is known at its end: an inner one comes before the one around it, and
    /// needs its own track.
    fn stall(
        &mut self,
        catalog: &Catalog,
        event: &Event,
        (condition, place, duration): (Name, Option<Name>, u64),
    ) -> io::Result<()> {
        let group = self.group(Group::Stalls);
        let packets = &mut self.packets;
        let lane = Lane::of(catalog, event.task, event.cpu);
        let tracks = self.stalls.entry(lane).or_default();
        let start = event.time.saturating_sub(duration);
        let free = match tracks.iter().position(|track| track.nest().last() <= start) {
            Some(free) => free,
            None if tracks.len() < MOST_STALLS => {
                let name = lane.name(catalog, event.task);
                tracks.push(Track::new(packets.track(name, Some(group), false)));
                tracks.len() - 1
            }
            None => MOST_STALLS - 1,
        };
        let track = &mut tracks[free];
        let mut draft = track.event(packets, Type::SliceBegin, start)?;
        packets.name(&mut draft, condition, catalog);
        draft.number(Key::Cpu, event.cpu.into());
        if let Some(place) = place {
            packets.text(&mut draft, Key::Place, place, catalog);
        }
        packets.put(draft)?;
        let leave = Leave {
            matched: Match::Paired,
            end: Some(event.time),
            duration: Some(duration),
        };
        track.end(packets, leave)?;
        track.release(packets, None)
    }

    /// Returns the track of a task or CPU.
    fn lane(&mut self, catalog: &Catalog, task: Task, cpu: u32) -> (&mut Packets<W>, &mut Track) {
        let group = self.group(Group::Functions);
        let lane = Lane::of(catalog, task, cpu);
        let packets = &mut self.packets;
        let track = self.lanes.entry(lane).or_insert_with(|| {
            let name = lane.name(catalog, task);
            Track::new(packets.track(name, Some(group), false))
        });
        (packets, track)
    }

    fn group(&mut self, group: Group) -> Uuid {
        let packets = &mut self.packets;
        *self.groups[group as usize].get_or_insert_with(|| {
            let name = match group {
                Group::Functions => "Functions",
                Group::Stalls => "Stalls",
                Group::Counters => "Counters",
                Group::Losses => "Lost records",
            };
            packets.track(name.to_owned(), None, false)
        })
    }
}
