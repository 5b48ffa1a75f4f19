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
const ID: u64 = (1 << 62) - 1;

/// States of a descriptor.
const RESERVED: u64 = 0;
const COMMITTED: u64 = 1;
const FINALIZED: u64 = 2;

/// A position with this bit has no text: 1 for one that found no room, 3 for an empty one.
const NO_TEXT: u64 = 1;
const NO_ROOM: u64 = 1;

/// Number of bytes of the ID before a text.
const BLOCK_HEAD: u64 = 8;

/// Maximum numbers of descriptors and of text bytes, as powers of 2. Linux has at most 2 GiB of text,
/// and one descriptor for each 32 bytes of it.
const MOST_DESCRIPTORS: u32 = 26;
const MOST_TEXT: u32 = 31;

/// A ring's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    structures: Structures,
    count_bits: u32,
    descs: u64,
    infos: u64,
    head_id: u64,
    tail_id: u64,
    size_bits: u32,
    data: u64,
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
        let bytes = space.read(at, structures.ring)?;
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

    /// Returns whether an ID may have this sequence number. The first record's ID is minus the count,
    /// as a word of 32 or 62 bits.
    const fn has_sequence(&self, id: u64, sequence: u64) -> bool {
        let distance = id.wrapping_add(self.count()).wrapping_sub(sequence) & ID;
        distance == 0 || distance == 1 << 32
    }

    /// Reads the record of an ID; 0 is the oldest in use.
    pub fn message(&self, space: &AddressSpace<'_>, nth: u64) -> Result<KernelMessage, NoMessage> {
        let id = self.tail_id.wrapping_add(nth) & ID;
        if self.has_sequence(id.wrapping_add(1), 0) {
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
        let len = word(&record, self.structures.text_len) as u16;
        let sequence = word(&record, self.structures.seq);
        if !self.has_sequence(id, sequence) {
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
            false => self.text(space, id, (begin, next), len),
        };
        let state = match (is_reserved, &text) {
            (true, _) if len == 0 => MessageState::Unfinished,
            (_, Err(lost)) => MessageState::Lost(*lost),
            (true, Ok(_)) => MessageState::Reopened,
            (false, Ok(_)) => MessageState::Complete,
        };
        Ok(KernelMessage {
            sequence,
            time_ns: word(&record, self.structures.time),
            facility,
            // The flags have 5 bits.
            level: flags >> 5,
            caller: Caller::from_word(word(&record, self.structures.caller) as u32),
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
    ) -> Result<Vec<u8>, LostText> {
        if begin & next & NO_TEXT != 0 {
            return match begin {
                NO_ROOM => Err(LostText::NoRoom),
                _ => Ok(Vec::new()),
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
        let text = at.checked_add(BLOCK_HEAD).ok_or(LostText::Inconsistent)?;
        space.read(text, len.into()).ok_or(LostText::Missing)
    }
}
