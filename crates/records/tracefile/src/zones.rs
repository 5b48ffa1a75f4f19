//! A region as a source of events for reports and exports.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use nostall_trace::layout::{LONGEST_NAME, SLOT, ZONES_OF_THREADS};
use nostall_trace::{
    Event, FunctionId, Image, Incomplete, Missing, Record, Recovered, ZoneInfo, ZoneReader,
};

use crate::model::{
    self, Catalog, EventKind, Name, Progress, ReadError, Source, Task, TaskName, TimeUnit,
};

/// Names of a kernel's or program's functions. A closure that maps an address to a name implements
/// it.
pub trait Symbols {
    /// Finds the name of the function at a linked address.
    fn name(&self, address: u64) -> Option<String>;

    /// Returns notes on missing names, after all events have been read.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

impl<F: Fn(u64) -> Option<String>> Symbols for F {
    fn name(&self, address: u64) -> Option<String> {
        self(address)
    }
}

/// Maximum number of zones that are read; only forged headers have more.
const MOST_ZONES: usize = 1 << 16;
/// Maximum number of stored names; only damaged traces have more.
const MOST_NAMES: usize = 1 << 20;
/// Size of the buffers of all zones, in bytes.
const READ_AT_ONCE: usize = 1 << 24;
/// Sizes that the buffer of one zone may have, in bytes.
const READ_OF_ZONE: std::ops::RangeInclusive<usize> = 1 << 9..=1 << 16;

/// Events of a [region](Recovered), merged by time. Memory is bounded by the numbers of zones and
/// names, not of records.
///
/// ```
/// use nostall_tracefile::model::Source;
/// use nostall_trace::recover;
/// use nostall_tracefile::ZoneEvents;
///
/// # let image = vec![0; 4096];
/// if let Ok(region) = recover(&image[..]) {
///     let mut events = ZoneEvents::new(region, Box::new(|address| Some(format!("f{address:x}"))));
///     while let Some(event) = events.next_event()? {
///         println!("{} {:?}", event.time, event.kind);
///     }
/// }
/// # Ok::<(), nostall_tracefile::model::ReadError>(())
/// ```
pub struct ZoneEvents<'s, I> {
    region: Recovered<I>,
    symbols: Box<dyn Symbols + 's>,
    lanes: Vec<Lane>,
    /// Time and index of each lane that has a next record.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    catalog: Catalog,
    names: Names,
    by_thread: bool,
    ticks_per_second: u64,
    done: u64,
    total: u64,
    notes: Vec<String>,
    ended: bool,
}

struct Lane {
    zone: ZoneInfo,
    reader: ZoneReader<Box<[u8]>>,
    next: Option<Record>,
    time: u64,
    task: Task,
}

/// Names of functions, counters and conditions.
struct Names {
    all: HashMap<FunctionId, Name>,
    /// Cache of recent names, indexed with a hash of their number or address.
    recent: Box<[Option<(FunctionId, Name)>; 1 << RECENT_BITS]>,
}

const RECENT_BITS: u32 = 10;

impl Default for Names {
    fn default() -> Self {
        Self {
            all: HashMap::new(),
            recent: Box::new([None; 1 << RECENT_BITS]),
        }
    }
}

impl Names {
    #[inline]
    fn find(&mut self, id: FunctionId) -> Option<Name> {
        let number = match id {
            FunctionId::Address(address) => address,
            FunctionId::Name(number) => number.into(),
        };
        // Fibonacci hashing: close addresses get distant slots.
        let place = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RECENT_BITS);
        let recent = &mut self.recent[place as usize];
        if let Some((known, name)) = *recent
            && known == id
        {
            return Some(name);
        }
        let name = *self.all.get(&id)?;
        *recent = Some((id, name));
        Some(name)
    }
}

impl<'s, I: Image> ZoneEvents<'s, I> {
    /// Creates the events of the boot in the region's header. `symbols` receives linked addresses
    /// if the region has an anchor, and otherwise addresses of the running program. A function
    /// without a symbol is named by its address.
    pub fn new(region: Recovered<I>, symbols: Box<dyn Symbols + 's>) -> Self {
        let header = region.header();
        let by_thread = header.is_some_and(|it| it.flags & ZONES_OF_THREADS != 0);
        let mut catalog = Catalog::default();
        if by_thread {
            catalog.set_without_cpus();
        }
        let mut events = Self {
            by_thread,
            ticks_per_second: header.map_or(0, |it| it.ticks_per_second),
            symbols,
            lanes: Vec::new(),
            next: BinaryHeap::new(),
            catalog,
            names: Names::default(),
            done: 0,
            total: 0,
            notes: Vec::new(),
            ended: false,
            region,
        };
        events.open_zones();
        events
    }

