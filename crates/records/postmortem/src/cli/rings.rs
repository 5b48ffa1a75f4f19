//! nostall-console's log rings in an image, the selection of shown records, and their output.

use std::io::{self, Write};
use std::ops::Range;

use nostall_console::{Priority, Record, write_time};
use nostall_pstore::Trust;
use serde::Serialize;

use super::input::Input;
use super::json::{About, Hex, Lossy, SCHEMA, escaped};
use super::outcome::{Outcome, Status};
use super::output::Style;
use super::part::{Opening, Output, Part, Parts, Turn, safe};
use super::text::{self, passage};
use crate::count::counted;
use crate::log_ring::{FoundRing, LogEntry, MOST};

/// The output of log rings.
pub static OUTPUT: Output = Output {
    plural: "rings",
    most: MOST,
    takes_memory: false,
    turn: Turn::Later,
    is_record: true,
    open,
};

fn open<'a>(opening: &Opening<'a>, taken: &[Range<u64>]) -> Parts<'a> {
    let rings = opening.discovery.log_rings(taken).into_iter().enumerate();
    let rings = rings.map(|(index, ring)| Box::new(Ring::new(index, ring, opening.all)) as _);
    rings.collect()
}

/// A log ring in the image.
struct Ring<'a> {
    /// Index in the image.
    index: usize,
    /// First sequence that was not printed, if the ring records it.
    unprinted_from: Option<u64>,
    /// Number of newest records to show.
    last: u64,
    found: FoundRing<'a>,
    /// Sequence of the newest record.
    newest: u64,
    /// Whether records from before a wrap of the sequences exist, as on 32-bit machines.
    has_wrapped: bool,
    /// Number of complete records that are shown.
    shown: u64,
    /// Number of shown records that were incomplete at the crash.
    unfinished: u64,
    /// Number of records that should be in the ring but are missing.
    damaged: usize,
}

impl<'a> Ring<'a> {
    /// Creates the ring that was found at an index. With `all`, printed records are shown too.
    fn new(index: usize, found: FoundRing<'a>, all: bool) -> Self {
        let ring = found.ring();
        // With several sinks, the one furthest behind counts.
        let unprinted_from = ring
            .sent()
            .into_iter()
            .filter(|&sent| sent != 0)
            .max_by_key(|&sent| ring.since(sent));
        let last = match unprinted_from {
            Some(sent) if !all => ring.since(sent),
            _ => u64::MAX,
        };
        let newest = ring.newest();
        let (mut shown, mut unfinished, mut has_wrapped) = (0, 0, false);
        for entry in ring.records() {
            let sequence = entry.sequence();
            has_wrapped |= sequence > newest;
            match entry {
                _ if ring.since(sequence) > last => {}
                LogEntry::Record(_) => shown += 1,
                LogEntry::Unfinished(_) => unfinished += 1,
            }
        }
        let damaged = ring.missing();
        Self {
            index,
            unprinted_from,
            last,
            newest,
            has_wrapped,
            shown,
            unfinished,
            damaged,
            found,
        }
    }

    /// Returns the records to show, from the oldest.
    fn shown(&self) -> impl Iterator<Item = LogEntry> + use<'_> {
        let any = self.shown + self.unfinished > 0;
        let ring = any.then(|| self.found.ring());
        let records = ring.into_iter().flat_map(|ring| ring.records());
        records.filter(|found| self.since(found.sequence()) <= self.last)
    }

    /// Returns the number of records from this one to the newest, inclusive.
    fn since(&self, sequence: u64) -> u64 {
        self.found.ring().since(sequence)
    }

    /// Returns whether all sinks have sent the record.
    fn is_printed(&self, sequence: u64) -> bool {
        self.unprinted_from
            .is_some_and(|unprinted| self.since(sequence) > self.since(unprinted))
    }

    /// Returns the numbers of its records as text.
    fn counts(&self) -> String {
        let mut what = String::new();
        let (there, len) = (self.present(), self.len());
        if there < len {
            what += &format!("the image has {there} of its {len} bytes; ");
        }
        what += &if self.has_wrapped {
            let Self { shown, newest, .. } = self;
            let shown = counted(shown, "record");
            format!("{shown}, to {newest} after the numbers wrapped")
        } else {
            format!("{} of {}", self.shown, counted(self.newest, "record"))
        };
        if let Some(unprinted) = self.unprinted_from {
            what += &format!(", printed up to {}", unprinted - 1);
        }
        let damaged = self.damaged as u64;
        for (number, are) in [(self.unfinished, "unfinished"), (damaged, "damaged")] {
            if number > 0 {
                what += &format!(", {number} {are}");
            }
        }
        what
    }

    /// Returns the size of the whole ring in bytes, including missing ones.
    fn len(&self) -> usize {
        self.found.bytes.len()
    }

    /// Returns the number of bytes that the image has.
    fn present(&self) -> usize {
        self.len() - self.found.bytes.missing_bytes()
    }

    /// Returns the shown records, each with whether it continues the previous line.
    fn lines(&self) -> impl Iterator<Item = (Record, bool)> + use<'_> {
        // The open line's distance from the newest record, because sequences wrap.
        let mut open = None;
        let mut is_raw_open = false;
        self.shown().filter_map(move |entry| {
            let LogEntry::Record(record) = entry else {
                return None;
            };
            let joins = if record.raw {
                is_raw_open
            } else {
                record.adjoins && open == Some(self.since(record.sequence) + 1)
            };
            is_raw_open = record.raw && record.continues;
            open = record.continues.then(|| self.since(record.sequence));
            Some((record, joins))
        })
    }

    fn entry<'e>(&self, entry: &'e LogEntry) -> Entry<'e> {
        let record = match entry {
            LogEntry::Record(record) => record,
            LogEntry::Unfinished(_) => return Entry::Unfinished { unfinished: true },
        };
        let is_text = std::str::from_utf8(record.text()).is_ok();
        Entry::Record {
            time_ns: record.time.is_known().then_some(record.time.0),
            cpu: record.cpu,
            level: record.level as u8,
            priority: match record.priority {
                Priority::Normal => "normal",
                Priority::Emergency => "emergency",
                Priority::Panic => "panic",
            },
            target: String::from_utf8_lossy(record.target()).into_owned(),
            text: Lossy(record.text()),
            text_hex: (!is_text).then(|| Hex(record.text())),
            continues: record.continues,
            continued: record.continued,
            cut: record.cut,
            raw: record.raw,
            printed: self.is_printed(record.sequence),
            trust: Trust::Unchecked.name(),
        }
    }

    /// Writes the lines that the machine's console would have shown.
    fn write_to(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        self.write_lines(out, |mut record, joins, out| {
            record.adjoins = joins;
            let line = record.to_string();
            out.write_all(line.strip_suffix('\n').unwrap_or(&line).as_bytes())
        })
    }

    /// Writes each record with `write`, and completes the lines.
    fn write_lines<W: Write + ?Sized>(
        &self,
        out: &mut W,
        write: impl Fn(Record, bool, &mut W) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut is_open = false;
        for (record, joins) in self.lines() {
            if is_open && !joins {
                writeln!(out)?;
            }
            is_open = true;
            write(record, joins, out)?;
        }
        if is_open { writeln!(out) } else { Ok(()) }
    }
}

