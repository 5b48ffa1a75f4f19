//! Zone that is written: append with wrap, with current parity, data before header.

use core::fmt;

use crate::code::Code;
use crate::format::{
    BLOCK, ByteOrder, Division, HEADER, LinuxVersion, MAX_PARITY, ZoneHeader, ZoneKind,
};
use crate::layout::Place;
use crate::memory::Memory;
use crate::read::Reader;
use crate::read::header::{self, Framing, Loaded};

/// Offsets of the header's variable words in a zone.
const START: usize = 4;
const SIZE: usize = 8;

/// A zone of persistent memory, with its write position.
///
/// Appending stores the data first, then (with error correction) its parity, then the header, then
/// the header's parity. A cut at any moment leaves the zone as it was before. The exception is a
/// ring that has wrapped, whose oldest bytes may be partly overwritten.
///
/// ```
/// use nostall_pstore::{ZoneKind, LinuxVersion, Ram, Zone};
///
/// let mut memory = [0; 4096];
/// let (mut zone, _) = Zone::attach(Ram::of(&mut memory), ZoneKind::Console, LinuxVersion(0), None)?;
/// zone.append(b"nothing is lost\n");
///
/// // After the crash:
/// let (zone, found) = Zone::attach(Ram::of(&mut memory), ZoneKind::Console, LinuxVersion(0), None)?;
/// assert_eq!(found, nostall_pstore::PreviousContents::Old { bytes: 16 });
/// # Ok::<(), nostall_pstore::NoRoom>(())
/// ```
#[derive(Debug)]
pub struct Zone<'c, M> {
    memory: M,
    division: Division,
    /// Number of data bytes.
    data: usize,
    /// End of the range in which a record only needs to be stored: the ring's end, or 0 with error
    /// correction.
    easy: usize,
    signature: u32,
    start: usize,
    size: usize,
    parity: Option<Parity<'c>>,
}

/// Contents of a zone when it was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PreviousContents {
    /// Contents of an earlier kernel. They stay until they are overwritten or
    /// [erased](Zone::erase).
    Old {
        /// Number of bytes.
        bytes: usize,
    },
    /// An empty zone.
    Empty,
    /// No zone of this kind, or a damaged one. It is initialized.
    Nothing {
        /// Header that was found.
        header: ZoneHeader,
    },
}

impl<'c, M: Memory> Zone<'c, M> {
    /// Attaches a zone to all of `memory`, with error correction if `code` is given. Keeps its
    /// contents if possible: recover them before the first append.
    ///
    /// Old contents that failed error correction stay unverified until they are overwritten, and so
    /// does new data in the same block. If the header is uncertain, this applies to all contents.
    ///
    /// `linux` is the version of the kernel that will read the zone. It matters only for trace
    /// zones.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the memory is too small for a header, one byte of data and their parity.
    pub fn attach(
        memory: M,
        kind: ZoneKind,
        linux: LinuxVersion,
        code: Option<&'c Code>,
    ) -> Result<(Self, PreviousContents), NoRoom> {
        let parity = code.map_or(0, Code::parity);
        let division = Division::new(memory.len(), parity).ok_or(NoRoom)?;
        let place = Place {
            kind,
            index: 0,
            offset: 0,
            division,
        };
        let Loaded {
            header, framing, ..
        } = header::load(&memory, &place, &Reader::careful(code));
        let mut zone = Self {
            memory,
            division,
            data: division.data(),
            easy: if code.is_none() { division.data() } else { 0 },
            signature: kind.signature(linux),
            start: 0,
            size: 0,
            parity: code.map(Parity::new),
        };
        let ours = header.signature == zone.signature && header.is_valid(division.data());
        if ours {
            zone.size = header.size as usize;
            // In a ring that has not wrapped, the start equals the size. If the header differs, a
            // cut was between its two words.
            let full = zone.size == division.data();
            zone.start = if full {
                header.start as usize % zone.size
            } else {
                zone.size
            };
        }
        if framing == Framing::Doubtful {
            zone.spoil_contents();
        }
        zone.store_intended_header(ours);
        let found = match zone.size {
            _ if !ours => PreviousContents::Nothing { header },
            0 => PreviousContents::Empty,
            bytes => PreviousContents::Old { bytes },
        };
        Ok((zone, found))
    }

