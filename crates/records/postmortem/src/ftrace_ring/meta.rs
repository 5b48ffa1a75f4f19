//! Description of one CPU's part of a ring buffer.

use nostall_tracefile::linux::Order;

use super::version::{MAGIC, Version};
use crate::memory::Memory;
use crate::memory::container::{self, Container};

/// Byte order of all machines with persistent ring buffers so far.
const ORDER: Order = Order::Little;

/// Range for the number of sub-buffers of a CPU.
const SUBBUFS: std::ops::RangeInclusive<u64> = 2..=1 << 22;

/// Fields of a CPU's description, unchecked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meta {
    pub version: Version,
    /// The first two words.
    pub magic: u32,
    pub word: u32,
    /// Addresses of the kernel's function and object, or its KASLR offset.
    pub text: u64,
    pub data: u64,
    /// Virtual addresses of sub-buffers.
    pub first: u64,
    pub head: u64,
    pub commit: u64,
    pub subbuf: u64,
    pub subbufs: u64,
}

impl Meta {
    /// Reads the description at an address; `None` if the image lacks it.
    pub fn read(memory: &dyn Container, version: Version, at: u64) -> Option<Self> {
        let len = version.meta() as usize;
        let bytes = container::read(memory, at, len, len)?;
        let word = |at| ORDER.u32(&bytes, at).unwrap_or_default();
        let long = |at| ORDER.u64(&bytes, at).unwrap_or_default();
        let from = version.addresses();
        let has_anchors = version == Version::V6_12;
        Some(Self {
            version,
            magic: word(0),
            word: word(4),
            text: if version.has_header() { 0 } else { long(8) },
            data: if has_anchors { long(16) } else { 0 },
            first: long(from),
            head: long(from + 8),
            commit: long(from + 16),
            subbuf: word(from + 24).into(),
            subbufs: word(from + 28).into(),
        })
    }

    /// Returns whether a ring buffer may start with this description.
    pub fn is_plausible(&self) -> bool {
        let size = self.subbuf.saturating_mul(self.subbufs);
        let end = self.first.checked_add(size);
        let is_inside = |address: u64| self.index(self.first, address).is_some();
        let is_empty = self.head == 0 && self.commit == 0;
        let starts =
            self.version.has_header() || (self.magic == MAGIC && self.word == self.version.word());
        starts
            && (4096..=1 << 16).contains(&self.subbuf)
            && self.subbuf.is_power_of_two()
            && SUBBUFS.contains(&self.subbufs)
            && self.first != 0
            && self.first.is_multiple_of(4096)
            && end.is_some()
            && (is_empty || is_inside(self.head) || is_inside(self.commit))
    }

    /// Returns whether this may describe another CPU of the same ring buffer as `known`. Its first
    /// sub-buffer should be at `first`.
    pub fn agrees(&self, known: &Self, first: u64) -> bool {
        if self.is_of_another(first) {
            return false;
        }
        let same = [
            self.subbuf == known.subbuf,
            self.subbufs == known.subbufs,
            self.first == first,
        ];
        let same = same.into_iter().filter(|is_same| *is_same).count();
        if self.version.has_header() {
            return same >= 2;
        }
        let words = [self.magic == MAGIC, self.word == self.version.word()];
        same + words.into_iter().filter(|is_same| *is_same).count() >= 3
    }

    /// Returns whether this describes a ring buffer other than the one whose sub-buffers start at
    /// `first`.
    pub fn is_of_another(&self, first: u64) -> bool {
        self.first != first && self.is_plausible()
    }

    /// Returns the number of the sub-buffer at a virtual address, counted from `first`.
    pub fn index(&self, first: u64, address: u64) -> Option<u32> {
        let distance = address.checked_sub(first)?;
        let index = distance / self.subbuf.max(1);
        let is_one = index < self.subbufs && distance.is_multiple_of(self.subbuf.max(1));
        is_one.then_some(index as u32)
    }

    /// Returns the bytes from the description's start to the first sub-buffer. `skew` is the
    /// distance of its start from a sub-buffer's alignment.
    ///
    /// Linux aligns the virtual address, which is a multiple of 4 KiB. For larger sub-buffers, this
    /// assumes that the region starts at a multiple of their size. Linux 6.12 has none: it allocates
    /// persistent buffers with order 0, and a change of the size leaves the description as it is.
    pub fn header(&self, skew: u64) -> u64 {
        let table = skew + self.version.meta() + 4 * self.subbufs;
        table.next_multiple_of(self.subbuf.max(1)) - skew
    }

    /// Returns the bytes of all sub-buffers.
    pub fn data_bytes(&self) -> u64 {
        self.subbuf.saturating_mul(self.subbufs)
    }

    /// Reads the table of sub-buffers; `None` if it is not a permutation.
    pub fn table(&self, image: &Memory, at: u64) -> Option<Vec<u32>> {
        let bytes = image.read(at + self.version.meta(), 4 * self.subbufs as usize)?;
        let table: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|word| ORDER.number(word) as u32)
            .collect();
        let mut seen = vec![false; table.len()];
        let is_new = |index: &u32| {
            let seen = seen.get_mut(*index as usize);
            seen.is_some_and(|seen| !std::mem::replace(seen, true))
        };
        table.iter().all(is_new).then_some(table)
    }
}
