//! Reader of the text of ftrace and of `trace-cmd report`.

mod clock;
mod line;
mod lines;
mod tasks;

use std::collections::BTreeMap;
use std::io::BufRead;

use self::clock::Clock;
use self::line::{Body, Line, Record};
use self::lines::{End, Lines};
use self::tasks::Tasks;
use super::marks::Marks;
use crate::model::{Catalog, Event, EventKind, Name, Progress, ReadError, Source, Task, TimeUnit};

/// Returns whether `head`, the start of an input, contains lines of ftrace.
///
/// A trace may be quoted in other text. 64 KiB are enough to find it.
pub fn looks_like_text(head: &[u8]) -> bool {
    let odd = |byte: &&u8| **byte < b' ' && !b"\t\r\n\x0c\x1b".contains(*byte);
    if head.iter().filter(odd).count() > head.len() / 16 {
        return false;
    }
    head.split_inclusive(|byte| *byte == b'\n').any(|line| {
        let text = String::from_utf8_lossy(line);
        match line::read(&text, text.ends_with('\n')) {
            Line::Heading => text.starts_with("# tracer: "),
            Line::Record(Record { body, time, .. }) => match body {
                // A table or program may look like an entry.
                Body::Entry { .. } => time.is_some(),
                Body::Leaf { duration, .. } | Body::Exit { duration, .. } => {
                    time.is_some() || duration.is_some()
                }
                Body::Call { .. } | Body::Text(_) => true,
            },
            Line::Gap | Line::Foreign | Line::Lost { .. } | Line::Switch { .. } => false,
        }
    })
}

/// Reader of ftrace text: `function`, `function_graph`, trace events, and their form in `trace-cmd
/// report`.
///
/// Lines of other text are skipped, and counted in the [notes](Source::notes).
#[derive(Debug)]
pub struct TextSource<R> {
    lines: Lines<R>,
    total: u64,
    catalog: Catalog,
    marks: Marks,
    clock: Clock,
    tasks: Tasks,
    /// CPU of the last record.
    last: Option<u32>,
    /// Whether lines are missing after the last record.
    is_broken: bool,
    /// Number of lost records by CPU, to report before the next record.
    lost: BTreeMap<u32, u64>,
    unit: TimeUnit,
    counts: Counts,
    notes: Vec<String>,
    is_done: bool,
}

/// Counts for the notes.
#[derive(Debug, Default)]
struct Counts {
    foreign: u64,
    cut: u64,
    gaps: u64,
    untimed: u64,
}

/// Reads ftrace text. `total` is the length of the input in bytes; 0 if unknown.
pub fn open_text<R: BufRead>(input: R, total: u64) -> TextSource<R> {
    TextSource {
        lines: Lines::new(input),
        total,
        catalog: Catalog::default(),
        marks: Marks::default(),
        clock: Clock::default(),
        tasks: Tasks::default(),
        last: None,
        is_broken: false,
        lost: BTreeMap::new(),
        unit: TimeUnit::Nanoseconds,
        counts: Counts::default(),
        notes: Vec::new(),
        is_done: false,
    }
}

impl<R: BufRead> Source for TextSource<R> {
    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        loop {
            if let Some(event) = self.clock.next() {
                return Ok(Some(event));
            }
            if self.is_done {
                return Ok(None);
            }
            match self.lines.advance().map_err(ReadError::new)? {
                End::Input => self.finish(),
                end => self.take_line(end == End::Whole),
            }
        }
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn unit(&self) -> TimeUnit {
        self.unit
    }