    /// Makes the parity of all contents wrong, because the header does not prove that they were
    /// written. The header itself will agree with its parity again.
    fn spoil_contents(&self) {
        let Some(Parity { code, .. }) = &self.parity else {
            return;
        };
        for block in 0..self.size.div_ceil(BLOCK) {
            let (mut data, mut right) = ([0; BLOCK], [0; MAX_PARITY]);
            let data = &mut data[..self.division.block_len(block)];
            self.memory.load(HEADER + block * BLOCK, data);
            code.encode(data, &mut right);
            let right = &right[..code.parity()];
            store_parity(&self.memory, self.division, block, right, true);
        }
    }

    /// Stores the intended header if it differs. `ours` means that the stored one is a valid header
    /// of this zone, or nearly so.
    fn store_intended_header(&mut self, ours: bool) {
        let mut bytes = [0; HEADER];
        self.memory.load(0, &mut bytes);
        let stored = ZoneHeader::decode(bytes, ByteOrder::NATIVE);
        if !ours {
            // Stored before the signature, so that no other contents become valid.
            self.store_header(0, 0);
        } else if (stored.start, stored.size) != (self.start as u32, self.size as u32) {
            self.store_header(self.start, self.size);
        }
        if stored.signature != self.signature {
            self.memory.store(0, &self.signature.to_ne_bytes());
            self.memory.persist(0, START);
        }
        self.store_header_parity();
    }

    /// Appends `bytes`, or the last of them that the zone can hold. They become visible to a reader
    /// all at once.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) {
        let end = self.start + bytes.len();
        if end < self.easy {
            self.memory.store(HEADER + self.start, bytes);
            self.memory.persist(HEADER + self.start, bytes.len());
            self.advance(end, self.size.max(end));
        } else {
            self.append_in_pieces(bytes);
        }
    }

    /// Appends like [`append`](Self::append), with two or three words as arguments, because an
    /// array would be in memory.
    #[inline]
    pub(crate) fn append_words(&mut self, first: u64, second: u64, third: Option<u64>) {
        let len = if third.is_some() { 24 } else { 16 };
        let end = self.start + len;
        if end < self.easy {
            match third {
                Some(third) => self
                    .memory
                    .store_words(HEADER + self.start, &[first, second, third]),
                None => self
                    .memory
                    .store_words(HEADER + self.start, &[first, second]),
            }
            self.memory.persist(HEADER + self.start, len);
            self.advance(end, self.size.max(end));
        } else {
            self.append_words_in_pieces(first, second, third);
        }
    }

    #[inline(never)]
    fn append_words_in_pieces(&mut self, first: u64, second: u64, third: Option<u64>) {
        let words = [first, second, third.unwrap_or(0)].map(u64::to_ne_bytes);
        let words = if third.is_some() {
            &words[..]
        } else {
            &words[..2]
        };
        self.append_in_pieces(words.as_flattened());
    }

    /// Appends text. With error correction, it is appended block by block, so that at most one
    /// block is ahead of its parity. The text becomes visible in such pieces.
    pub fn append_text(&mut self, bytes: &[u8]) {
        if self.parity.is_none() {
            return self.append(bytes);
        }
        let mut left = last(bytes, self.data);
        while !left.is_empty() {
            let in_block = BLOCK - self.start % BLOCK;
            let room = in_block.min(self.data - self.start);
            let (now, later) = left.split_at(room.min(left.len()));
            self.append_in_pieces(now);
            left = later;
        }
    }

    /// Makes the zone empty.
    pub fn erase(&mut self) {
        self.store_header(0, 0);
        (self.start, self.size) = (0, 0);
        self.store_header_parity();
        if let Some(parity) = &mut self.parity {
            parity.block = None;
        }
    }

    /// Returns the zone's division.
    pub const fn division(&self) -> Division {
        self.division
    }

    /// Returns the number of bytes of contents.
    pub const fn len(&self) -> usize {
        self.size
    }

    /// Returns whether there are no contents.
    pub const fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Returns the offset of the next byte in the data.
    pub const fn start(&self) -> usize {
        self.start
    }

    /// Returns whether the zone has error correction.
    pub const fn has_parity(&self) -> bool {
        self.parity.is_some()
    }

    /// Returns the memory of the zone.
    pub const fn memory(&self) -> &M {
        &self.memory
    }

    #[inline(never)]
    fn append_in_pieces(&mut self, bytes: &[u8]) {
        let data = self.data;
        let mut left = last(bytes, data);
        let size = data.min(self.size + left.len());
        let mut at = self.start;
        while !left.is_empty() {
            let room = match self.parity {
                None => data - at,
                Some(_) => (BLOCK - at % BLOCK).min(data - at),
            };
            let (now, later) = left.split_at(room.min(left.len()));
            match &mut self.parity {
                None => {
                    self.memory.store(HEADER + at, now);
                    self.memory.persist(HEADER + at, now.len());
                }
                Some(parity) => parity.store(&self.memory, self.division, self.size, at, now),
            }
            at += now.len();
            if at == data {
                at = 0;
            }
            left = later;
        }
        // After everything else.
        self.advance(at, size);
        self.store_header_parity();
    }

    #[inline]
    fn advance(&mut self, start: usize, size: usize) {
        self.start = start;
        if size == self.size {
            self.memory.store(START, &(start as u32).to_ne_bytes());
            self.memory.persist(START, 4);
        } else {
            self.size = size;
            self.store_header(start, size);
        }
    }

    /// Stores the header in an order that loses no contents after a cut between the two words. A
    /// start beyond the size would be an invalid zone. A full ring with its start at the end would
    /// be rotated wrongly. Each word is persistent before the next is stored, because they may be
    /// in two cache lines.
    #[inline]
    pub(crate) fn store_header(&self, start: usize, size: usize) {
        let is_full = size == self.data;
        let (start, size) = ((start as u32).to_ne_bytes(), (size as u32).to_ne_bytes());
        let words = match is_full {
            true => [(START, start), (SIZE, size)],
            false => [(SIZE, size), (START, start)],
        };
        for (at, word) in words {
            self.memory.store(at, &word);
            self.memory.persist(at, word.len());
        }
    }

    fn store_header_parity(&mut self) {
        let Some(parity) = &mut self.parity else {
            return;
        };
        let header = ZoneHeader {
            signature: self.signature,
            start: self.start as u32,
            size: self.size as u32,
        };
        let header = header.encode(ByteOrder::NATIVE);
        let old = &parity.header.data;
        // In a ring that has wrapped, only the start changes.
        let start_alone = old[..START] == header[..START] && old[SIZE..] == header[SIZE..];
        let (offset, new) = match start_alone {
            true => (START, &header[START..SIZE]),
            false => (0, &header[..]),
        };
        let at = self.division.header_parity();
        let Parity { code, header, .. } = parity;
        header.change(code, HEADER, offset, new, |parity| {
            self.memory.store(at, parity);
            self.memory.persist(at, parity.len());
        });
    }
}

