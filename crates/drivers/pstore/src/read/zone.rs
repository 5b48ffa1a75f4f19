//! Zone of a crashed kernel.

use core::fmt;

use super::block::{Block, code_for, longest_write};
use super::header::{self, Framing, Loaded};
use super::{CorrectionPolicy, Reader, Trust, Writer};
use crate::dmesg_header::DmesgHeader;
use crate::format::{BLOCK, ByteOrder, LinuxVersion, ZoneHeader, ZoneKind};
use crate::layout::Place;
use crate::memory::Load;

/// Zone of a crashed kernel, read in the order of writing.
///
/// The memory is not changed: blocks are corrected in a copy, one at a time.
#[derive(Clone, Debug)]
pub struct PreviousBootZone<'a, M: ?Sized> {
    memory: &'a M,
    place: Place,
    reader: Reader<'a>,
    header: ZoneHeader,
    header_trust: Trust,
    framing: Framing,
    state: ZoneState,
    /// Last block read, with its number.
    cached: Option<(usize, Block)>,
}

impl<M: Load + ?Sized> PreviousBootZone<'_, M> {
    /// Returns contents from `at` in the order of writing, with their trust; `None` at the end. A
    /// chunk has at least one byte and at most a block.
    pub fn chunk(&mut self, at: usize) -> Option<(&[u8], Trust)> {
        let left = self.len().checked_sub(at).filter(|&left| left > 0)?;
        let (size, oldest) = (self.len(), self.oldest());
        // The start of the ring comes after its end.
        let to_end = size - oldest;
        let here = if at < to_end {
            oldest + at
        } else {
            at - to_end
        };
        let (within, count) = (here % BLOCK, left.min(size - here));
        let agreed = self.agreed();
        let doubtful = self.framing == Framing::Doubtful || at >= agreed;
        let count = if at < agreed {
            count.min(agreed - at)
        } else {
            count
        };
        let block = self.block(here / BLOCK);
        let bytes = &block.bytes[within..block.len.min(within + count)];
        let trust = if doubtful {
            Trust::Unverified
        } else {
            block.trust
        };
        Some((bytes, trust))
    }

    /// Fills `into` from `at`. Returns the lowest trust of the bytes; `None` if there are not
    /// enough bytes.
    pub fn read(&mut self, mut at: usize, mut into: &mut [u8]) -> Option<Trust> {
        let mut worst = Trust::Verified;
        while !into.is_empty() {
            let (bytes, trust) = self.chunk(at)?;
            let count = bytes.len().min(into.len());
            let (now, later) = into.split_at_mut(count);
            now.copy_from_slice(&bytes[..count]);
            worst = worst.max(trust);
            at += count;
            into = later;
        }
        Some(worst)
    }

    fn block(&mut self, index: usize) -> &Block {
        let cached = self.cached.take().filter(|(which, _)| *which == index);
        let load = || {
            let block = Block::load(
                self.memory,
                &self.place,
                &self.reader,
                (&self.header, self.header_trust),
                index,
            );
            (index, block)
        };
        &self.cached.insert(cached.unwrap_or_else(load)).1
    }

    /// Returns the result of error correction for the header and every block with contents; `None`
    /// without parity.
    pub fn ecc(&mut self) -> Option<Ecc> {
        code_for(&self.reader, &self.place)?;
        let mut ecc = Ecc::default();
        ecc.count(self.header_trust);
        for index in 0..self.len().div_ceil(BLOCK) {
            ecc.count(self.block(index).counted);
        }
        Some(ecc)
    }

    /// Returns the header of a dmesg record and the offset of its text; `None` without a header
    /// line.
    pub fn dmesg_header(&mut self) -> Option<(DmesgHeader, usize)> {
        DmesgHeader::scan(|at| self.chunk(at)?.0.first().copied())
    }
}

impl<'a, M: Load + ?Sized> PreviousBootZone<'a, M> {
    pub(super) fn open(reader: Reader<'a>, memory: &'a M, place: Place) -> Self {
        let mut zone = Self {
            memory,
            place,
            reader,
            header: ZoneHeader {
                signature: 0,
                start: 0,
                size: 0,
            },
            header_trust: Trust::Unverified,
            framing: Framing::Doubtful,
            state: ZoneState::Damaged(Damage::Outside),
            cached: None,
        };
        let end = place.offset.checked_add(place.division.zone());
        if end.is_none_or(|end| end > memory.len()) {
            return zone;
        }
        let Loaded {
            header,
            trust,
            framing,
        } = header::load(memory, &place, &reader);
        (zone.header, zone.header_trust, zone.framing) = (header, trust, framing);
        zone.state = if !header::is_of(header, place.kind) {
            ZoneState::Damaged(Damage::Signature(header.signature))
        } else if !header.is_valid(place.division.data()) {
            ZoneState::Damaged(Damage::Sizes {
                start: header.start,
                size: header.size,
                data: place.division.data(),
            })
        } else if header.size == 0 {
            ZoneState::Empty
        } else {
            ZoneState::Valid
        };
        zone
    }

    /// Uses the header that the parity confirms, if the stored one is ahead of it by other than one
    /// record of `len` bytes.
    pub(super) fn of_records(mut self, len: usize) -> Self {
        if let Framing::Ahead { by, parity } = self.framing
            && by != len
            && self.reader.policy == CorrectionPolicy::Careful
        {
            self.header = parity;
        }
        self
    }
}

