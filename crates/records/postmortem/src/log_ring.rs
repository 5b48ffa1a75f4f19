//! Decoder for nostall-console's log rings in the memory of a crashed machine, possibly damaged.

use std::ops::Range;
use std::{array, fmt, iter};

use nostall_console::Record;
use nostall_console::layout::{
    CONSTANT_BYTES, HEADER_BYTES, ORDER_AT, ORDER_MARK, SIGNATURE, SINKS, SLOT_BYTES, SLOTS_AT,
    STATE_WORDS, VERSION,
};

use crate::discovery::Discovery;
use crate::memory::Partial;
use crate::memory::container::{self, Container};
use crate::scan::{Finder, Signature};

/// Maximum number of slots of a ring: 14 GiB.
const LARGEST: u64 = 1 << 27;

/// The memory of a log ring.
#[derive(Clone, Copy, Debug)]
pub struct LogRing<'a> {
    head: &'a [u8],
    slots: &'a [u8],
    /// Missing ranges of the ring's bytes.
    missing: &'a [Range<usize>],
    word: Word,
}

/// Reason why bytes are not a log ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotARing {
    /// They do not start with the signature.
    Signature,
    /// They have another format version than this crate supports.
    Version(u8),
    /// The byte order or the sizes in the header are impossible.
    Sizes,
    /// They end before the ring does.
    Short {
        /// Size of the whole ring in bytes.
        whole: usize,
    },
}

impl fmt::Display for NotARing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signature => write!(f, "no log ring starts here"),
            Self::Version(version) => write!(
                f,
                "a log ring of version {version}; this program knows version {VERSION}"
            ),
            Self::Sizes => write!(f, "a log ring of impossible size"),
            Self::Short { whole } => {
                write!(f, "a log ring that is cut short: it has {whole} bytes")
            }
        }
    }
}

impl std::error::Error for NotARing {}

/// Contents of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "one is decoded at a time")]
pub enum LogEntry {
    /// A complete record.
    Record(Record),
    /// The sequence of a record that was incomplete when the machine crashed.
    Unfinished(u64),
}

impl LogEntry {
    /// Returns the record's sequence.
    pub const fn sequence(&self) -> u64 {
        match self {
            Self::Record(record) => record.sequence,
            Self::Unfinished(sequence) => *sequence,
        }
    }
}

/// Decodes the ring at the start of `bytes`, written on a machine of any word size and byte order.
/// Other data may follow it.
///
/// # Errors
///
/// [`NotARing`] if the bytes do not start with a ring.
pub fn decode(bytes: &[u8]) -> Result<LogRing<'_>, NotARing> {
    let (word, whole) = header(bytes)?;
    let ring = bytes.get(..whole).ok_or(NotARing::Short { whole })?;
    Ok(LogRing::new(ring, &[], word))
}

/// Decodes the header at the start of `bytes`. Returns the format of words, and the number of bytes
/// of the whole ring.
fn header(bytes: &[u8]) -> Result<(Word, usize), NotARing> {
    let head = bytes.get(..HEADER_BYTES).ok_or(NotARing::Signature)?;
    if !head.starts_with(&SIGNATURE) {
        return Err(NotARing::Signature);
    }
    let version = head[16];
    if version != VERSION {
        return Err(NotARing::Version(version));
    }
    let order = [Order::Little, Order::Big]
        .into_iter()
        .find(|order| order.number(head, ORDER_AT, 2) == u64::from(ORDER_MARK))
        .ok_or(NotARing::Sizes)?;
    let word = Word {
        bytes: head[17].into(),
        order,
    };
    let number = order.number(head, SLOTS_AT, 8);
    if !matches!(word.bytes, 4 | 8)
        || usize::from(head[18]) != SLOT_BYTES
        || !(2..=LARGEST).contains(&number)
    {
        return Err(NotARing::Sizes);
    }
    // The result is valid on 32-bit hosts too: an impossible length is detected.
    let slots = (number as usize).checked_mul(SLOT_BYTES);
    let whole = slots.and_then(|slots| slots.checked_add(HEADER_BYTES));
    Ok((word, whole.ok_or(NotARing::Sizes)?))
}

/// Finds log rings by the first half of their signature.
pub(crate) static FINDER: Finder = Finder {
    signatures: &[Signature::Line(*b"nostall ")],
    is_start: |memory, at| header_at(memory, at).is_some(),
    most: 1 << 18,
    on_request: false,
};

