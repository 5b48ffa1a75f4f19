//! Log rings of nostall-console in the memory of a crashed machine. The bytes may be damaged.

use std::{array, fmt, iter};

use nostall_console::Record;
use nostall_console::layout::{
    CONSTANT_BYTES, HEADER_BYTES, ORDER_AT, ORDER_MARK, SIGNATURE, SINKS, SLOT_BYTES, SLOTS_AT,
    STATE_WORDS, VERSION,
};

/// Slots of the largest ring that is accepted: 14 GiB.
const LARGEST: u64 = 1 << 27;

/// A ring's memory.
#[derive(Clone, Copy, Debug)]
pub struct LogRing<'a> {
    head: &'a [u8],
    slots: &'a [u8],
    word: Word,
}

/// Why some bytes are not a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotARing {
    /// They do not start as one does.
    Signature,
    /// They are of a later version of this crate.
    Version(u8),
    /// The sizes in its header are impossible.
    Sizes,
    /// They end before the ring does, which is so long.
    Short {
        /// Bytes of the whole ring.
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

/// Contents of a record's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "one is decoded at a time")]
pub enum LogEntry {
    /// The record.
    Record(Record),
    /// Its sequence; it was begun, and not completed when the machine crashed.
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

/// Reads the ring that `bytes` start with, from a machine of any kind. More may follow it.
///
/// # Errors
///
/// [`NotARing`].
pub fn decode(bytes: &[u8]) -> Result<LogRing<'_>, NotARing> {
    let (head, slots) = bytes
        .split_at_checked(HEADER_BYTES)
        .ok_or(NotARing::Signature)?;
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
    // Even a machine of 32 bits can compute its length, or that it is impossible.
    let len = (number as usize)
        .checked_mul(SLOT_BYTES)
        .filter(|len| len.checked_add(HEADER_BYTES).is_some())
        .ok_or(NotARing::Sizes)?;
    let slots = slots.get(..len).ok_or(NotARing::Short {
        whole: len + HEADER_BYTES,
    })?;
    Ok(LogRing { head, slots, word })
}

/// Where rings may start in a machine's memory: at every 64th byte that has the
/// signature, but for those inside of a whole ring, which may be a text that was logged.
/// `memory` itself must start at such an address.
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
    /// Bytes of it.
    pub fn size(&self) -> usize {
        self.head.len() + self.slots.len()
    }

    /// Records it has room for.
    pub fn slots(&self) -> usize {
        self.slots.len() / SLOT_BYTES
    }

    /// The sequence of the newest record that was begun; 0 if there is none.
    pub fn newest(&self) -> u64 {
        self.word.read(self.head, CONSTANT_BYTES)
    }

    /// Bytes of text that were cut off, or found no room, in this machine's life.
    pub fn cut(&self) -> u64 {
        self.word
            .read(self.head, CONSTANT_BYTES + 3 * self.word.bytes)
    }

    /// The first sequence that each sink with a [progress
    /// slot](nostall_console::SinkOptions::progress_slot) had not sent completely. This record and those
    /// after it ([`since`](Self::since) returns their number) were still to come, except
    /// urgent ones. 0: there is no such sink, or it has sent nothing.
    pub fn sent(&self) -> [u64; SINKS] {
        let start = CONSTANT_BYTES + 4 * self.word.bytes;
        array::from_fn(|at| self.word.read(self.head, start + at * self.word.bytes))
    }

    /// The records, from the oldest, as many as there are slots for at most.
    ///
    /// Of a damaged ring, the sound records in their own places.
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

    /// How many records there are from this one to the newest, both included; 0 if it is after
    /// that. Sequences alone give it only for machines of 64 bits: others' wrap, from the greatest
    /// to 1.
    pub fn since(&self, sequence: u64) -> u64 {
        let newest = self.newest();
        let since = newest.wrapping_add(1).wrapping_sub(sequence);
        let since = self.word.cut(since);
        if since > self.word.cut(u64::MAX) / 2 {
            0
        } else if sequence > newest {
            // No record has 0.
            since.saturating_sub(1)
        } else {
            since
        }
    }

    /// Returns the sequences that the slots are for, from the oldest. Before the first wrap,
    /// those before the first record do not exist.
    fn sequences(&self) -> impl Iterator<Item = u64> + use<'a> {
        let image = *self;
        let newest = self.newest();
        let back = (0..self.slots() as u64).rev();
        back.map(move |back| image.word.cut(newest.wrapping_sub(back)))
            .filter(|&sequence| sequence != 0)
    }

    /// Its slot was occupied.
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
    /// The number of so many bytes at `at`; 0 outside.
    fn number(self, bytes: &[u8], at: usize, len: usize) -> u64 {
        let number = bytes.get(at..).and_then(|rest| rest.get(..len));
        let fold = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        match self {
            Self::Little => number.unwrap_or_default().iter().rev().fold(0, fold),
            Self::Big => number.unwrap_or_default().iter().fold(0, fold),
        }
    }
}

/// A word of the machine that the ring is of.
#[derive(Clone, Copy, Debug)]
struct Word {
    /// 4 or 8.
    bytes: usize,
    order: Order,
}

impl Word {
    /// The word at `at`; 0 outside.
    fn read(self, bytes: &[u8], at: usize) -> u64 {
        self.order.number(bytes, at, self.bytes)
    }

    /// As much of a number as a word holds.
    fn cut(self, number: u64) -> u64 {
        if self.bytes == 4 {
            number & u64::from(u32::MAX)
        } else {
            number
        }
    }
}
