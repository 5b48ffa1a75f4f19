//! nostall-trace's traces in an image, and their output.

use std::io::{self, Write};
use std::ops::Range;

use nostall_pstore::Trust;
use nostall_trace::layout::{STOP_WHEN_FULL, ZONES_OF_THREADS};
use nostall_tracefile::graph::walk;
use nostall_tracefile::model::{Catalog, Event, EventKind, Name, ReadError, Source, TimeUnit};
use nostall_tracefile::report::{Graph, Look, Selection};
use serde::Serialize;

use super::escape::{escape, escape_name};
use super::input::Input;
use super::json::{About, escaped};
use super::outcome::{Outcome, Status};
use super::output::Style;
use super::part::{Opening, Output, Part, Parts, Turn};
use super::text;
use crate::count::counted;
use crate::symbols::Symbols;
use crate::trace_region::{MOST, TraceRegion};

/// The output of traces.
pub static OUTPUT: Output = Output {
    plural: "traces",
    most: MOST,
    takes_memory: true,
    turn: Turn::OnDemand,
    is_record: true,
    open,
};

fn open<'a>(opening: &Opening<'a>, taken: &[Range<u64>]) -> Parts<'a> {
    let regions = opening.discovery.traces(taken);
    let (symbols, offset) = (opening.symbols, opening.offset);
    let regions = regions.into_iter().enumerate();
    let traces =
        regions.map(|(index, region)| Box::new(Trace::new(index, region, symbols, offset)) as _);
    traces.collect()
}

/// A trace in the image.
struct Trace<'a> {
    /// Index in the image.
    index: usize,
    region: TraceRegion<'a>,
    /// Distance of the load address from the linked one, if it is known.
    offset: Option<u64>,
    /// Symbols at their linked addresses, and at those of the region.
    linked: Option<&'a Symbols>,
    symbols: Option<Symbols>,
    events: u64,
    unit: TimeUnit,
    notes: Vec<String>,
}

impl<'a> Trace<'a> {
    /// Creates the trace of a region. `symbols` provides names; `given`, or the header's value, is
    /// the distance of the load address from the linked one.
    fn new(
        index: usize,
        region: TraceRegion<'a>,
        symbols: Option<&'a Symbols>,
        given: Option<u64>,
    ) -> Self {
        Self {
            index,
            offset: given.or(region.load_offset()),
            linked: symbols,
            symbols: None,
            region,
            events: 0,
            unit: TimeUnit::Ticks,
            notes: Vec::new(),
        }
    }

    /// Reads the events once, for their number and the notes.
    fn read(&mut self) {
        let offset = self.offset;
        let linked = self.linked.cloned();
        self.symbols = linked.map(|symbols| symbols.with_offset(offset.unwrap_or(0)));
        let (mut events, mut unit, mut notes) = (0, TimeUnit::Ticks, Vec::new());
        match self.source() {
            Ok(mut source) => {
                unit = source.unit();
                while let Ok(Some(_)) = source.next_event() {
                    events += 1;
                }
                notes.extend_from_slice(source.notes());
            }
            Err(error) => notes.push(error.to_string()),
        }
        if self.symbols.is_some() && offset.is_none() {
            let line = "the load address is unknown: names may be wrong; --kaslr-offset sets it";
            notes.push(line.to_owned());
        }
        (self.events, self.unit, self.notes) = (events, unit, notes);
    }

    fn source(&self) -> io::Result<impl Source + use<'_, 'a>> {
        let source = self.region.source(self.symbols.as_ref());
        source.map_err(io::Error::other)
    }

    /// Returns its origin and numbers as text.
    fn counts(&self) -> String {
        let header = &self.region.header;
        let mut counts = match header.program.as_str() {
            "" => String::new(),
            program => format!("{}, ", escape_name(program)),
        };
        let owner = match header.flags & ZONES_OF_THREADS {
            0 => "CPU",
            _ => "thread",
        };
        let (owners, events) = (counted(header.zones, owner), counted(self.events, "event"));
        counts += &format!("{owners}, {events}");
        let bytes = &self.region.bytes;
        let (missing, len) = (bytes.missing_bytes(), bytes.len());
        if missing > 0 {
            counts += &format!("; the image lacks {missing} of its {len} bytes");
        }
        format!("{counts}; {}", self.region.state)
    }

    /// Writes the function graph.
    fn graph(&self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let mut source = self.source()?;
        let look = Look {
            width: None,
            has_colour: style == Style::Colour,
            escape: |text| escape(text.as_bytes()),
            unit: source.unit(),
        };
        let mut graph = Graph::new(Selection::default(), None, true, look, out);
        graph.heading(source.catalog())?;
        walk(&mut source, |catalog, step| {
            graph.push(&step, catalog).map_err(Failed)
        })
        .map_err(|failed| failed.0)?;
        graph.finish(source.catalog())
    }

