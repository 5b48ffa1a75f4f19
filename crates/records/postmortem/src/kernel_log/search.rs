//! Search for a ring by its structure, in memory without a VMCOREINFO that leads to one.
//!
//! The ring's header has a shape that other data hardly has. Its pointers are virtual addresses, and
//! nothing is known of page tables. But the header has the IDs of the descriptors, and a pointer's
//! low bits are the place in a page. So a look at one word of each page finds the array of
//! descriptors, and its distance from the pointer. The arrays of records and of texts have the same
//! distance, in the kernel's image as well as in its mapping of all RAM.
//!
//! The size of a record's data is solved: sequence numbers are that many bytes apart.

use std::ops::Range;

use super::message::{LostText, MessageState};
use super::ring::{ID, NoMessage, Ring};
use super::structures::Structures;
use super::{Counts, KernelLog};
use crate::address_space::{AddressSpace, MappedPart};
use crate::discovery::{Discovery, is_apart};
use crate::kernel::CrashedKernel;
use crate::memory::container::{Container, read};
use crate::memory::run::Run;
use crate::vmcoreinfo::{InfoSource, Vmcoreinfo};

/// Number of records that must confirm a ring.
const EVIDENCE: u64 = 8;

/// Maximum number of headers, and of places for the descriptors of each: memory may be filled with
/// them on purpose.
const MOST_HEADERS: usize = 64;
const MOST_PLACES: usize = 4;

/// Maximum size of a kernel's image.
const IMAGE: u64 = 64 << 20;

/// Smallest page, in which a physical address equals its virtual address.
const PAGE: usize = 4096;

/// Offsets of the ring of texts: before Linux 5.18, and since then.
const TEXT_RINGS: [usize; 2] = [40, 48];

/// Number of bytes of the larger header.
const HEADER: usize = 88;

/// Base-2 logarithms of the numbers of descriptors that Linux has.
const COUNT_BITS: Range<u64> = 7..27;

/// Sizes of a record's data that are tried: that of all kernels so far, and larger ones.
const INFO_SIZES: Range<usize> = 88..257;

/// Sequence numbers are smaller: a billion records a second for 18 minutes.
const MOST_SEQUENCE: u64 = 1 << 40;

impl<'a> Discovery<'a> {
    /// Returns the logs whose headers are outside `besides`. Each is confirmed by its records.
    pub(super) fn logs_by_structure(
        &self,
        besides: &[Range<u64>],
        left: &mut u64,
    ) -> Vec<KernelLog<'a>> {
        let memory = self.memory.container();
        let mut headers = headers(memory, self.within.clone());
        headers.retain(|header| is_apart(besides, header.at));
        let mut found = Vec::<Found<'a>>::new();
        for (header, distance) in places(memory, &headers) {
            if !found.iter().any(|known| known.log.address == header.at) {
                found.extend(header.log(memory, distance, left));
            }
        }
        let is_found = |header: &&Header| found.iter().any(|it| it.log.address == header.at);
        let lost = headers.iter().filter(|header| !is_found(header));
        let lost = lost.map(|header| header.ring.count()).max();
        for found in &mut found {
            found.log.is_early = lost > Some(found.log.ring.count());
        }
        let larger: Vec<_> = found.iter().map(|it| it.larger(memory, &found)).collect();
        let mut found: Vec<_> = found.into_iter().map(Some).collect();
        for (early, larger) in larger.into_iter().enumerate() {
            let Some(index) = larger else { continue };
            if let Some(larger) = found[index].take() {
                found[index] = Some(larger.with_early(memory, found[early].take()));
            }
        }
        let logs = found.into_iter().flatten().map(|found| found.log);
        logs.map(KernelLog::with_release).collect()
    }
}

/// A log, and the places of its arrays.
struct Found<'a> {
    log: KernelLog<'a>,
    arrays: [MappedPart; 3],
    distance: u64,
}