/// Returns the last `most` bytes.
fn last(bytes: &[u8], most: usize) -> &[u8] {
    &bytes[bytes.len().saturating_sub(most)..]
}

/// Parity of the block being written, and of the header.
#[derive(Debug)]
struct Parity<'c> {
    code: &'c Code,
    /// Number of the block.
    block: Option<usize>,
    /// Whether the block has bytes that failed error correction. Its parity then stays wrong.
    is_bad: bool,
    /// Whether the block was written from its first byte on.
    is_from_start: bool,
    group: Group<BLOCK>,
    header: Group<HEADER>,
}

impl<'c> Parity<'c> {
    const fn new(code: &'c Code) -> Self {
        Self {
            code,
            block: None,
            is_bad: false,
            is_from_start: false,
            group: Group::ZERO,
            header: Group::ZERO,
        }
    }

    /// Stores `new`, which is in one block, and then the block's parity.
    #[inline]
    fn store(
        &mut self,
        memory: &impl Memory,
        division: Division,
        size: usize,
        at: usize,
        new: &[u8],
    ) {
        let (block, offset) = (at / BLOCK, at % BLOCK);
        if self.block != Some(block) {
            self.enter(memory, division, size, block);
        }
        memory.store(HEADER + at, new);
        memory.persist(HEADER + at, new.len());
        let len = division.block_len(block);
        self.is_from_start |= offset == 0;
        // Behind the last byte of such a block, all its bytes are new.
        self.is_bad &= !(self.is_from_start && offset + new.len() == len);
        let is_bad = self.is_bad;
        self.group.change(self.code, len, offset, new, |parity| {
            store_parity(memory, division, block, parity, is_bad);
        });
    }