    fn progress(&self) -> Progress {
        Progress {
            done: self.lines.done(),
            total: self.total,
        }
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl<R: BufRead> TextSource<R> {
    fn take_line(&mut self, is_whole: bool) {
        let bytes = self.lines.take();
        let text = String::from_utf8_lossy(&bytes);
        match line::read(&text, is_whole) {
            Line::Heading => {}
            Line::Gap => {
                self.counts.gaps += u64::from(self.last.is_some() && !self.is_broken);
                self.is_broken = true;
            }
            Line::Foreign => {
                let count = match is_whole {
                    true => &mut self.counts.foreign,
                    false => &mut self.counts.cut,
                };
                *count += 1;
                self.is_broken = true;
            }
            Line::Lost { cpu, records } => self.lose(cpu, records),
            Line::Switch { cpu, from, to } => {
                self.tasks.switch(&mut self.catalog, cpu, from, to);
            }
            Line::Record(record) => self.take_record(&record),
        }
        drop(text);
        self.lines.put_back(bytes);
    }

    /// Counts lost records; 0 if the number is unknown.
    fn lose(&mut self, cpu: u32, records: u64) {
        let lost = self.lost.entry(cpu).or_default();
        *lost = lost.saturating_add(records);
    }

    fn take_record(&mut self, record: &Record<'_>) {
        let cpu = record.cpu.unwrap_or(0);
        let stamp = record.time.map(|time| time.value);
        if record.time.is_some_and(|time| time.ticks) {
            self.unit = TimeUnit::Ticks;
        }
        self.counts.untimed += u64::from(stamp.is_none());
        if self.is_broken
            && let Some(last) = self.last
        {
            self.lose(last, 0);
        }
        self.is_broken = false;
        self.last = Some(cpu);
        self.tell_lost(stamp);

        let task = self.tasks.of(&mut self.catalog, cpu, record.task);
        let event = |kind| Event {
            time: 0,
            cpu,
            task,
            kind,
        };
        let catalog = &mut self.catalog;
        match record.body {
            Body::Entry { function, depth } => {
                let function = catalog.name(function);
                self.clock
                    .enter(stamp, event(enter(function, depth)), catalog);
                self.tasks.entered(cpu);
            }
            Body::Leaf {
                function,
                depth,
                duration,
            } => {
                let function = catalog.name(function);
                let exit = EventKind::Exit {
                    function: Some(function),
                    depth,
                    duration,
                };
                let entry = event(enter(function, depth));
                self.clock.leaf(stamp, duration, entry, event(exit));
            }
            Body::Exit {
                function,
                depth,
                duration,
            } => {
                let exit = EventKind::Exit {
                    function: function.map(|function| catalog.name(function)),
                    depth,
                    duration,
                };
                self.clock.exit(stamp, duration, event(exit), catalog);
                self.tasks.left(cpu);
            }
            Body::Call { function, caller } => {
                let call = EventKind::Call {
                    function: catalog.name(function),
                    caller: caller.map(|caller| catalog.name(caller)),
                };
                self.clock.point(stamp, event(call));
            }
            Body::Text(text) => {
                let text = self.marks.name(catalog, text);
                self.clock.point(stamp, event(EventKind::Mark { text }));
            }
        }
    }

    /// Reports lost records at the time of the next record.
    fn tell_lost(&mut self, stamp: Option<u64>) {
        while let Some((cpu, records)) = self.lost.pop_first() {
            self.clock.lost(
                stamp,
                Event {
                    time: 0,
                    cpu,
                    task: Task::NONE,
                    kind: EventKind::Lost { records },
                },
            );
        }
    }

    fn finish(&mut self) {
        self.is_done = true;
        self.tell_lost(None);
        self.clock.finish();
        let Counts {
            foreign,
            cut,
            gaps,
            untimed,
        } = self.counts;
        let notes = [
            (
                untimed,
                "lines have no time stamp: their times are sums of the durations before them",
            ),
            (
                foreign,
                "lines are not of a trace, or damaged: they were skipped",
            ),
            (cut, "lines are cut: they were skipped"),
            (
                gaps,
                "times, dots stand for missing lines: calls around them may be unpaired",
            ),
        ];
        let notes = notes.into_iter().filter(|(count, _)| *count > 0);
        self.notes
            .extend(notes.map(|(count, text)| format!("{count} {text}")));
        self.notes.extend(self.marks.note());
    }
}

fn enter(function: Name, depth: Option<u32>) -> EventKind {
    EventKind::Enter {
        function,
        depth,
        argument: None,
    }
}