impl<'a> Found<'a> {
    /// Returns the index of the log that replaced this one at the boot. A pointer to its header is in
    /// this one's image: Linux's `prb`.
    fn larger(&self, memory: &dyn Container, found: &[Self]) -> Option<usize> {
        let count = self.log.ring.count();
        if !found.iter().any(|it| it.log.ring.count() > count) {
            return None;
        }
        let (here, mut larger) = (self.log.address, None);
        let image = here.saturating_sub(IMAGE)..here.saturating_add(IMAGE);
        for run in Run::all(memory, image.clone()) {
            run.search(|at, bytes| {
                for (_, word) in words(run.address(at), bytes) {
                    let header = word.wrapping_sub(self.distance);
                    if image.contains(&header) && header != here {
                        // They are in the order of their addresses.
                        let known = found.binary_search_by_key(&header, |it| it.log.address);
                        larger = larger.or(known.ok());
                    }
                }
            });
        }
        larger
    }

    fn with_early(mut self, memory: &'a dyn Container, early: Option<Self>) -> Self {
        if let Some(early) = early {
            let parts = [early.arrays, self.arrays].concat();
            self.log.space = AddressSpace::of_parts(memory, parts);
            self.log.early = Some(early.log.ring);
            self.log.counts = self.log.count();
        }
        self
    }
}

/// A possible header of a ring.
#[derive(Debug)]
struct Header {
    at: u64,
    ring: Ring,
    /// The first of the IDs in the middle that must be those of descriptors.
    first: u64,
}

/// Searches for headers.
fn headers(memory: &dyn Container, within: Range<u64>) -> Vec<Header> {
    let mut headers = Vec::<Header>::new();
    for run in Run::all(memory, within) {
        run.search(|at, bytes| {
            for (inside, word) in words(run.address(at), bytes) {
                if !COUNT_BITS.contains(&word) {
                    continue;
                }
                let address = run.address(at + inside);
                let header = match bytes.get(inside..inside + HEADER) {
                    Some(bytes) => Header::parse(bytes, address),
                    None => run
                        .get(at + inside, HEADER)
                        .and_then(|bytes| Header::parse(&bytes, address)),
                };
                if let Some(header) = header
                    && headers.len() < MOST_HEADERS
                    && !headers.iter().any(|known| known.ring == header.ring)
                {
                    headers.push(header);
                }
            }
        });
    }
    headers
}

/// Searches for the descriptors of headers. Returns the headers with the distances of the arrays'
/// virtual addresses from their places.
fn places<'h>(memory: &dyn Container, headers: &'h [Header]) -> Vec<(&'h Header, u64)> {
    let mut places = vec![Vec::new(); headers.len()];
    if headers.is_empty() {
        return Vec::new();
    }
    for run in Run::all(memory, 0..u64::MAX) {
        run.search(|at, bytes| {
            let start = run.address(at);
            for (header, places) in headers.iter().zip(&mut places) {
                let virt = header.descriptor(header.first);
                let inside = virt.wrapping_sub(start) as usize % PAGE;
                for inside in (inside..bytes.len()).step_by(PAGE) {
                    let word = bytes.get(inside..).and_then(|bytes| bytes.first_chunk());
                    let id = word.map(|word| u64::from_le_bytes(*word) & ID);
                    let distance = virt.wrapping_sub(run.address(at + inside));
                    if id == Some(header.first)
                        && places.len() < MOST_PLACES
                        && header.has_descriptors(memory, distance)
                    {
                        places.push(distance);
                    }
                }
            }
        });
    }
    let places = headers.iter().zip(places);
    places
        .flat_map(|(header, places)| places.into_iter().map(move |place| (header, place)))
        .collect()
}