    /// Loads a block from memory. Corrects bytes that flipped since it was written, if possible,
    /// because its old contents are still to be read. Otherwise the block stays bad.
    #[inline(never)]
    fn enter(&mut self, memory: &impl Memory, division: Division, size: usize, block: usize) {
        let (len, parity) = (division.block_len(block), self.code.parity());
        let data = &mut self.group.data[..len];
        let (mut right, mut stored) = ([0; MAX_PARITY], [0; MAX_PARITY]);
        memory.load(HEADER + block * BLOCK, data);
        memory.load(division.block_parity(block), &mut stored[..parity]);
        self.code.encode(data, &mut right);
        self.block = Some(block);
        self.is_from_start = false;

        let holds_something = block * BLOCK < size;
        self.is_bad = holds_something && stored[..parity] != right[..parity];
        if self.is_bad
            && self.code.is_trusted()
            && self.code.correct(data, &mut stored[..parity]).is_ok()
        {
            self.is_bad = false;
            right = stored;
            memory.store(HEADER + block * BLOCK, data);
            memory.persist(HEADER + block * BLOCK, len);
        }
        self.group.parity = first(&right);
    }
}

/// Stores a block's parity, or one that fails error correction for a bad block.
#[inline]
fn store_parity(
    memory: &impl Memory,
    division: Division,
    block: usize,
    right: &[u8],
    is_bad: bool,
) {
    let store = |parity: &[u8]| {
        memory.store(division.block_parity(block), parity);
        memory.persist(division.block_parity(block), parity.len());
    };
    if !is_bad {
        return store(right);
    }
    let mut wrong = [0; MAX_PARITY];
    let wrong = &mut wrong[..right.len()];
    wrong.copy_from_slice(right);
    invert(wrong);
    store(wrong);
}

/// Inverts one parity byte more than a code corrects. A test shows that this error fails for every
/// code and length of a block, with Linux's rule too. Other errors may be "corrected".
fn invert(parity: &mut [u8]) {
    let count = parity.len() / 2 + 1;
    for byte in parity.iter_mut().take(count) {
        *byte = !*byte;
    }
}

/// Intended bytes and their parity, which are never read back from memory. If a byte flipped there,
/// a parity updated from it would make a reader corrupt good bytes.
#[derive(Debug)]
struct Group<const LEN: usize> {
    data: [u8; LEN],
    /// Parity bytes that can be updated. With more, a block is encoded again.
    parity: [u8; UPDATED],
}

/// Number of parity bytes that [`Code::difference`] returns.
const UPDATED: usize = 16;

impl<const LEN: usize> Group<LEN> {
    /// Zero bytes, whose parity is also zero.
    const ZERO: Self = Self {
        data: [0; LEN],
        parity: [0; UPDATED],
    };

    /// Puts `new` at `offset`, and passes the parity of the first `len` bytes to `store`.
    #[inline]
    fn change(
        &mut self,
        code: &Code,
        len: usize,
        offset: usize,
        new: &[u8],
        store: impl FnOnce(&[u8]),
    ) {
        let end = offset + new.len();
        let data = &mut self.data[offset..end];
        if code.updates() {
            for (byte, new) in data.iter_mut().zip(new) {
                *byte ^= new;
            }
            let change = u128::from_ne_bytes(code.difference(len - end, data));
            data.copy_from_slice(new);
            self.parity = (u128::from_ne_bytes(self.parity) ^ change).to_ne_bytes();
            store(&self.parity[..code.parity()]);
        } else {
            data.copy_from_slice(new);
            let mut parity = [0; MAX_PARITY];
            code.encode(&self.data[..len], &mut parity);
            store(&parity[..code.parity()]);
        }
    }
}

/// Returns the first bytes of a parity.
const fn first(bytes: &[u8; MAX_PARITY]) -> [u8; UPDATED] {
    *bytes.first_chunk().unwrap()
}

/// Error: the memory is too small for a header, one byte of data and their parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the memory is too small for a zone: it needs 12 bytes and its parity besides the data",
        )
    }
}

impl core::error::Error for NoRoom {}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "slow, and no unsafe code")]
    fn a_bad_blocks_parity_fails_error_correction_for_every_code_and_length() {
        for parity in 1..=MAX_PARITY {
            let code = std::boxed::Box::new(Code::new(parity).unwrap());
            for len in 1..=BLOCK {
                let mut wrong = std::vec![0; parity];
                invert(&mut wrong);
                let data = &mut [0; BLOCK][..len];
                assert!(code.correct(data, &mut wrong).is_err(), "{parity}, {len}");
                assert!(
                    code.correct_like_linux(data, &mut wrong).is_err(),
                    "{parity}, {len}"
                );
            }
        }
    }
}
