//! nostall-console's log rings in an image, and the selection of shown records.

use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Range;

use nostall_console::Record;
use nostall_console::layout::{CONSTANT_BYTES, HEADER_BYTES};

use super::input::Input;
use super::outcome::{Outcome, Status};
use crate::count::counted;
use crate::log_ring::{self, LogEntry, NotARing};
use crate::memory::{MAX_COPY, Memory};

/// Maximum number of shown rings: an image may be filled with them on purpose.
pub const MOST: usize = 4_096;

/// A log ring in the image.
pub struct Ring<'a> {
    /// Index in the image.
    pub index: usize,
    /// Physical address.
    pub address: u64,
    /// First sequence that was not printed, if the ring records it.
    pub unprinted_from: Option<u64>,
    /// Number of newest records to show.
    last: u64,
    bytes: Cow<'a, [u8]>,
    /// Number of bytes that the image lacks. They are zeros in `bytes`.
    pub missing: usize,
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

/// Finds the rings that start inside `within` and outside the `decoded` parts.
///
/// A ring inside another ring or a decoded region is skipped, because it may be logged text. Each
/// byte is thus read once. With `all`, printed records are shown too.
pub fn find<'a>(
    image: &'a Memory,
    within: Range<u64>,
    decoded: &[Range<u64>],
    all: bool,
) -> Vec<Ring<'a>> {
    let mut rings: Vec<Ring<'a>> = Vec::new();
    let mut next = 0;
    for (start, bytes) in image.data() {
        let first = start.max(next);
        let skip = first - start + first.wrapping_neg() % CONSTANT_BYTES as u64;
        let bytes = bytes.get(skip as usize..).unwrap_or_default();
        for at in log_ring::find(bytes) {
            let address = start + skip + at as u64;
            let is_inside = decoded.iter().any(|region| region.contains(&address));
            if address < next || is_inside || !within.contains(&address) {
                continue;
            }
            if let Some(ring) = Ring::at(image, address, all, rings.len()) {
                next = address.saturating_add((ring.bytes.len() - ring.missing) as u64);
                rings.push(ring);
            }
            if rings.len() == MOST {
                return rings;
            }
        }
    }
    rings
}

impl<'a> Ring<'a> {
    /// Reads the ring at `address`. `None` if it is none: the signature also occurs elsewhere.
    fn at(image: &'a Memory, address: u64, all: bool, index: usize) -> Option<Self> {
        let Err(NotARing::Short { whole }) = log_ring::decode(&image.read(address, HEADER_BYTES)?)
        else {
            return None;
        };
        let (bytes, missing) = match image.read(address, whole) {
            Some(bytes) => (bytes, 0),
            None => padded(image, address, whole)?,
        };
        let ring = log_ring::decode(&bytes).ok()?;
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
        for found in ring.records() {
            let sequence = found.sequence();
            has_wrapped |= sequence > newest;
            match found {
                _ if ring.since(sequence) > last => {}
                LogEntry::Record(_) => shown += 1,
                LogEntry::Unfinished(_) => unfinished += 1,
            }
        }
        let damaged = ring.missing();
        Some(Self {
            index,
            address,
            unprinted_from,
            last,
            bytes,
            missing,
            newest,
            has_wrapped,
            shown,
            unfinished,
            damaged,
        })
    }

    /// Returns the records to show, from the oldest.
    pub fn shown(&self) -> impl Iterator<Item = LogEntry> + use<'_> {
        let ring = log_ring::decode(&self.bytes).ok();
        let any = self.shown + self.unfinished > 0;
        let records = ring.filter(|_| any).into_iter();
        let records = records.flat_map(|ring| ring.records());
        records.filter(|found| self.since(found.sequence()) <= self.last)
    }

    /// Returns the number of records from this one to the newest, inclusive.
    pub fn since(&self, sequence: u64) -> u64 {
        log_ring::decode(&self.bytes).map_or(0, |ring| ring.since(sequence))
    }

    /// Returns whether all sinks have sent the record.
    pub fn is_printed(&self, sequence: u64) -> bool {
        self.unprinted_from
            .is_some_and(|unprinted| self.since(sequence) > self.since(unprinted))
    }

    /// Returns a one-line description of the ring.
    pub fn describe(&self) -> String {
        format!("a log ring at {:#x}: {}", self.address, self.counts())
    }

    /// Returns the numbers of its records as text.
    pub fn counts(&self) -> String {
        let mut what = String::new();
        if self.missing > 0 {
            let len = self.bytes.len();
            let there = len - self.missing;
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
        self.bytes.len()
    }

    /// Returns the ring's contribution to the exit status.
    pub fn outcome(&self, input: &Input) -> Outcome {
        let at = self.address;
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

/// Returns the bytes of a ring that the image's end cuts off, padded with zeros, and the number of
/// zeros.
fn padded(image: &Memory, address: u64, whole: usize) -> Option<(Cow<'_, [u8]>, usize)> {
    let segments = image.segments();
    let behind = segments.partition_point(|segment| segment.start <= address);
    let segment = segments.get(behind.checked_sub(1)?)?;
    let there = segment.len.checked_sub(address - segment.start)? as usize;
    let missing = whole.checked_sub(there)?;
    if whole > MAX_COPY {
        return None;
    }
    let mut bytes = image.read(address, there)?.into_owned();
    bytes.resize(whole, 0);
    Some((Cow::Owned(bytes), missing))
}
