//! A record, and its encoding in a slot.

use core::fmt;

use nostall_io::Nanos;

use crate::layout::{BODY_WORDS, LONGEST_PAYLOAD, LONGEST_TARGET, META_BYTES, PAYLOAD, WORD};
use crate::sync::{AtomicUsize, Ordering};
use crate::{Level, Priority};

/// Message metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta<'a> {
    /// Time of logging, or [`Nanos::UNKNOWN`].
    pub time: Nanos,
    /// Number of the CPU that logs.
    pub cpu: u16,
    /// Severity.
    pub level: Level,
    /// Urgency.
    pub priority: Priority,
    /// Part of the program that logs. The first 32 bytes are kept.
    pub target: &'a str,
}

/// A record as read from the ring: one line of a text, or the part that fits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Number of the record in the ring, from 1. Wraps with the machine's word.
    pub sequence: u64,
    /// Time of logging; not [known](Nanos::is_known) before the clock has a rate.
    pub time: Nanos,
    /// Number of the CPU that logged it.
    pub cpu: u16,
    /// Severity.
    pub level: Level,
    /// Urgency.
    pub priority: Priority,
    /// The line continues in a later record of this CPU.
    pub continues: bool,
    /// The record continues a line that began in an earlier record.
    pub continued: bool,
    /// The previous part of the line is in the record with the preceding sequence.
    pub adjoins: bool,
    /// The rest of the text was cut off: it was too long, or found no free slot.
    pub cut: bool,
    /// The text is a program's output ([`Ring::log_raw`](crate::Ring::log_raw)), including line
    /// feeds. A drain sends it unchanged. `continues` is set if it does not end with a line feed.
    pub raw: bool,
    target: u8,
    text: u8,
    payload: [u8; LONGEST_PAYLOAD],
}

impl Record {
    /// Memory for a record.
    pub(crate) const EMPTY: Self = Self {
        sequence: 0,
        time: Nanos::ZERO,
        cpu: 0,
        level: Level::Emergency,
        priority: Priority::Normal,
        continues: false,
        continued: false,
        adjoins: false,
        cut: false,
        raw: false,
        target: 0,
        text: 0,
        payload: [0; LONGEST_PAYLOAD],
    };

    /// Returns the text. Only raw text has line feeds. The bytes may be invalid UTF-8.
    pub fn text(&self) -> &[u8] {
        let target = usize::from(self.target);
        &self.payload[target..target + usize::from(self.text)]
    }

    /// Returns the part of the program that logged. Empty if the record continues a line.
    pub fn target(&self) -> &[u8] {
        &self.payload[..self.target.into()]
    }

    /// Decodes a record from a slot's memory. Any bytes are accepted; lengths are limited to
    /// `payload`.
    ///
    /// `time` is in nanoseconds, `meta` the eight bytes after it, and `payload` the rest of the
    /// slot ([`layout`]).
    ///
    /// [`layout`]: crate::layout
    pub fn decode(sequence: u64, time: u64, meta: &[u8; 8], payload: &[u8]) -> Self {
        let room = payload.len().min(LONGEST_PAYLOAD);
        let mut record = Self::EMPTY;
        record.payload[..room].copy_from_slice(&payload[..room]);
        record.set(sequence, time, *meta, room);
        record.clear_rest();
        record
    }

    /// Clears the bytes behind the text, which may be of an older record.
    pub(crate) fn clear_rest(&mut self) {
        let used = usize::from(self.target) + usize::from(self.text);
        self.payload[used..].fill(0);
    }

    /// Loads record `sequence` from a slot's words, which a producer may change meanwhile.
    #[inline(always)]
    pub(crate) fn load(&mut self, sequence: usize, body: &[AtomicUsize; BODY_WORDS]) {
        let (head, payload) = body.split_at(META_BYTES / WORD);
        let mut bytes = [0; META_BYTES];
        load_words(&mut bytes, head);
        load_words(&mut self.payload, payload);
        let (time, meta) = bytes.split_at(8);
        let time = u64::from_ne_bytes(*time.first_chunk().unwrap_or(&[0; 8]));
        let meta = *meta.first_chunk().unwrap_or(&[0; 8]);
        self.set(sequence as u64, time, meta, PAYLOAD);
    }

    /// Sets everything but the payload, of which `room` bytes are set.
    #[inline(always)]
    fn set(&mut self, sequence: u64, time: u64, meta: [u8; 8], room: usize) {
        let [level, flags, target, text, cpu @ .., _, _] = meta;
        let target = usize::from(target).min(room);
        self.sequence = sequence;
        self.time = Nanos(time);
        self.cpu = u16::from_le_bytes(cpu);
        self.level = Level::from_number(level);
        self.priority = Priority::from_number(flags);
        self.continues = flags & CONTINUES != 0;
        self.continued = flags & CONTINUED != 0;
        self.adjoins = flags & ADJOINS != 0;
        self.cut = flags & CUT != 0;
        self.raw = flags & RAW != 0;
        self.target = target as u8;
        self.text = usize::from(text).min(room - target) as u8;
    }
}

fn load_words(bytes: &mut [u8], words: &[AtomicUsize]) {
    for (bytes, word) in bytes.as_chunks_mut::<WORD>().0.iter_mut().zip(words) {
        *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("sequence", &self.sequence)
            .field("time", &self.time)
            .field("cpu", &self.cpu)
            .field("level", &self.level)
            .field("priority", &self.priority)
            .field("continues", &self.continues)
            .field("continued", &self.continued)
            .field("adjoins", &self.adjoins)
            .field("cut", &self.cut)
            .field("raw", &self.raw)
            .field("target", &self.target().escape_ascii())
            .field("text", &self.text().escape_ascii())
            .finish()
    }
}

