//! A region as a source of events for reports and exports.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::image::Image;
use crate::layout::{LONGEST_NAME, SLOT, ZONES_OF_THREADS};
use crate::model::{self, Catalog, EventKind, Name, Progress, ReadError, Source, Task, TimeUnit};
use crate::records::{Cursor, Event, FunctionId, Missing, Record};
use crate::recover::Recovered;

/// Finds the name of the function at a linked address.
pub type Symbols<'s> = dyn Fn(u64) -> Option<String> + 's;

/// Zones that are read at most. More are only in forged headers.
const MOST_ZONES: usize = 1 << 16;
/// Names that are stored at most. More are only in damaged traces.
const MOST_NAMES: usize = 1 << 20;

/// Events of a [region](Recovered), merged by time. Memory is bounded by the number of zones and
/// of names, not by that of records.
///
/// ```
/// use nostall_trace::model::Source;
/// use nostall_trace::{ZoneEvents, recover};
///
/// # let image = vec![0; 4096];
/// if let Ok(region) = recover(&image[..]) {
///     let mut events = ZoneEvents::new(region, Box::new(|address| Some(format!("f{address:x}"))));
///     while let Some(event) = events.next_event()? {
///         println!("{} {:?}", event.time, event.kind);
///     }
/// }
/// # Ok::<(), nostall_trace::model::ReadError>(())
/// ```
pub struct ZoneEvents<'s, I> {
    region: Recovered<I>,
    symbols: Box<Symbols<'s>>,
    lanes: Vec<Lane>,
    /// Time and index of the lanes that have a next record.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    catalog: Catalog,
    names: HashMap<FunctionId, Name>,
    by_thread: bool,
    ticks_per_second: u64,
    done: u64,
    total: u64,
    notes: Vec<String>,
    ended: bool,
}

struct Lane {
    cursor: Cursor,
    next: Option<Record>,
    time: u64,
    task: Task,
}

impl<'s, I: Image> ZoneEvents<'s, I> {
    /// Events of the boot that the region's header names. `symbols` gets addresses as the program
    /// was linked, if the region has an anchor, and as it ran otherwise. A function without a
    /// symbol is named by its address.
    pub fn new(region: Recovered<I>, symbols: Box<Symbols<'s>>) -> Self {
        let header = region.header();
        let by_thread = header.is_some_and(|it| it.flags & ZONES_OF_THREADS != 0);
        let mut events = Self {
            by_thread,
            ticks_per_second: header.map_or(0, |it| it.ticks_per_second),
            symbols,
            lanes: Vec::new(),
            next: BinaryHeap::new(),
            catalog: Catalog::default(),
            names: HashMap::new(),
            done: 0,
            total: 0,
            notes: Vec::new(),
            ended: false,
            region,
        };
        events.open_zones();
        events
    }

    fn open_zones(&mut self) {
        if let Some(fault) = self.region.fault() {
            self.notes.push(format!(
                "{fault}; the zones were found by their own headers"
            ));
        }
        let mut other_boots = 0;
        let zones: Vec<_> = self.region.zones().take(MOST_ZONES + 1).collect();
        if zones.len() > MOST_ZONES {
            self.notes
                .push(format!("only the first {MOST_ZONES} zones are read"));
        }
        for info in zones.into_iter().take(MOST_ZONES) {
            if info.boot != self.region.boot() {
                other_boots += 1;
                continue;
            }
            if !info.whole {
                let note = format!(
                    "zone {}: its header is damaged, and its records are read",
                    info.zone
                );
                self.notes.push(note);
            }
            let image = self.region.image();
            let mut task = Task::NONE;
            if self.by_thread {
                let name = info.owner_name(image);
                task = self
                    .catalog
                    .task(info.owner_id(image) as i64, name.as_str());
            }
            let mut cursor = Cursor::new(image, info);
            let left = cursor.left();
            let next = cursor.next(image);
            self.total += left * SLOT as u64;
            self.done += left.saturating_sub(cursor.left()) * SLOT as u64;
            let time = next.map_or(0, |record| record.time);
            if next.is_some() {
                self.next.push(Reverse((time, self.lanes.len())));
            }
            self.lanes.push(Lane {
                cursor,
                next,
                time,
                task,
            });
        }
        if other_boots > 0 {
            self.notes.push(format!(
                "{other_boots} zones are of another boot and are left out"
            ));
        }
    }

    /// Takes the earliest record of all zones.
    fn take(&mut self) -> Option<(Record, usize)> {
        let Reverse((_, index)) = self.next.pop()?;
        let lane = &mut self.lanes[index];
        let left = lane.cursor.left();
        let taken = std::mem::replace(&mut lane.next, lane.cursor.next(self.region.image()));
        self.done += left.saturating_sub(lane.cursor.left()) * SLOT as u64;
        if let Some(next) = &lane.next {
            // A lane's time does not step back, even if its clock does.
            lane.time = next.time.max(lane.time);
            self.next.push(Reverse((lane.time, index)));
        }
        taken.map(|record| (record, index))
    }