impl Header {
    fn parse(bytes: &[u8], at: u64) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let is_pointer =
            |at: usize| word(at).is_some_and(|word| word >> 56 == 0xff && word.is_multiple_of(8));
        if !is_pointer(8) || !is_pointer(16) {
            return None;
        }
        TEXT_RINGS.iter().find_map(|text_ring| {
            let structures = Structures::assumed(*text_ring, INFO_SIZES.start);
            let ring = Ring::parse(bytes, structures)?;
            let used = word(structures.head_lpos)?.wrapping_sub(word(structures.tail_lpos)?);
            let head = ring.tail_id.wrapping_add(ring.ids() - 1) & ID;
            let is_possible = word(*text_ring)? < 32
                && is_pointer(structures.data)
                && ring.sequence(head) < MOST_SEQUENCE
                && used <= ring.text_size();
            let before = ring.ids().checked_sub(EVIDENCE)?.div_ceil(2);
            let first = ring.tail_id.wrapping_add(before) & ID;
            is_possible.then_some(Self { at, ring, first })
        })
    }

    /// Returns the IDs in the middle.
    fn ids(&self) -> impl Iterator<Item = u64> {
        (0..EVIDENCE).map(|nth| self.first.wrapping_add(nth) & ID)
    }

    /// Returns the virtual address of an element of an array.
    const fn element(&self, array: u64, id: u64, size: usize) -> u64 {
        array.wrapping_add((id & (self.ring.count() - 1)) * size as u64)
    }

    const fn descriptor(&self, id: u64) -> u64 {
        self.element(self.ring.descs, id, self.ring.structures.desc)
    }

    /// Returns whether the descriptors are at this distance.
    fn has_descriptors(&self, memory: &dyn Container, distance: u64) -> bool {
        self.ids().all(|id| {
            let word = word(memory, self.descriptor(id).wrapping_sub(distance));
            word.is_some_and(|word| word & ID == id)
        })
    }

    /// Returns the size of a record's data.
    fn info_size(&self, memory: &dyn Container, distance: u64) -> Option<usize> {
        INFO_SIZES.step_by(8).find(|size| {
            self.ids().all(|id| {
                let info = self.element(self.ring.infos, id, *size);
                word(memory, info.wrapping_sub(distance)) == Some(self.ring.sequence(id))
            })
        })
    }

    /// Returns the log with its arrays at this distance, if its records confirm it.
    fn log<'a>(
        &self,
        memory: &'a dyn Container,
        distance: u64,
        left: &mut u64,
    ) -> Option<Found<'a>> {
        let size = self.info_size(memory, distance)?;
        let mut ring = self.ring;
        ring.structures = Structures::assumed(ring.structures.size_bits, size);
        let arrays = [
            (ring.descs, ring.count() * ring.structures.desc as u64),
            (ring.infos, ring.count() * size as u64),
            (ring.data, ring.text_size()),
        ];
        let arrays = arrays.map(|(virt, len)| MappedPart {
            virt,
            physical: virt.wrapping_sub(distance),
            len,
        });
        let log = KernelLog {
            address: self.at,
            info: Vmcoreinfo::of_release(""),
            source: InfoSource::Structure(size),
            counts: Counts::default(),
            is_early: false,
            space: AddressSpace::of_parts(memory, arrays.to_vec()),
            ring,
            early: None,
        };
        Some(Found {
            log: log.is_confirmed().then(|| log.counted(left))??,
            arrays,
            distance,
        })
    }
}

impl KernelLog<'_> {
    /// Returns whether enough records agree with their texts, and more than contradict them.
    fn is_confirmed(&self) -> bool {
        let (mut agree, mut contradict) = (0, 0);
        for nth in self.tried() {
            let message = self.ring.message(&self.space, nth, &mut self.text_size());
            match message.map(|message| (message.state, message.text.is_empty())) {
                Ok((state, false)) if state.has_text() => agree += 1,
                Ok((MessageState::Lost(LostText::Overwritten | LostText::Inconsistent), _))
                | Err(NoMessage::Foreign) => contradict += 1,
                _ => {}
            }
        }
        agree >= EVIDENCE && agree > contradict
    }

    /// Adds the release in the kernel's own banner or report.
    fn with_release(mut self) -> Self {
        let mut kernel = CrashedKernel::default();
        self.tell(&mut kernel);
        let release = kernel.release().map(|release| release.text);
        self.info = Vmcoreinfo::of_release(&release.unwrap_or_default());
        self
    }
}

/// Returns the words at multiples of 8 in a piece that starts at an address, with their positions.
fn words(start: u64, bytes: &[u8]) -> impl Iterator<Item = (usize, u64)> {
    let skip = start.wrapping_neg() as usize % 8;
    let (words, _) = bytes.get(skip..).unwrap_or_default().as_chunks();
    let words = words.iter().enumerate();
    words.map(move |(nth, word)| (skip + nth * 8, u64::from_le_bytes(*word)))
}

fn word(memory: &dyn Container, at: u64) -> Option<u64> {
    let bytes = read(memory, at, 8, 8)?;
    Some(u64::from_le_bytes(*bytes.first_chunk()?))
}
