//! printk's ring of Linux 5.10 and later: descriptors, their records' data, and a ring of texts.
//!
//! A descriptor has the state and the ID of its record, and the place of the text: two positions
//! that count all bytes ever written. The text's block begins with the same ID. IDs follow one
//! another, and so do the records' sequence numbers. Source: the comments of Linux's
//! `kernel/printk/printk_ringbuffer.c`.

use super::message::{Caller, KernelMessage, LostText, MessageState};
use super::structures::Structures;
use crate::address_space::AddressSpace;

/// Bits of a descriptor's word that are the ID; the two above are the state.
pub(super) const ID: u64 = (1 << 62) - 1;

/// States of a descriptor.
const RESERVED: u64 = 0;
const COMMITTED: u64 = 1;
const FINALIZED: u64 = 2;

/// Positions with this bit have no text.
const NO_TEXT: u64 = 1;

/// Positions of a text that found no room, and of an empty one.
const NO_ROOM: u64 = 1;
const EMPTY: u64 = 3;

/// Number of bytes of the ID before a text.
const BLOCK_HEAD: u64 = 8;

/// Maximum numbers of descriptors and of text bytes, as powers of 2. Linux has at most 2 GiB of text,
/// and one descriptor for each 32 bytes of it.
const MOST_DESCRIPTORS: u32 = 26;
const MOST_TEXT: u32 = 31;

/// A ring's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    pub structures: Structures,
    count_bits: u32,
    pub descs: u64,
    pub infos: u64,
    head_id: u64,
    pub tail_id: u64,
    size_bits: u32,
    pub data: u64,
}

/// A descriptor's contents that cannot be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoMessage {
    /// It has no record yet.
    Unused,
    /// The dump lacks it.
    Missing,
    /// It belongs to another record.
    Foreign,
}

impl Ring {
    /// Reads the header at a virtual address; `None` if the dump lacks it or it is impossible.
    pub fn open(space: &AddressSpace<'_>, structures: Structures, at: u64) -> Option<Self> {
        Self::parse(&space.read(at, structures.ring)?, structures)
    }