    /// Returns the trace's JSON line.
    fn line<'l>(&'l self, about: &'l About<'l>, start: &'l str) -> TraceLine<'l> {
        let header = &self.region.header;
        TraceLine {
            r#type: "trace",
            image: about,
            trust: Trust::Unchecked.name(),
            index: self.index,
            name: self.name(),
            start,
            size: self.region.bytes.len(),
            present_bytes: self.region.bytes.len() - self.region.bytes.missing_bytes(),
            header: self.region.state.word(),
            program: header.program.as_str(),
            build_id: hex(header.build_id.as_bytes()),
            boot: header.boot,
            zones: header.zones,
            of_threads: header.flags & ZONES_OF_THREADS != 0,
            stop_when_full: header.flags & STOP_WHEN_FULL != 0,
            ticks_per_second: header.ticks_per_second,
            load_offset: self
                .region
                .load_offset()
                .map(|offset| format!("{offset:#x}")),
            unit: match self.unit {
                TimeUnit::Nanoseconds => "nanoseconds",
                TimeUnit::Ticks => "ticks",
            },
            events: self.events,
            notes: &self.notes,
        }
    }
}

impl Part for Trace<'_> {
    fn kind(&self) -> &'static str {
        "trace"
    }

    fn address(&self) -> u64 {
        self.region.start
    }

    fn name(&self) -> String {
        format!("trace-nostall-{}", self.index)
    }

    fn takes(&self) -> Option<Range<u64>> {
        Some(self.region.taken())
    }

    fn prepare(&mut self, _: Option<&Symbols>) {
        self.read();
    }

    fn describe(&self) -> String {
        format!("a trace at {:#x}: {}", self.address(), self.counts())
    }

    fn explain(&self) -> Vec<String> {
        let name = self.name();
        let lines = self.notes.iter();
        lines
            .map(|line| format!("{name}: {}", escape_name(line)))
            .collect()
    }

    fn summary(&self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let about = format!("region at {:#x}, {}", self.address(), self.counts());
        text::part(
            &format!("trace {}", self.index),
            &about,
            self.trust(),
            style,
            out,
        )
    }

    fn text(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        self.graph(style, out)
    }

    fn linux(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        self.graph(style, out)
    }

    fn json(&self, about: &About<'_>, out: &mut dyn Write) -> io::Result<()> {
        let start = format!("{:#x}", self.address());
        escaped(&self.line(about, &start), out)?;
        let mut source = self.source()?;
        while let Some(event) = source.next_event().map_err(io::Error::other)? {
            escaped(&EventLine::new(&start, &event, source.catalog()), out)?;
        }
        Ok(())
    }

    fn outcome(&self, input: &Input) -> Outcome {
        let at = self.region.start;
        if self.events > 0 {
            return Outcome {
                status: Status::Records,
                records: usize::try_from(self.events).unwrap_or(usize::MAX),
                message: None,
            };
        }
        let message = format!("{input}: the trace at {at:#x} is empty");
        Outcome::none(Status::Empty, message)
    }
}

/// An error of the output or of the source.
struct Failed(io::Error);

impl From<ReadError> for Failed {
    fn from(error: ReadError) -> Self {
        Self(io::Error::other(error))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// JSON line of a trace.
#[derive(Serialize)]
struct TraceLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    image: &'a About<'a>,
    trust: &'static str,
    index: usize,
    name: String,
    start: &'a str,
    size: usize,
    present_bytes: usize,
    header: &'static str,
    program: &'a str,
    build_id: String,
    boot: u64,
    zones: u32,
    of_threads: bool,
    stop_when_full: bool,
    ticks_per_second: u64,
    load_offset: Option<String>,
    unit: &'static str,
    events: u64,
    notes: &'a [String],
}

/// JSON line of an event. Members that an event lacks are omitted.
#[derive(Default, Serialize)]
struct EventLine<'a> {
    r#type: &'static str,
    trace: &'a str,
    time: u64,
    cpu: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<i64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    task_name: &'a str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    argument: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counter: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
}

impl<'a> EventLine<'a> {
    fn new(trace: &'a str, event: &Event, catalog: &'a Catalog) -> Self {
        let text = |name: Name| Some(catalog.text(name));
        let task = catalog.task_name(event.task);
        let line = Self {
            r#type: "event",
            trace,
            time: event.time,
            cpu: event.cpu,
            task: (task.id != 0).then_some(task.id),
            task_name: &task.name,
            ..Self::default()
        };
        match event.kind {
            EventKind::Enter {
                function,
                depth,
                argument,
            } => Self {
                kind: "enter",
                function: text(function),
                depth,
                argument,
                ..line
            },
            EventKind::Exit {
                function,
                depth,
                duration,
            } => Self {
                kind: "exit",
                function: function.and_then(text),
                depth,
                duration,
                ..line
            },
            EventKind::Call { function, caller } => Self {
                kind: "call",
                function: text(function),
                caller: caller.and_then(text),
                ..line
            },
            EventKind::Stall {
                condition,
                place,
                duration,
            } => Self {
                kind: "stall",
                condition: text(condition),
                place: place.and_then(text),
                duration: Some(duration),
                ..line
            },
            EventKind::Counter { counter, value } => Self {
                kind: "counter",
                counter: text(counter),
                value: Some(value),
                ..line
            },
            EventKind::Mark { text: mark } => Self {
                kind: "mark",
                text: text(mark),
                ..line
            },
            EventKind::Lost { records } => Self {
                kind: "lost",
                records: Some(records),
                ..line
            },
            _ => Self {
                kind: "other",
                ..line
            },
        }
    }
}
