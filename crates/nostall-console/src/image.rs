//! A ring read from a dead machine's memory: plain bytes, which may be damaged.

use core::{array, iter};

use crate::Record;
use crate::layout::{
    CONSTANT_BYTES, HEADER_BYTES, ORDER_MARK, SIGNATURE, SINKS, SLOT_BYTES, STATE_WORDS, VERSION,
};

/// Slots of the largest ring that is believed: 16 GiB.
const LARGEST: u32 = 27;

/// A ring's memory.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
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
    /// The sizes that they tell are impossible.
    Sizes,
    /// They end before the ring does, which is so long.
    Short {
        /// Bytes of the whole ring.
        whole: usize,
    },
}

impl core::fmt::Display for NotARing {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
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

impl core::error::Error for NotARing {}

/// What is at a record's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // There is nowhere else to put it.
pub enum Found {
    /// The record.
    Record(Record),
    /// Its sequence; it was begun, and not completed when the machine died.
    Unfinished(u64),
}

/// Reads the ring that `bytes` start with, whatever machine it is of. More may follow it.
///
/// # Errors
///
/// [`NotARing`].
pub fn decode(bytes: &[u8]) -> Result<Image<'_>, NotARing> {
    let whole = bytes;
    let (head, slots) = bytes
        .split_at_checked(HEADER_BYTES)
        .ok_or(NotARing::Signature)?;
    if !head.starts_with(&SIGNATURE) {
        return Err(NotARing::Signature);
    }
    let &[version, bytes, slots_log2, slot_log2, ref order @ ..] = &head[16..22] else {
        return Err(NotARing::Signature);
    };
    if version != VERSION {
        return Err(NotARing::Version(version));
    }
    let order = if *order == ORDER_MARK.to_le_bytes() {
        Order::Little
    } else if *order == ORDER_MARK.to_be_bytes() {
        Order::Big
    } else {
        return Err(NotARing::Sizes);
    };
    let sizes_fit = matches!(bytes, 4 | 8)
        && u32::from(slot_log2) == SLOT_BYTES.trailing_zeros()
        && (1..=LARGEST).contains(&u32::from(slots_log2));
    if !sizes_fit {
        return Err(NotARing::Sizes);
    }
    // Even a machine of 32 bits can tell how long it is, or that it cannot be.
    let len = SLOT_BYTES
        .checked_shl(slots_log2.into())
        .filter(|len| len >> slots_log2 == SLOT_BYTES && len.checked_add(HEADER_BYTES).is_some())
        .ok_or(NotARing::Sizes)?;
    let slots = slots.get(..len).ok_or(NotARing::Short {
        whole: len + HEADER_BYTES,
    })?;
    Ok(Image {
        head: &whole[..HEADER_BYTES],
        slots,
        word: Word {
            bytes: bytes.into(),
            order,
        },
    })
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
        next = at + decode(&rest[found..]).map_or(CONSTANT_BYTES, |image| image.size());
        Some(at)
    })
}

impl<'a> Image<'a> {
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

    /// The sequence that each sink with a [place](crate::Options::place) had not sent to
    /// its end: this record and those after it are what was still to come, but for
    /// urgent ones. 0: there is no such sink, or it has sent nothing.
    pub fn sent(&self) -> [u64; SINKS] {
        let start = CONSTANT_BYTES + 4 * self.word.bytes;
        array::from_fn(|at| self.word.read(self.head, start + at * self.word.bytes))
    }

    /// The records, from the oldest, as many as there are slots for at most.
    ///
    /// Of a damaged ring, those that are what and where they should be.
    pub fn records(&self) -> impl Iterator<Item = Found> + use<'a> {
        let image = *self;
        let newest = self.newest();
        let oldest = newest.saturating_sub(self.slots() as u64 - 1).max(1);
        (oldest..=newest).filter_map(move |sequence| image.record(sequence))
    }

    fn record(&self, sequence: u64) -> Option<Found> {
        let Word { bytes, .. } = self.word;
        let mask = self.slots() as u64 - 1;
        let start = (sequence & mask) as usize * SLOT_BYTES;
        let slot = self.slots.get(start..)?.get(..SLOT_BYTES)?;
        let state = self.word.read(slot, 0);
        let wanted = self.word.cut(sequence << 1);
        if state == wanted | 1 {
            return Some(Found::Unfinished(sequence));
        }
        if state != wanted {
            return None;
        }
        let (_, body) = slot.split_at_checked(STATE_WORDS * bytes)?;
        let (time, rest) = body.split_first_chunk()?;
        let (meta, payload) = rest.split_first_chunk()?;
        let time = self.word.order.of_u64(*time);
        Some(Found::Record(Record::decode(sequence, time, meta, payload)))
    }
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn of_u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
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
        let word = bytes.get(at..).and_then(|rest| rest.get(..self.bytes));
        let mut wide = [0; 8];
        match (self.order, word) {
            (_, None) => {}
            (Order::Little, Some(word)) => wide[..self.bytes].copy_from_slice(word),
            (Order::Big, Some(word)) => wide[8 - self.bytes..].copy_from_slice(word),
        }
        self.order.of_u64(wide)
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