    /// Adds notes on the region, before those on its records.
    pub fn with_notes(mut self, mut notes: Vec<String>) -> Self {
        notes.append(&mut self.notes);
        Self { notes, ..self }
    }

    /// Returns the boot number of the region.
    pub fn boot(&self) -> u64 {
        self.region.boot()
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
        let each = READ_AT_ONCE / zones.len().max(1) / SLOT * SLOT;
        let each = each.clamp(*READ_OF_ZONE.start(), *READ_OF_ZONE.end());
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
            let mut reader = ZoneReader::new(image, info, vec![0; each].into());
            let mut task = Task::NONE;
            if self.by_thread && reader.is_owned(image) {
                // Records of earlier threads start without a name, or with their own `Event::Task`.
                let name = info.owner_name(image);
                task = self
                    .catalog
                    .task(info.owner_id(image) as i64, name.as_str());
            }
            let left = reader.left();
            let next = reader.next(image);
            self.total += left * SLOT as u64;
            self.done += left.saturating_sub(reader.left()) * SLOT as u64;
            let time = next.map_or(0, |record| record.time);
            if next.is_some() {
                self.next.push(Reverse((time, self.lanes.len())));
            }
            self.lanes.push(Lane {
                zone: info,
                reader,
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
        let mut first = self.next.peek_mut()?;
        let Reverse((_, index)) = *first;
        let lane = &mut self.lanes[index];
        let left = lane.reader.left();
        let taken = std::mem::replace(&mut lane.next, lane.reader.next(self.region.image()));
        self.done += left.saturating_sub(lane.reader.left()) * SLOT as u64;
        match &lane.next {
            Some(next) => {
                // A lane's time never decreases, even if its clock does.
                lane.time = next.time.max(lane.time);
                *first = Reverse((lane.time, index));
            }
            None => _ = PeekMut::pop(first),
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
            let missing = lane.reader.missing();
            sum.overwritten = sum.overwritten.saturating_add(missing.overwritten);
            sum.unwritten = sum.unwritten.saturating_add(missing.unwritten);
            sum.damaged = sum.damaged.saturating_add(missing.damaged);
            sum.dropped = sum.dropped.saturating_add(missing.dropped);
            sum.doubtful_times = sum.doubtful_times.saturating_add(missing.doubtful_times);
        }
        let counts = [
            (sum.overwritten, "slots were overwritten by newer records"),
            (sum.unwritten, "slots were reserved and never written"),
            (sum.damaged, "slots are damaged"),
            (sum.dropped, "records had no slot"),
            (
                sum.doubtful_times,
                "records have the time of the record before them: their own is not between its neighbours'",
            ),
            (
                self.region.lost_without_zone(),
                "records were of CPUs or threads without a zone",
            ),
        ];
        self.note_incomplete();
        let notes = counts.iter().filter(|(count, _)| *count > 0);
        self.notes
            .extend(notes.map(|(count, fate)| format!("{count} {fate}")));
        if self.names.all.contains_key(&FunctionId::Name(0)) {
            let note = "the names area was full: functions without a name are shown as ?";
            self.notes.push(note.to_owned());
        }
        self.notes.extend(self.symbols.notes());
    }

    /// Adds a note on each zone with incomplete records.
    fn note_incomplete(&mut self) {
        const MOST: usize = 16;
        let image = self.region.image();
        let zones = self.lanes.iter().filter_map(|lane| {
            let info = lane.zone;
            Some((info, lane.reader.incomplete(image)?))
        });
        let notes: Vec<_> = zones
            .map(|(info, incomplete)| {
                let owner = match self.by_thread {
                    false => format!("CPU {}", info.zone),
                    true => {
                        let (id, name) = (info.owner_id(image), info.owner_name(image));
                        format!("thread {id} ({:?})", name.as_str())
                    }
                };
                let Incomplete { slots, passed, since } = incomplete;
                let since = match (since, self.unit()) {
                    (0, _) => "the start".to_owned(),
                    (_, TimeUnit::Ticks) => format!("tick {since}"),
                    _ => format!("{:?}", Duration::from_nanos(self.nanos(since))),
                };
                let cost = match passed {
                    0 => String::new(),
                    _ => format!("; newer records passed such slots {passed} times"),
                };
                format!(
                    "{owner}: {slots} slots are of records that were interrupted, from about {since} on, \
                     and are not complete{cost}"
                )
            })
            .collect();
        let more = notes.len().saturating_sub(MOST);
        self.notes.extend(notes.into_iter().take(MOST));
        if more > 0 {
            self.notes.push(format!("the same in {more} other zones"));
        }
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
                if let Some(value) = value {
                    let with_value = format!("{}: {value}", self.catalog.text(text));
                    let known = self.catalog.name_up_to(MOST_NAMES, &with_value);
                    text = known.unwrap_or(text);
                }
                EventKind::Mark { text }
            }
            Event::Lost { records } => EventKind::Lost { records },
            Event::Task { id, name } => {
                let text = self.text(name).unwrap_or_default();
                let task = self.catalog.task_up_to(MOST_NAMES, id as i64, &text);
                self.lanes[lane].task = task.unwrap_or(Task::NONE);
                return None;
            }
            // An event that a later nostall-trace reads, and for which there is no kind here.
            _ => EventKind::Lost { records: 1 },
        };
        let (cpu, task) = match (self.by_thread, self.lanes[lane].task) {
            (false, task) => (record.zone, task),
            (true, Task::NONE) => (0, self.unknown_thread(lane)),
            (true, task) => (0, task),
        };
        Some(model::Event {
            time: self.nanos(record.time),
            cpu,
            task,
            kind,
        })
    }

