//! Reads trace.dat, the file of trace-cmd, versions 6 and 7.

mod binary;
mod contents;
mod event;
mod fields;
mod span;
mod stream;
mod symbols;

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Seek};

use self::contents::{Buffer, BufferData, Contents, CpuData, MAGIC};
use self::event::Decoder;
use self::span::{Chunks, Data, Shared, Span};
use self::stream::{Item, Record, Stream};
use super::text::{TextSource, open_text};
use crate::model::{Catalog, Event, EventKind, Merge, Progress, ReadError, Source, Task, TimeUnit};

/// Memory for pages and unpacked chunks of all CPUs.
const MEMORY: usize = 256 << 20;
/// Largest page, or sub-buffer.
const LARGEST_PAGE: u32 = 1 << 20;
/// Limit for CPU numbers: plausible ones are lower.
const MOST_CPUS: u32 = 1 << 16;
/// Maximum number of notes about single CPUs.
const MOST_NOTES: usize = 32;

/// Returns whether `head`, the start of a file, belongs to a trace.dat file.
pub fn is_dat(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// Reader of a trace.dat file.
#[derive(Debug)]
pub struct DatSource<R: Read + Seek>(Inner<R>);

#[derive(Debug)]
enum Inner<R: Read + Seek> {
    Records(Box<Records<R>>),
    /// The latency tracers' files contain text.
    Text(Box<TextSource<BufReader<Data<R>>>>),
}

#[derive(Debug)]
struct Records<R: Read + Seek> {
    merge: Merge<Stream<R>>,
    decoder: Decoder,
    unit: TimeUnit,
    total: u64,
    damaged: u64,
    notes: Vec<String>,
    is_done: bool,
}

/// Opens a trace.dat file.
///
/// The records of all buffers (trace instances) are merged.
///
/// # Errors
///
/// [`ReadError`] if the header cannot be read. Later damage is noted and skipped.
pub fn open_dat<R: Read + Seek>(input: R) -> Result<DatSource<R>, ReadError> {
    let input = Shared::new(input);
    let mut contents = Contents::read(&input)?;
    let mut notes = notes(&contents);
    drop_impossible(&mut contents.buffers, &mut notes);
    let ticks = contents
        .buffers
        .iter()
        .any(|buffer| buffer.is_in_ticks(contents.times));

    let filled: usize = contents.buffers.iter().map(|it| it.cpus().len()).sum();
    let memory = MEMORY / filled.max(1);
    let mut streams = Vec::new();
    let mut total = 0_u64;
    let mut text = None;
    for buffer in &contents.buffers {
        if let BufferData::Text(at, len) = buffer.data {
            let data = data(&input, (at, len), &contents, buffer, memory);
            text = Some((BufReader::new(data), len));
        }
        let cpus = buffer.cpus();
        let page_size = buffer.page_size;
        let is_sound = (64..=LARGEST_PAGE).contains(&page_size);
        if !cpus.is_empty() && (!is_sound || page_size as usize > memory / 8) {
            return Err(ReadError::new(format!(
                "pages of {page_size} bytes on {} CPUs cannot be read",
                cpus.len()
            )));
        }
        for cpu in cpus {
            total = total.saturating_add(cpu.len);
            streams.push(stream(&input, &contents, buffer, cpu, memory));
        }
    }
    if let (Some((text, len)), true) = (text, streams.is_empty()) {
        return Ok(DatSource(Inner::Text(Box::new(open_text(text, len)))));
    }
    let decoder = Decoder::new(
        contents.formats,
        contents.form.commit_bytes,
        contents.symbols,
        contents.commands,
        contents.printk,
    );
    Ok(DatSource(Inner::Records(Box::new(Records {
        merge: Merge::new(streams, |item| item.time),
        decoder,
        unit: if ticks {
            TimeUnit::Ticks
        } else {
            TimeUnit::Nanoseconds
        },
        total,
        damaged: 0,
        notes,
        is_done: false,
    }))))
}

/// Returns the notes on the file's contents.
fn notes(contents: &Contents) -> Vec<String> {
    let mut notes = Vec::new();
    let names = contents.buffers.iter().map(|buffer| buffer.name.as_str());
    let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    if !names.is_empty() {
        let names = names.join(", ");
        notes.push(format!("the trace instances are merged: {names}"));
    }
    if contents.formats.is_empty() {
        notes.push("the file has no event formats: events are numbers".to_owned());
    }
    if contents.is_shifted {
        notes.push("times are the virtual machine's own, not its host's".to_owned());
    }
    notes
}

/// Drops CPUs without records, and those with an impossible number or location.
///
/// No byte is read for two CPUs, so the file's length bounds the time to read it.
fn drop_impossible(buffers: &mut [Buffer], notes: &mut Vec<String>) {
    let mut used = BTreeMap::<u64, u64>::new();
    for buffer in buffers {
        let BufferData::Cpus(cpus) = &mut buffer.data else {
            continue;
        };
        cpus.retain(|cpu| {
            let end = cpu.at.saturating_add(cpu.len);
            let before = used.range(..end).next_back();
            let is_apart = before.is_none_or(|(_, end)| *end <= cpu.at);
            let is_kept = cpu.len > 0 && is_apart && cpu.cpu < MOST_CPUS;
            if is_kept {
                used.insert(cpu.at, end);
            } else if cpu.len > 0 && notes.len() < MOST_NOTES {
                let cpu = cpu.cpu;
                notes.push(match is_apart {
                    true => format!("CPU {cpu} was skipped: its number is too high"),
                    false => format!("CPU {cpu} was skipped: its records are another CPU's, too"),
                });
            }
            is_kept
        });
    }
}

fn stream<R: Read + Seek>(
    input: &Shared<R>,
    contents: &Contents,
    buffer: &Buffer,
    cpu: &CpuData,
    memory: usize,
) -> Stream<R> {
    let data = data(input, (cpu.at, cpu.len), contents, buffer, memory);
    Stream::new(
        cpu.cpu,
        data,
        (!buffer.is_compressed).then_some(cpu.len),
        (contents.form, buffer.page_size as usize),
        contents.times,
        (memory / 4).min(64 << 10),
    )
}

fn data<R: Read + Seek>(
    input: &Shared<R>,
    (at, len): (u64, u64),
    contents: &Contents,
    buffer: &Buffer,
    memory: usize,
) -> Data<R> {
    if !buffer.is_compressed {
        return Data::Plain(Span::new(input, at, len));
    }
    // trace-cmd's length does not include the number of chunks.
    let span = Span::new(input, at, len.saturating_add(4));
    let (order, compression) = (contents.form.order, contents.compression);
    Data::Chunks(Chunks::new(span, order, compression, memory as u64))
}

impl<R: Read + Seek> Source for DatSource<R> {
    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        match &mut self.0 {
            Inner::Records(records) => Ok(records.next()),
            Inner::Text(text) => text.next_event(),
        }
    }

    fn catalog(&self) -> &Catalog {
        match &self.0 {
            Inner::Records(records) => &records.decoder.catalog,
            Inner::Text(text) => text.catalog(),
        }
    }

    fn unit(&self) -> TimeUnit {
        match &self.0 {
            Inner::Records(records) => records.unit,
            Inner::Text(text) => text.unit(),
        }
    }

    fn progress(&self) -> Progress {
        match &self.0 {
            Inner::Records(records) => records.progress(),
            Inner::Text(text) => text.progress(),
        }
    }

    fn notes(&self) -> &[String] {
        match &self.0 {
            Inner::Records(records) => &records.notes,
            Inner::Text(text) => text.notes(),
        }
    }
}