impl Part for Ring<'_> {
    fn kind(&self) -> &'static str {
        "log ring"
    }

    fn address(&self) -> u64 {
        self.found.address
    }

    fn name(&self) -> String {
        format!("log-nostall-{}", self.index)
    }

    fn describe(&self) -> String {
        format!("a log ring at {:#x}: {}", self.address(), self.counts())
    }

    fn summary(&self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let about = format!("ring at {:#x}, {}", self.address(), self.counts());
        text::part(
            &format!("log {}", self.index),
            &about,
            self.trust(),
            style,
            out,
        )
    }

    fn text(&mut self, _: Style, out: &mut dyn Write) -> io::Result<()> {
        self.write_lines(out, |record, joins, out| {
            if record.raw {
                let text = record.text();
                return passage(text.strip_suffix(b"\n").unwrap_or(text), !joins, out);
            }
            if !joins {
                let mut time = String::new();
                write_time(&record, &mut time).map_err(io::Error::other)?;
                write!(out, "{time}")?;
                if !record.target().is_empty() {
                    passage(record.target(), false, out)?;
                    write!(out, ": ")?;
                }
            }
            passage(record.text(), false, out)?;
            out.write_all(if record.cut { b"[cut]" } else { b"" })
        })
    }

    fn linux(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        safe(style, out, |out| self.write_to(out))
    }

    fn json(&self, about: &About<'_>, out: &mut dyn Write) -> io::Result<()> {
        let start = format!("{:#x}", self.address());
        let line = RingLine {
            r#type: "ring",
            image: about,
            index: self.index,
            name: self.name(),
            start: &start,
            size: self.len(),
            present_bytes: self.present(),
            trust: Trust::Unchecked.name(),
            newest: self.newest,
            unprinted_from: self.unprinted_from,
            shown: self.shown,
            unfinished: self.unfinished,
            damaged: self.damaged,
        };
        escaped(&line, out)?;
        self.shown().try_for_each(|entry| {
            let line = LogLine {
                r#type: "log",
                schema: SCHEMA,
                ring: &start,
                sequence: entry.sequence(),
                entry: self.entry(&entry),
            };
            escaped(&line, out)
        })
    }

    fn outcome(&self, input: &Input) -> Outcome {
        let at = self.address();
        if self.shown > 0 {
            return Outcome {
                status: Status::Records,
                records: self.shown as usize,
                message: None,
            };
        }
        if self.unfinished > 0 || self.damaged > 0 {
            let message = format!("{input}: no record of the log ring at {at:#x} can be read");
            return Outcome::none(Status::Damaged, message);
        }
        let message = match self.newest {
            0 => format!("{input}: the log ring at {at:#x} is empty"),
            _ => format!(
                "{input}: all records of the log ring at {at:#x} had been printed: --all shows them"
            ),
        };
        Outcome::none(Status::Empty, message)
    }
}

/// JSON line of a ring.
#[derive(Serialize)]
struct RingLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    image: &'a About<'a>,
    index: usize,
    name: String,
    start: &'a str,
    size: usize,
    present_bytes: usize,
    trust: &'static str,
    newest: u64,
    unprinted_from: Option<u64>,
    shown: u64,
    unfinished: u64,
    damaged: usize,
}

/// JSON line of a record.
#[derive(Serialize)]
struct LogLine<'a> {
    r#type: &'static str,
    schema: u32,
    ring: &'a str,
    sequence: u64,
    #[serde(flatten)]
    entry: Entry<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Entry<'a> {
    Record {
        time_ns: Option<u64>,
        cpu: u16,
        level: u8,
        priority: &'static str,
        target: String,
        text: Lossy<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        text_hex: Option<Hex<'a>>,
        continues: bool,
        continued: bool,
        cut: bool,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        raw: bool,
        printed: bool,
        trust: &'static str,
    },
    Unfinished {
        unfinished: bool,
    },
}
