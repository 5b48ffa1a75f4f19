//! nostall-console's log rings in an image, and the selection of shown records.

use std::io::{self, Write};

use nostall_console::Record;

use super::input::Input;
use super::outcome::{Outcome, Status};
use crate::count::counted;
use crate::log_ring::{FoundRing, LogEntry};

/// A log ring in the image.
pub struct Ring<'a> {
    /// Index in the image.
    pub index: usize,
    /// First sequence that was not printed, if the ring records it.
    pub unprinted_from: Option<u64>,
    /// Number of newest records to show.
    last: u64,
    found: FoundRing<'a>,
    /// Sequence of the newest record.
    pub newest: u64,
    /// Whether records from before a wrap of the sequences exist, as on 32-bit machines.
    has_wrapped: bool,
    /// Number of complete records that are shown.
    pub shown: u64,
    /// Number of shown records that were incomplete at the crash.
    pub unfinished: u64,
    /// Number of records that should be in the ring but are missing.
    pub damaged: usize,
}

impl<'a> Ring<'a> {
    /// Creates the ring that was found at an index. With `all`, printed records are shown too.
    pub fn new(index: usize, found: FoundRing<'a>, all: bool) -> Self {
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
    pub fn shown(&self) -> impl Iterator<Item = LogEntry> + use<'_> {
        let any = self.shown + self.unfinished > 0;
        let ring = any.then(|| self.found.ring());
        let records = ring.into_iter().flat_map(|ring| ring.records());
        records.filter(|found| self.since(found.sequence()) <= self.last)
    }

    /// Returns the number of records from this one to the newest, inclusive.
    pub fn since(&self, sequence: u64) -> u64 {
        self.found.ring().since(sequence)
    }

    /// Returns whether all sinks have sent the record.
    pub fn is_printed(&self, sequence: u64) -> bool {
        self.unprinted_from
            .is_some_and(|unprinted| self.since(sequence) > self.since(unprinted))
    }

    /// Returns the physical address.
    pub fn address(&self) -> u64 {
        self.found.address
    }

    /// Returns a one-line description of the ring.
    pub fn describe(&self) -> String {
        format!("a log ring at {:#x}: {}", self.address(), self.counts())
    }

    /// Returns the numbers of its records as text.
    pub fn counts(&self) -> String {
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

    /// Returns the file name.
    pub fn name(&self) -> String {
        format!("log-nostall-{}", self.index)
    }

    /// Returns the size of the whole ring in bytes, including missing ones.
    pub fn len(&self) -> usize {
        self.found.bytes.len()
    }

    /// Returns the number of bytes that the image has.
    pub fn present(&self) -> usize {
        self.len() - self.found.bytes.missing_bytes()
    }

    /// Returns the ring's contribution to the exit status.
    pub fn outcome(&self, input: &Input) -> Outcome {
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

    /// Returns the shown records, each with whether it continues the previous line.
    pub fn lines(&self) -> impl Iterator<Item = (Record, bool)> + use<'_> {
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

    /// Writes the lines that the machine's console would have shown.
    pub fn write_to(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        self.write_lines(out, |mut record, joins, out| {
            record.adjoins = joins;
            let line = record.to_string();
            out.write_all(line.strip_suffix('\n').unwrap_or(&line).as_bytes())
        })
    }

    /// Writes each record with `write`, and completes the lines.
    pub fn write_lines<W: Write + ?Sized>(
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