    /// Parses a header; `None` if it is impossible.
    pub fn parse(bytes: &[u8], structures: Structures) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let bits = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let ring = Self {
            structures,
            count_bits: bits(structures.count_bits)?,
            descs: word(structures.descs)?,
            infos: word(structures.infos)?,
            head_id: word(structures.head_id)? & ID,
            tail_id: word(structures.tail_id)? & ID,
            size_bits: bits(structures.size_bits)?,
            data: word(structures.data)?,
        };
        let is_possible = (1..=MOST_DESCRIPTORS).contains(&ring.count_bits)
            && (3..=MOST_TEXT).contains(&ring.size_bits)
            && ring.ids() <= ring.count();
        is_possible.then_some(ring)
    }

    /// Returns the number of descriptors.
    pub const fn count(&self) -> u64 {
        1 << self.count_bits
    }

    /// Returns the number of bytes of the ring of texts.
    pub const fn text_size(&self) -> u64 {
        1 << self.size_bits
    }

    /// Returns the number of IDs in use.
    pub const fn ids(&self) -> u64 {
        (self.head_id.wrapping_sub(self.tail_id) & ID) + 1
    }

    /// Returns the sequence number of an ID. The first record's ID is minus the count, as a word of
    /// 32 bits, or of 62 bits.
    pub const fn sequence(&self, id: u64) -> u64 {
        let first = (1 << 32) - self.count();
        let is_short = first - 1 <= self.tail_id && self.tail_id < 1 << 61;
        let first = if is_short {
            first
        } else {
            self.count().wrapping_neg()
        };
        id.wrapping_sub(first) & ID
    }

    /// Reads the record of an ID; 0 is the oldest in use. `room` is the number of bytes that no other
    /// record's text has.
    pub fn message(
        &self,
        space: &AddressSpace<'_>,
        nth: u64,
        room: &mut u64,
    ) -> Result<KernelMessage, NoMessage> {
        let id = self.tail_id.wrapping_add(nth) & ID;
        if self.sequence(id) == ID {
            // The first descriptor of all never had a record.
            return Err(NoMessage::Unused);
        }
        let index = id & (self.count() - 1);
        let Structures { desc, info, .. } = self.structures;
        let read = |array: u64, size: usize| {
            let at = array.checked_add(index.checked_mul(size as u64)?)?;
            space.read(at, size)
        };
        let descriptor = read(self.descs, desc).ok_or(NoMessage::Missing)?;
        let word = |bytes: &[u8], at: usize| {
            let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
            u64::from_le_bytes(*word.unwrap_or(&[0; 8]))
        };
        let state = word(&descriptor, self.structures.state);
        let begin = word(&descriptor, self.structures.begin);
        let next = word(&descriptor, self.structures.next);
        if state & ID == id.wrapping_sub(self.count()) & ID {
            // Linux takes the ID first.
            return Err(NoMessage::Unused);
        } else if state & ID != id {
            return Err(NoMessage::Foreign);
        }
        let is_reserved = match state >> 62 {
            RESERVED => true,
            COMMITTED | FINALIZED => false,
            _ => return Err(NoMessage::Unused),
        };
        let record = read(self.infos, info).ok_or(NoMessage::Missing)?;
        let half = |at: usize| {
            let half = record.get(at..).and_then(|bytes| bytes.first_chunk());
            u32::from_le_bytes(*half.unwrap_or(&[0; 4]))
        };
        let len = half(self.structures.text_len) as u16;
        let time_ns = word(&record, self.structures.time);
        let sequence = word(&record, self.structures.seq);
        if sequence != self.sequence(id) {
            // Linux clears an older record's data after the descriptor is reserved.
            return Err(match is_reserved {
                true => NoMessage::Unused,
                false => NoMessage::Foreign,
            });
        }
        let bits = record
            .get(self.structures.text_len + 2..)
            .unwrap_or_default();
        let (facility, flags) = match *bits {
            [facility, flags, ..] => (facility, flags),
            _ => return Err(NoMessage::Missing),
        };
        let name = |(at, len): (usize, usize)| {
            let bytes = record.get(at..).and_then(|bytes| bytes.get(..len));
            let bytes = bytes.unwrap_or_default();
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(len);
            (end > 0).then(|| String::from_utf8_lossy(&bytes[..end]).into_owned())
        };
        let text = match is_reserved && len == 0 {
            true => Ok(Vec::new()),
            false => self.text(space, id, (begin, next), len, room),
        };
        let state = match (is_reserved, &text) {
            // Linux sets the time behind the text.
            (true, _) if len == 0 || time_ns == 0 => MessageState::Unfinished,
            (_, Err(lost)) => MessageState::Lost(*lost),
            (true, Ok(_)) => MessageState::Reopened,
            (false, Ok(_)) => MessageState::Complete,
        };
        Ok(KernelMessage {
            sequence,
            time_ns,
            facility,
            // The flags have 5 bits.
            level: flags >> 5,
            caller: Caller::from_word(half(self.structures.caller)),
            subsystem: name(self.structures.subsystem),
            device: name(self.structures.device),
            text: text.unwrap_or_default(),
            state,
        })
    }

    /// Reads the text of a record between two positions.
    fn text(
        &self,
        space: &AddressSpace<'_>,
        id: u64,
        (begin, next): (u64, u64),
        len: u16,
        left: &mut u64,
    ) -> Result<Vec<u8>, LostText> {
        if begin & next & NO_TEXT != 0 {
            return match (begin, next, len) {
                (NO_ROOM, NO_ROOM, _) => Err(LostText::NoRoom),
                (EMPTY, EMPTY, 0) => Ok(Vec::new()),
                _ => Err(LostText::Inconsistent),
            };
        }
        let size = self.text_size();
        let lap = |position: u64| position >> self.size_bits;
        let start = begin & (size - 1);
        // A block that does not fit before the ring's end is at its start.
        let (start, block) = if lap(begin) == lap(next) || next & (size - 1) == 0 {
            (start, next.wrapping_sub(begin))
        } else if lap(begin.wrapping_add(size)) == lap(next) {
            (0, next & (size - 1))
        } else {
            return Err(LostText::Inconsistent);
        };
        let room = block
            .checked_sub(BLOCK_HEAD)
            .ok_or(LostText::Inconsistent)?;
        if block > size - start || u64::from(len) > room {
            return Err(LostText::Inconsistent);
        }
        let at = self.data.checked_add(start).ok_or(LostText::Inconsistent)?;
        let head = space.word(at).ok_or(LostText::Missing)?;
        if head != id {
            return Err(LostText::Overwritten);
        }
        // Blocks do not overlap.
        *left = left.checked_sub(block).ok_or(LostText::Inconsistent)?;
        let text = at.checked_add(BLOCK_HEAD).ok_or(LostText::Inconsistent)?;
        space.read(text, len.into()).ok_or(LostText::Missing)
    }
}