    /// Sets and returns the task that stands for the unknown thread of a zone. Without one, the calls
    /// of several such threads would be paired with each other.
    #[cold]
    fn unknown_thread(&mut self, lane: usize) -> Task {
        let lane = &mut self.lanes[lane];
        let id = TaskName::id_of_zone(lane.zone.zone);
        lane.task = self.catalog.task(id, "");
        lane.task
    }

    fn text(&self, name: u32) -> Option<String> {
        let mut buffer = [0; LONGEST_NAME];
        self.region.name(name, &mut buffer).map(str::to_owned)
    }

    /// Returns the name of a function, a counter or a condition.
    #[inline]
    fn function(&mut self, id: FunctionId) -> Name {
        self.names.find(id).unwrap_or_else(|| self.new_function(id))
    }

    #[cold]
    fn new_function(&mut self, id: FunctionId) -> Name {
        if self.names.all.len() >= MOST_NAMES {
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
                self.symbols
                    .name(linked)
                    .unwrap_or_else(|| format!("{address:#x}"))
            }
        };
        let name = self.catalog.name(&text);
        self.names.all.insert(id, name);
        name
    }

    /// Converts ticks to nanoseconds, if the rate is known.
    fn nanos(&self, ticks: u64) -> u64 {
        const SECOND: u64 = 1_000_000_000;
        match self.ticks_per_second {
            0 | SECOND => ticks,
            rate => {
                let rest = ticks % rate;
                let part = match rest.checked_mul(SECOND) {
                    Some(part) => part / rate,
                    None => (u128::from(rest) * u128::from(SECOND) / u128::from(rate)) as u64,
                };
                (ticks / rate).saturating_mul(SECOND).saturating_add(part)
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use nostall_io::Processor;
    use nostall_trace::{Options, Recorder, Region, Site, Ticks, recover};

    use super::*;

    #[repr(align(64))]
    struct Memory([u8; 4096]);

    struct Count(Cell<u64>);

    impl Ticks for Count {
        fn now(&self) -> u64 {
            self.0.replace(self.0.get() + 1)
        }
    }

    struct OneCpu;

    impl Processor for OneCpu {
        fn id(&self) -> usize {
            0
        }
        fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
            critical()
        }
    }

    #[test]
    fn known_tasks_and_values_are_kept_at_the_limit() {
        static MARK: Site = Site::new("mark", "tests");
        let mut memory = Memory([0; 4096]);
        let recorder = Recorder::new(Count(Cell::new(1)), OneCpu);
        let options = Options {
            zones: 1,
            names: 256,
            ..Options::default()
        };
        recorder.start(Region::format(&mut memory.0, &options).unwrap());
        for id in [7, 8, 7] {
            recorder.task(id, "");
            recorder.mark(&MARK, Some(id));
        }
        let mut image = [0; 4096];
        let live = recorder.dump().unwrap();
        assert!(live.read(0, &mut image[..live.len() as usize]));
        let region = recover(&image[..]).unwrap();
        let mut events = ZoneEvents::new(region, Box::new(|_| None));
        let mut shown = Vec::new();
        while let Some(event) = events.next_event().unwrap() {
            let EventKind::Mark { text } = event.kind else {
                unreachable!();
            };
            let catalog = &mut events.catalog;
            shown.push((
                catalog.task_name(event.task).id,
                catalog.text(text).to_owned(),
            ));
            if shown.len() == 1 {
                for number in 0..MOST_NAMES {
                    catalog.name(&number.to_string());
                    catalog.task(100 + number as i64, "");
                }
            }
        }
        let expected = [(7, "mark: 7"), (0, "mark"), (7, "mark: 7")];
        assert_eq!(shown, expected.map(|(id, text)| (id, text.to_owned())));
    }
}