const CONTINUES: u8 = 1 << 2;
const CONTINUED: u8 = 1 << 3;
const CUT: u8 = 1 << 4;
const ADJOINS: u8 = 1 << 5;
const RAW: u8 = 1 << 6;

/// Relation of a record to its neighbours.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    pub(crate) continues: bool,
    pub(crate) continued: bool,
    pub(crate) adjoins: bool,
    pub(crate) cut: bool,
    pub(crate) raw: bool,
}

/// A record in the encoding of a slot.
pub(crate) struct Encoded<'a> {
    meta: [u8; META_BYTES],
    target: &'a [u8],
    text: &'a [u8],
}

impl<'a> Encoded<'a> {
    /// Encodes a record. Truncates target and text to fit.
    #[inline(always)]
    pub(crate) fn new(meta: &Meta<'_>, flags: Flags, target: &'a [u8], text: &'a [u8]) -> Self {
        let target = &target[..target.len().min(LONGEST_TARGET)];
        let text = &text[..text.len().min(PAYLOAD - target.len())];
        let mut bits = meta.priority as u8;
        if flags.continues {
            bits |= CONTINUES;
        }
        if flags.continued {
            bits |= CONTINUED;
        }
        if flags.adjoins {
            bits |= ADJOINS;
        }
        if flags.cut {
            bits |= CUT;
        }
        if flags.raw {
            bits |= RAW;
        }
        let [low, high] = meta.cpu.to_le_bytes();
        let mut bytes = [0; META_BYTES];
        bytes[..8].copy_from_slice(&meta.time.0.to_ne_bytes());
        bytes[8..].copy_from_slice(&[
            meta.level as u8,
            bits,
            target.len() as u8,
            text.len() as u8,
            low,
            high,
            0,
            0,
        ]);
        Self {
            meta: bytes,
            target,
            text,
        }
    }

    /// Stores the record's words in `body`. Pads the last word with zero bytes.
    ///
    /// Reads the words from the caller's text, without a copy on the stack.
    #[inline(always)]
    pub(crate) fn store(&self, body: &[AtomicUsize; BODY_WORDS]) {
        let (meta, payload) = body.split_at(META_BYTES / WORD);
        for (place, bytes) in meta.iter().zip(self.meta.as_chunks().0) {
            place.store(usize::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        let (start, payload) = payload
            .split_at_checked(self.target.len() / WORD)
            .unwrap_or_default();
        let (whole, rest) = self.target.as_chunks();
        for (place, bytes) in start.iter().zip(whole) {
            place.store(usize::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if rest.is_empty() {
            let (whole, rest) = self.text.as_chunks();
            store_words(payload, whole);
            if let Some(place) = payload.get(whole.len())
                && !rest.is_empty()
            {
                let bytes = last_bytes(self.text, rest.len());
                place.store(bytes.to_le(), Ordering::Relaxed);
            }
            return;
        }
        // Each stored word combines the last bytes of one chunk with the first bytes of the next.
        let filled = 8 * rest.len() as u32;
        let mut partial = last_bytes(self.target, rest.len());
        let (whole, rest) = self.text.as_chunks();
        let mut places = payload.iter();
        for (bytes, place) in whole.iter().zip(places.by_ref()) {
            let bytes = usize::from_le_bytes(*bytes);
            place.store((partial | bytes << filled).to_le(), Ordering::Relaxed);
            partial = bytes >> (usize::BITS - filled);
        }
        let bytes = last_bytes(self.text, rest.len());
        let last = [partial | bytes << filled, bytes >> (usize::BITS - filled)];
        let left = (filled as usize / 8 + rest.len()).div_ceil(WORD);
        for (place, word) in places.zip(last).take(left) {
            place.store(word.to_le(), Ordering::Relaxed);
        }
    }
}

/// Stores whole words, in blocks of four, two and one. A loop over single words
/// takes longer.
#[inline(always)]
fn store_words(places: &[AtomicUsize], words: &[[u8; WORD]]) {
    let mut left = (places, words);
    while let Some(rest) = store_block::<4>(left) {
        left = rest;
    }
    left = store_block::<2>(left).unwrap_or(left);
    store_block::<1>(left);
}

/// Places, and the words for them.
type Words<'a> = (&'a [AtomicUsize], &'a [[u8; WORD]]);

/// Stores the first `N` words, and returns the rest. Returns `None` if there are fewer.
#[inline(always)]
fn store_block<const N: usize>((places, words): Words<'_>) -> Option<Words<'_>> {
    let (block, places) = places.split_first_chunk::<N>()?;
    let (whole, words) = words.split_first_chunk::<N>()?;
    for (place, bytes) in block.iter().zip(whole) {
        place.store(usize::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
    Some((places, words))
}

/// Returns the last `count` bytes, fewer than a word, in the low bytes of a word.
#[inline]
fn last_bytes(bytes: &[u8], count: usize) -> usize {
    match bytes.last_chunk() {
        Some(last) if count > 0 => usize::from_le_bytes(*last) >> (8 * (WORD - count)),
        Some(_) => 0,
        None => bytes
            .iter()
            .rev()
            .fold(0, |word, &byte| word << 8 | usize::from(byte)),
    }
}
