//! Ring buffers in an image.

use std::ops::Range;

use nostall_tracefile::linux::Order;

use super::cpu::Cpu;
use super::meta::Meta;
use super::page::{PageReport, PageState};
use super::version::{MAGIC, Version};
use crate::discovery::{Discovery, is_apart};
use crate::memory::Memory;
use crate::memory::container::{self, Container};
use crate::scan::{Finder, Signature};

/// Maximum number of ring buffers: an image may be filled with them on purpose.
pub const MOST: usize = 64;

/// Maximum number of CPUs of a ring buffer.
const MOST_CPUS: u64 = 8192;

/// Number of consecutive lost descriptions at which the search for CPUs ends.
const GONE: u64 = 8;

/// Finds ring buffers by the first word of a description, which a known version follows.
pub(crate) static FINDER: Finder = Finder {
    signatures: &[Signature::Anywhere(&MAGIC.to_le_bytes())],
    is_start: |memory, at| Start::read(memory, at).is_some(),
    most: 1 << 18,
    on_request: false,
};

/// Start of a ring buffer, or the description of one of its CPUs.
struct Start {
    version: Version,
    /// Address of the first known description, which is plausible.
    first_meta: u64,
    /// End of the ring buffer, or [`u64::MAX`].
    end: u64,
    known: Meta,
}

impl Start {
    fn read(memory: &dyn Container, address: u64) -> Option<Self> {
        let bytes = |at, len| container::read(memory, at, len, len);
        let word = Order::Little.u32(&bytes(address.checked_add(4)?, 4)?, 0)?;
        let version = Version::ALL
            .into_iter()
            .find(|version| version.word() == word)?;
        let (first_meta, end) = if version.has_header() {
            let header = bytes(address, 24)?;
            let size = Order::Little.u64(&header, 8)?;
            let offset = Order::Little
                .u64(&header, 16)
                .filter(|offset| *offset < size)?;
            (address.checked_add(offset)?, address.checked_add(size)?)
        } else {
            (address, u64::MAX)
        };
        let known = Meta::read(memory, version, first_meta).filter(Meta::is_plausible)?;
        Some(Self {
            version,
            first_meta,
            end,
            known,
        })
    }
}

impl Discovery<'_> {
    /// Returns Linux's persistent ring buffers outside `besides`, by address.
    pub fn ring_buffers(&self, besides: &[Range<u64>]) -> Vec<RingBuffer> {
        let addresses: Vec<_> = self.addresses(&FINDER, besides).collect();
        let mut buffers = RingBuffer::open_all(self.memory, &addresses, self.within.start);
        buffers.retain(|buffer| is_apart(besides, buffer.address));
        buffers
    }
}

/// A persistent ring buffer of Linux.
#[derive(Clone, Debug)]
pub struct RingBuffer {
    /// Index of the buffer in the image.
    pub index: usize,
    /// Physical address of the buffer.
    pub address: u64,
    /// Layout version.
    pub version: Version,
    /// Size in bytes, up to the end of the last CPU's sub-buffers.
    pub size: u64,
    /// Size of a sub-buffer in bytes.
    pub subbuf: usize,
    /// Number of sub-buffers per CPU.
    pub subbufs: usize,
    /// All possible CPUs, including those without records.
    pub cpus: Vec<Cpu>,
}