impl<M: ?Sized> PreviousBootZone<'_, M> {
    /// Returns the zone's place and kind.
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Returns whether the zone is readable.
    pub const fn state(&self) -> ZoneState {
        self.state
    }

    /// Returns the header that is used for reading.
    pub const fn header(&self) -> ZoneHeader {
        self.header
    }

    /// Returns the trust in the header. `Unverified` means that it disagrees with its parity, or
    /// its two words with each other, but contents can be read. If one more write leads from the
    /// header implied by the parity to this one, the cut was between the two, and nothing is
    /// damaged. Otherwise, all contents are `Unverified` too.
    pub const fn header_trust(&self) -> Trust {
        self.header_trust
    }

    /// Returns the version of the kernel that wrote a trace zone; `None` for other kinds.
    pub fn version(&self) -> Option<LinuxVersion> {
        let traces = self.place.kind == ZoneKind::Ftrace && self.state != ZoneState::OUTSIDE;
        header::version(self.header).filter(|_| traces)
    }

    /// Returns the number of bytes of contents.
    pub const fn len(&self) -> usize {
        match self.state {
            ZoneState::Valid => self.header.size as usize,
            _ => 0,
        }
    }

    /// Returns whether there are no contents.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the ring is full: earlier contents are overwritten, and the oldest record
    /// may be incomplete.
    pub const fn is_full(&self) -> bool {
        self.len() == self.place.division.data()
    }

    pub(super) const fn reader(&self) -> &Reader<'_> {
        &self.reader
    }

    /// Returns the number of bytes that were certainly written, if their blocks are right. A cut
    /// during a write may leave bytes that the header includes but that are not stored. Without
    /// parity, the words of the header may also contradict each other. Until a ring is full its
    /// start equals its size, except between the stores of one write.
    fn agreed(&self) -> usize {
        let (start, size) = (self.header.start as usize, self.header.size as usize);
        let is_stored = match self.reader.writer {
            Writer::DataFirst => true,
            // In a trace, the newest record itself is marked.
            Writer::HeaderFirst => self.place.kind == ZoneKind::Ftrace,
        };
        if let Framing::Ahead { by, .. } = self.framing
            && !is_stored
        {
            return size.saturating_sub(by);
        }
        let is_checked = self.header_trust != Trust::Unchecked;
        if is_checked || self.reader.policy == CorrectionPolicy::Faithful || self.is_full() {
            return size;
        }
        // One of the words is stored and the other is not, or the write fills the ring.
        let grown = size - start;
        let filled = self.place.division.data() - grown;
        if is_stored && grown.min(filled) <= longest_write(&self.place) {
            size
        } else {
            start
        }
    }

    /// Returns the offset of the oldest byte of data.
    const fn oldest(&self) -> usize {
        match self.reader.policy {
            CorrectionPolicy::Faithful => self.header.start as usize,
            CorrectionPolicy::Careful if self.is_full() => self.header.start as usize,
            // The size is stored before the start: they differ after a cut in between.
            CorrectionPolicy::Careful => 0,
        }
    }
}

/// State of a zone's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    /// The zone has contents.
    Valid,
    /// The zone was not written.
    Empty,
    /// The zone cannot be read.
    Damaged(Damage),
}

impl ZoneState {
    const OUTSIDE: Self = Self::Damaged(Damage::Outside);
}

/// Reason for which a zone cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// The memory ends before the zone does, or lacks a part of it.
    Outside,
    /// The first word is not a zone's signature: the zone was never written, was overwritten, or is
    /// at another address.
    Signature(u32),
    /// The sizes contradict each other.
    Sizes {
        /// Offset of the next byte.
        start: u32,
        /// Number of valid bytes in the header.
        size: u32,
        /// Number of data bytes in the zone.
        data: usize,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside => f.write_str("the memory lacks a part of the zone"),
            Self::Signature(word) => {
                let swapped = ByteOrder::Little.bytes32(*word);
                write!(f, "no signature: the zone starts with {word:#010x}")?;
                if ByteOrder::Big.u32(swapped) == crate::format::SIGNATURE {
                    f.write_str(", the signature in the other byte order")?;
                }
                Ok(())
            }
            Self::Sizes { start, size, data } => write!(
                f,
                "an impossible header: {size} bytes of {data} are valid, the next goes to {start}"
            ),
        }
    }
}

/// Result of error correction for a zone, counted as in Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ecc {
    /// Number of checked blocks, including the header.
    pub blocks: usize,
    /// Number of corrected bytes in data and parity.
    pub corrected_bytes: usize,
    /// Number of blocks that do not agree with their parity and were not corrected.
    pub bad_blocks: usize,
}

impl Ecc {
    fn count(&mut self, trust: Trust) {
        self.blocks += 1;
        match trust {
            Trust::Verified | Trust::Unchecked => {}
            Trust::Corrected(bytes) => self.corrected_bytes += bytes,
            Trust::Unverified => self.bad_blocks += 1,
        }
    }

    /// Adds two results.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            blocks: self.blocks + other.blocks,
            corrected_bytes: self.corrected_bytes + other.corrected_bytes,
            bad_blocks: self.bad_blocks + other.bad_blocks,
        }
    }
}

impl<'a> Reader<'a> {
    /// Opens a zone. Faults are in its [`state`](PreviousBootZone::state).
    pub fn open<M: Load + ?Sized>(self, memory: &'a M, place: Place) -> PreviousBootZone<'a, M> {
        PreviousBootZone::open(self, memory, place)
    }
}