    /// Adds notes on the zones' losses.
    fn at_end(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let mut sum = Missing::default();
        for lane in &self.lanes {
            let missing = lane.cursor.missing;
            sum.overwritten = sum.overwritten.saturating_add(missing.overwritten);
            sum.unwritten = sum.unwritten.saturating_add(missing.unwritten);
            sum.damaged = sum.damaged.saturating_add(missing.damaged);
            sum.dropped = sum.dropped.saturating_add(missing.dropped);
        }
        let counts = [
            (sum.overwritten, "slots were overwritten by newer records"),
            (sum.unwritten, "slots were reserved and never written"),
            (sum.damaged, "slots are damaged"),
            (sum.dropped, "records had no slot"),
            (
                self.region.lost_without_zone(),
                "records were of CPUs or threads without a zone",
            ),
        ];
        let notes = counts.iter().filter(|(count, _)| *count > 0);
        self.notes
            .extend(notes.map(|(count, fate)| format!("{count} {fate}")));
    }

    fn event(&mut self, record: Record, lane: usize) -> Option<model::Event> {
        let depth = (record.depth < u8::MAX).then_some(u32::from(record.depth));
        let kind = match record.event {
            Event::Enter { function, argument } => EventKind::Enter {
                function: self.function(function),
                depth,
                argument,
            },
            Event::Exit { function } => EventKind::Exit {
                function: Some(self.function(function)),
                depth,
                duration: None,
            },
            Event::Call { function, entered } => EventKind::Exit {
                function: Some(self.function(function)),
                depth,
                duration: Some(self.nanos(record.time.saturating_sub(entered))),
            },
            Event::Stall {
                condition,
                place,
                duration,
            } => EventKind::Stall {
                condition: self.function(FunctionId::Name(condition)),
                place: (place != FunctionId::Name(0)).then(|| self.function(place)),
                duration: self.nanos(duration),
            },
            Event::Counter { counter, value } => EventKind::Counter {
                counter: self.function(FunctionId::Name(counter)),
                value,
            },
            Event::Mark { name, value } => {
                let mut text = self.function(FunctionId::Name(name));
                if let Some(value) = value
                    && self.catalog.names() < MOST_NAMES
                {
                    let with_value = format!("{}: {value}", self.catalog.text(text));
                    text = self.catalog.name(&with_value);
                }
                EventKind::Mark { text }
            }
            Event::Lost { records } => EventKind::Lost { records },
            Event::Task { id, name } => {
                let text = self.text(name).unwrap_or_default();
                self.lanes[lane].task = match self.catalog.tasks().len() < MOST_NAMES {
                    true => self.catalog.task(id as i64, &text),
                    false => Task::NONE,
                };
                return None;
            }
        };
        Some(model::Event {
            time: self.nanos(record.time),
            cpu: if self.by_thread { 0 } else { record.zone },
            task: self.lanes[lane].task,
            kind,
        })
    }

    fn text(&self, name: u32) -> Option<String> {
        let mut buffer = [0; LONGEST_NAME];
        self.region.name(name, &mut buffer).map(str::to_owned)
    }

    /// Returns the name of a function, a counter or a condition.
    fn function(&mut self, id: FunctionId) -> Name {
        if let Some(known) = self.names.get(&id) {
            return *known;
        }
        if self.names.len() >= MOST_NAMES {
            return self.catalog.name("?");
        }
        let text = match id {
            FunctionId::Name(number) => self.text(number).unwrap_or_else(|| match number {
                0 => "?".to_owned(),
                _ => format!("name {number}"),
            }),
            FunctionId::Address(address) => {
                let header = self.region.header();
                let anchor = header.filter(|header| header.anchor_ran != 0);
                let linked = anchor.map_or(address, |it| {
                    address
                        .wrapping_sub(it.anchor_ran)
                        .wrapping_add(it.anchor_linked)
                });
                (self.symbols)(linked).unwrap_or_else(|| format!("{address:#x}"))
            }
        };
        let name = self.catalog.name(&text);
        self.names.insert(id, name);
        name
    }

    /// Converts ticks to nanoseconds, if the rate is known.
    fn nanos(&self, ticks: u64) -> u64 {
        const SECOND: u64 = 1_000_000_000;
        match self.ticks_per_second {
            0 | SECOND => ticks,
            rate => {
                let part = u128::from(ticks % rate) * u128::from(SECOND) / u128::from(rate);
                (ticks / rate)
                    .saturating_mul(SECOND)
                    .saturating_add(part as u64)
            }
        }
    }
}

impl<I: Image> Source for ZoneEvents<'_, I> {
    fn next_event(&mut self) -> Result<Option<model::Event>, ReadError> {
        while let Some((record, lane)) = self.take() {
            if let Some(event) = self.event(record, lane) {
                return Ok(Some(event));
            }
        }
        self.at_end();
        Ok(None)
    }
    fn catalog(&self) -> &Catalog {
        &self.catalog
    }
    fn unit(&self) -> TimeUnit {
        match self.ticks_per_second {
            0 => TimeUnit::Ticks,
            _ => TimeUnit::Nanoseconds,
        }
    }
    fn progress(&self) -> Progress {
        Progress {
            done: self.done,
            total: self.total,
        }
    }
    fn notes(&self) -> &[String] {
        &self.notes
    }
}