impl RingBuffer {
    /// Returns the ring buffers with descriptions at these addresses, in order. Nothing before `from`
    /// belongs to them.
    fn open_all(image: &Memory, addresses: &[u64], from: u64) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        let mut next = from;
        let memory = image.segments().iter().map(|segment| segment.len);
        let mut budget = memory.fold(1 << 20, |sum: u64, len| sum.saturating_add(len / 1024));
        for &address in addresses {
            if address < next {
                continue;
            }
            if let Some(buffer) = Self::at(image, address, next, &mut budget) {
                next = buffer.address + buffer.size;
                found.push(buffer);
            }
            // Empty buffers are dropped first: they may hide one with records.
            if found.len() > MOST {
                let empty = found.iter().rposition(|buffer| buffer.records() == 0);
                found.remove(empty.unwrap_or(MOST));
                if empty.is_none() {
                    break;
                }
            }
        }
        for (index, buffer) in found.iter_mut().enumerate() {
            buffer.index = index;
        }
        found
    }

    /// Reads the ring buffer with a description at `address`. Descriptions of CPUs before it may be
    /// lost; nothing before `from` belongs to it. `budget` is the remaining number of sub-buffers
    /// to read in this image, which bounds the time.
    fn at(image: &Memory, address: u64, from: u64, budget: &mut u64) -> Option<Self> {
        let Start {
            version,
            first_meta,
            end,
            known,
        } = Start::read(image.container(), address)?;
        // The search for the other CPUs reads sub-buffers, too.
        *budget = budget.checked_sub(4 * GONE)?;
        // The first CPU's description may start behind the header and the tracer's words.
        let header = known.header(first_meta - address);
        let stride = known.header(0) + known.data_bytes();
        let first = first_meta.checked_add(header)?;
        first.checked_add(known.data_bytes())?;
        // The buffer must have data besides the description.
        image.read(first, 16)?;
        let slots = Slots {
            image,
            known: &known,
            first_meta,
            header,
            stride,
            end,
        };
        let before = if version.has_header() {
            0
        } else {
            slots.count(|slot| {
                let at = first_meta.checked_sub(slot.checked_mul(stride)?)?;
                let first = known.first.checked_sub(slot * stride)?;
                (at >= from).then_some((at, first))
            })
        };
        let after = slots.count(|slot| slots.place(slot as i64));
        let cpus: Vec<_> = (-(before as i64)..=after as i64)
            .enumerate()
            .map_while(|(number, slot)| {
                *budget = budget.checked_sub(known.subbufs)?;
                slots.cpu(number, slot)
            })
            .collect();
        let first = cpus.first()?;
        let start = if version.has_header() {
            address
        } else {
            first.meta
        };
        let mut buffer = Self {
            index: 0,
            address: start,
            version,
            size: cpus.last()?.first + known.data_bytes() - start,
            subbuf: known.subbuf as usize,
            subbufs: known.subbufs as usize,
            cpus,
        };
        buffer.tell_boots();
        Some(buffer)
    }

    /// Numbers the boots. A CPU without a step of its own belongs to the boot whose times on
    /// the other CPUs are the nearest.
    fn tell_boots(&mut self) {
        self.cpus.iter_mut().for_each(Cpu::tell_boots);
        let boots = self.boots();
        if boots < 2 {
            return;
        }
        let whole: Vec<_> = self
            .cpus
            .iter()
            .filter(|cpu| cpu.boots() == boots)
            .collect();
        let times: Vec<Option<(u64, u64)>> = (0..boots)
            .map(|boot| {
                let times = whole.iter().filter_map(|cpu| cpu.times(boot));
                times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
            })
            .collect();
        for cpu in &mut self.cpus {
            let own = cpu.boots();
            let (Some(last), true) = (cpu.times(own.saturating_sub(1)), own < boots) else {
                continue;
            };
            let distance = |boot: &u32| match times[*boot as usize] {
                Some((start, end)) => start.saturating_sub(last.0).max(last.1.saturating_sub(end)),
                None => u64::MAX,
            };
            let nearest = (own - 1..boots).min_by_key(distance).unwrap_or(own - 1);
            for page in &mut cpu.pages {
                page.boot += nearest - (own - 1);
            }
        }
    }

    /// Returns the number of boots whose records it has.
    pub fn boots(&self) -> u32 {
        self.cpus.iter().map(Cpu::boots).max().unwrap_or(0)
    }

    /// Returns the number of readable records.
    pub fn records(&self) -> u64 {
        self.cpus.iter().map(Cpu::records).sum()
    }

    /// Returns whether a part of the buffer is unreadable or unreliable.
    pub fn is_damaged(&self) -> bool {
        self.cpus
            .iter()
            .any(|cpu| !cpu.problems.is_empty() || cpu.damaged().next().is_some())
    }

    /// Returns the physical address of a CPU's sub-buffer.
    pub(super) fn page(&self, cpu: usize, index: u32) -> u64 {
        self.cpus[cpu].first + u64::from(index) * self.subbuf as u64
    }
}

/// Locations of the CPUs' descriptions, relative to a known one.
struct Slots<'a> {
    image: &'a Memory,
    known: &'a Meta,
    first_meta: u64,
    /// Bytes before the sub-buffers of the known CPU.
    header: u64,
    /// Distance in bytes between CPUs, except for the first CPU behind a header.
    stride: u64,
    /// End of the ring buffer, if its header has it.
    end: u64,
}

impl Slots<'_> {
    /// Returns the physical address of a CPU's description and the virtual one of its first
    /// sub-buffer.
    fn place(&self, slot: i64) -> Option<(u64, u64)> {
        if slot == 0 {
            return Some((self.first_meta, self.known.first));
        }
        let sub = (self.known.header(0), self.header);
        let distance = self.stride.checked_mul(slot.unsigned_abs())?;
        let (at, first) = if slot > 0 {
            // The known CPU's header may have another length.
            let at = self.first_meta.checked_add(distance)?.checked_add(sub.1)?;
            let first = self.known.first.checked_add(distance)?;
            (at.checked_sub(sub.0)?, first)
        } else {
            (
                self.first_meta.checked_sub(distance)?,
                self.known.first.checked_sub(distance)?,
            )
        };
        let end = at.checked_add(self.stride)?;
        (end <= self.end).then_some((at, first))
    }

    /// Counts the CPUs in one direction. Descriptions of consecutive CPUs may be lost, if a valid
    /// one follows or if their records exist.
    fn count(&self, place: impl Fn(u64) -> Option<(u64, u64)>) -> u64 {
        let mut count = 0;
        for slot in 1..MOST_CPUS {
            if slot > count + GONE {
                break;
            }
            let Some((at, first)) = place(slot) else {
                break;
            };
            let meta = Meta::read(self.image.container(), self.known.version, at);
            if meta.is_some_and(|meta| meta.is_of_another(first)) {
                break;
            }
            if meta.is_some_and(|meta| meta.agrees(self.known, first)) || self.has_records(at) {
                count = slot;
            }
        }
        count
    }

    /// Returns whether the CPU with its description at `at` has records: the first sub-buffers are
    /// all sound, and half of them have records.
    fn has_records(&self, at: u64) -> bool {
        const SAMPLE: u32 = 8;
        const RECORDS: u32 = 4;
        let sample = SAMPLE.min(self.known.subbufs as u32);
        let first = at.saturating_add(self.known.header(0));
        let mut filled = 0;
        for index in 0..sample {
            let address = first.saturating_add(u64::from(index) * self.known.subbuf);
            let bytes = self.known.subbuf as usize;
            match PageReport::read(self.image, address, bytes, index) {
                None => {}
                Some(page) if page.state != PageState::Sound => return false,
                Some(page) => filled += u32::from(page.records >= RECORDS),
            }
        }
        2 * filled >= sample
    }

    fn cpu(&self, number: usize, slot: i64) -> Option<Cpu> {
        let (at, first) = self.place(slot)?;
        let header = if slot == 0 {
            self.header
        } else {
            self.known.header(0)
        };
        Some(Cpu::read(self.image, number, at, header, self.known, first))
    }
}