/// Returns the header at an address; `None` if there is none: a ring's signature also occurs
/// elsewhere.
fn header_at(memory: &dyn Container, at: u64) -> Option<(Word, usize)> {
    header(&container::read(memory, at, HEADER_BYTES, HEADER_BYTES)?).ok()
}

/// Maximum number of log rings: memory may be filled with them on purpose.
pub const MOST: usize = 4_096;

/// A log ring in the memory of a machine.
#[derive(Clone, Debug)]
pub struct FoundRing<'a> {
    /// Physical address.
    pub address: u64,
    /// The whole ring. The dump may lack a part of it, but not of its header.
    pub bytes: Partial<'a>,
    word: Word,
}

impl FoundRing<'_> {
    /// Returns the ring. Records with missing bytes are missing.
    pub fn ring(&self) -> LogRing<'_> {
        LogRing::new(self.bytes.with_gaps(), self.bytes.missing(), self.word)
    }
}

impl<'a> Discovery<'a> {
    /// Returns the log rings of nostall-console outside `besides`, by address: at most [`MOST`].
    ///
    /// A ring inside another ring is skipped, because it may be logged text. Each byte is thus read
    /// once.
    pub fn log_rings(&self, besides: &[Range<u64>]) -> Vec<FoundRing<'a>> {
        let memory = self.memory;
        let mut rings = Vec::new();
        let mut next = 0;
        for address in self.addresses(&FINDER, besides) {
            if address < next || rings.len() == MOST {
                continue;
            }
            if let Some((word, whole)) = header_at(memory.container(), address)
                && let Some(bytes) = self.read_partly(address, whole)
            {
                let there = bytes.missing().first().map_or(whole, |gap| gap.start);
                next = address.saturating_add(there as u64);
                rings.push(FoundRing {
                    address,
                    bytes,
                    word,
                });
            }
        }
        rings
    }
}

/// Returns the offsets in `memory` at which rings may start: multiples of 64 with the signature.
/// Offsets inside a complete ring are skipped, because they may be logged text. `memory` must start
/// at an address that is a multiple of 64.
pub fn find(memory: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let mut next = 0;
    iter::from_fn(move || {
        let rest = memory.get(next..)?;
        let found = rest
            .chunks(CONSTANT_BYTES)
            .position(|bytes| bytes.starts_with(&SIGNATURE))?
            * CONSTANT_BYTES;
        let at = next + found;
        let size = decode(&rest[found..]).map_or(CONSTANT_BYTES, |image| image.size());
        next = at + size.next_multiple_of(CONSTANT_BYTES);
        Some(at)
    })
}

impl<'a> LogRing<'a> {
    /// Creates a ring of all its bytes, of which some may be missing.
    fn new(bytes: &'a [u8], missing: &'a [Range<usize>], word: Word) -> Self {
        let (head, slots) = bytes.split_at(HEADER_BYTES);
        Self {
            head,
            slots,
            missing,
            word,
        }
    }

    /// Returns the size of the ring in bytes.
    pub fn size(&self) -> usize {
        self.head.len() + self.slots.len()
    }

    /// Returns the capacity of the ring in records.
    pub fn slots(&self) -> usize {
        self.slots.len() / SLOT_BYTES
    }

    /// Returns the sequence of the newest record that was begun; 0 if there is none.
    pub fn newest(&self) -> u64 {
        self.word.read(self.head, CONSTANT_BYTES)
    }

    /// Returns the number of text bytes that were truncated or had no room, since boot.
    pub fn cut(&self) -> u64 {
        self.word
            .read(self.head, CONSTANT_BYTES + 3 * self.word.bytes)
    }

    /// Returns, for each sink with a [progress slot](nostall_console::SinkOptions::progress_slot),
    /// the first sequence that it had not sent completely. This record and later ones were unsent,
    /// except urgent ones; [`since`](Self::since) returns their number. 0 means that there is no
    /// such sink, or that it has sent nothing.
    pub fn sent(&self) -> [u64; SINKS] {
        let start = CONSTANT_BYTES + 4 * self.word.bytes;
        array::from_fn(|at| self.word.read(self.head, start + at * self.word.bytes))
    }