impl<R: Read + Seek> Records<R> {
    fn next(&mut self) -> Option<Event> {
        let Some((_, item)) = self.merge.next() else {
            self.finish();
            return None;
        };
        let Item { time, cpu, record } = item;
        let (task, kind) = match record {
            Record::Payload(page, place) => match self.decoder.event(&page[place]) {
                Some(event) => event,
                None => self.damage(),
            },
            Record::Lost(records) => (Task::NONE, EventKind::Lost { records }),
            Record::Damaged => self.damage(),
            Record::Cut(error) => {
                if self.notes.len() < MOST_NOTES {
                    self.notes.push(match error.kind() {
                        std::io::ErrorKind::UnexpectedEof => {
                            format!("the file ends before the last records of CPU {cpu}")
                        }
                        _ => format!("the rest of CPU {cpu} cannot be read: {error}"),
                    });
                }
                (Task::NONE, EventKind::Lost { records: 0 })
            }
        };
        Some(Event {
            time,
            cpu,
            task,
            kind,
        })
    }

    fn damage(&mut self) -> (Task, EventKind) {
        self.damaged += 1;
        (Task::NONE, EventKind::Lost { records: 0 })
    }

    fn finish(&mut self) {
        if std::mem::replace(&mut self.is_done, true) {
            return;
        }
        if self.damaged > 0 {
            let damaged = self.damaged;
            self.notes.push(format!(
                "{damaged} damaged places: the records behind them are missing"
            ));
        }
        self.notes.extend(self.decoder.marks.note());
    }

    fn progress(&self) -> Progress {
        let streams = self.merge.streams();
        let done: u64 = streams.map(Stream::done).sum();
        Progress {
            done: done.min(self.total),
            total: self.total,
        }
    }
}