    /// Returns the records from the oldest, at most as many as there are slots.
    ///
    /// In a damaged ring, it returns the valid records in their slots.
    pub fn records(&self) -> impl Iterator<Item = LogEntry> + use<'a> {
        let image = *self;
        let sequences = self.sequences();
        sequences.filter_map(move |sequence| image.record(sequence))
    }

    /// Returns the number of missing records: damaged ones, and those whose producer crashed
    /// before it had taken the slot. After sequences wrapped, older ones are not counted.
    pub fn missing(&self) -> usize {
        let newest = self.newest();
        self.sequences()
            .filter(|&sequence| sequence <= newest)
            .filter(|&sequence| self.record(sequence).is_none() && !self.is_hole(sequence))
            .count()
    }

    /// Returns the number of records from this one to the newest, inclusive; 0 if it is later than
    /// the newest. On machines of less than 64 bits, sequences wrap from the greatest to 1, and the
    /// number accounts for one wrap.
    pub fn since(&self, sequence: u64) -> u64 {
        let newest = self.newest();
        let since = newest.wrapping_add(1).wrapping_sub(sequence);
        let since = self.word.cut(since);
        if since > self.word.cut(u64::MAX) / 2 {
            0
        } else if sequence > newest {
            // Sequence 0 is never used.
            since.saturating_sub(1)
        } else {
            since
        }
    }

    /// Returns the sequences of the slots, from the oldest. Before the first wrap, sequences before
    /// the first record do not exist.
    fn sequences(&self) -> impl Iterator<Item = u64> + use<'a> {
        let image = *self;
        let newest = self.newest();
        let back = (0..self.slots() as u64).rev();
        back.map(move |back| image.word.cut(newest.wrapping_sub(back)))
            .filter(|&sequence| sequence != 0)
    }

    /// Returns whether this record is missing because its slot was still in use.
    fn is_hole(&self, sequence: u64) -> bool {
        let Word { bytes, .. } = self.word;
        let first = CONSTANT_BYTES + (4 + SINKS) * bytes;
        let holes = (HEADER_BYTES - first) / bytes;
        let at = (sequence % holes as u64) as usize;
        self.word.read(self.head, first + at * bytes) == sequence
    }

    fn record(&self, sequence: u64) -> Option<LogEntry> {
        let Word { bytes, .. } = self.word;
        let start = (sequence % self.slots() as u64) as usize * SLOT_BYTES;
        let place = HEADER_BYTES + start..HEADER_BYTES + start + SLOT_BYTES;
        let next = self.missing.partition_point(|gap| gap.end <= place.start);
        if self
            .missing
            .get(next)
            .is_some_and(|gap| gap.start < place.end)
        {
            return None;
        }
        let slot = self.slots.get(start..)?.get(..SLOT_BYTES)?;
        let state = self.word.read(slot, 0);
        let wanted = self.word.cut(sequence << 1);
        if state == wanted | 1 {
            return Some(LogEntry::Unfinished(sequence));
        }
        if state != wanted {
            return None;
        }
        let (_, body) = slot.split_at_checked(STATE_WORDS * bytes)?;
        let (time, rest) = body.split_first_chunk::<8>()?;
        let (meta, payload) = rest.split_first_chunk()?;
        let time = self.word.order.number(time, 0, 8);
        Some(LogEntry::Record(Record::decode(
            sequence, time, meta, payload,
        )))
    }
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Little,
    Big,
}

impl Order {
    /// Returns the number of `len` bytes at `at`; 0 outside.
    fn number(self, bytes: &[u8], at: usize, len: usize) -> u64 {
        let number = bytes.get(at..).and_then(|rest| rest.get(..len));
        let fold = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        match self {
            Self::Little => number.unwrap_or_default().iter().rev().fold(0, fold),
            Self::Big => number.unwrap_or_default().iter().fold(0, fold),
        }
    }
}

/// Word format of the machine that wrote the ring.
#[derive(Clone, Copy, Debug)]
struct Word {
    /// Size of a word in bytes: 4 or 8.
    bytes: usize,
    order: Order,
}

impl Word {
    /// Returns the word at `at`; 0 outside.
    fn read(self, bytes: &[u8], at: usize) -> u64 {
        self.order.number(bytes, at, self.bytes)
    }

    /// Truncates a number to a word.
    fn cut(self, number: u64) -> u64 {
        if self.bytes == 4 {
            number & u64::from(u32::MAX)
        } else {
            number
        }
    }
}
