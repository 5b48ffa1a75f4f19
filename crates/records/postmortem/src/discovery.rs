//! Discovery of all records in the memory of a crashed machine, in one pass over it.

use std::ops::Range;

use crate::banner::{self, Banner};
use crate::detect::Detection;
use crate::ftrace_ring::{self, RingBuffer};
use crate::log_ring::{self, FoundRing};
use crate::memory::Memory;
use crate::scan::{Finder, scan, scan_and_detect};
use crate::trace_region::{self, TraceRegion};

/// The kinds of records that are found by a signature. Their order is that of [`Discovery::found`].
/// The last one costs as much as the others, and is searched for on request.
const KINDS: [&Finder; 4] = [
    &log_ring::FINDER,
    &trace_region::FINDER,
    &ftrace_ring::FINDER,
    &banner::FINDER,
];
const LOG_RINGS: usize = 0;
const TRACES: usize = 1;
const RING_BUFFERS: usize = 2;
const BANNERS: usize = 3;

/// Maximum number of log rings: memory may be filled with them on purpose.
pub const MOST_LOG_RINGS: usize = 4_096;

/// Records that were found in memory.
///
/// ```
/// use nostall_postmortem::discovery::Discovery;
/// use nostall_postmortem::memory::Memory;
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../drivers/pstore/tests/fixtures/plain/image.bin");
/// let memory = Memory::open(path)?;
/// let discovery = Discovery::new(&memory);
/// let region = &discovery.detection().convincing()[0];
/// let decoded = [region.start..region.start + region.len as u64];
/// assert!(discovery.log_rings(&decoded).is_empty());
/// # Ok::<(), nostall_postmortem::memory::Error>(())
/// ```
#[derive(Debug)]
pub struct Discovery<'a> {
    memory: &'a Memory,
    within: Range<u64>,
    detection: Detection,
    /// Addresses of the records of each kind.
    found: Vec<Vec<u64>>,
}

impl<'a> Discovery<'a> {
    /// Searches all of the memory, but not for banners.
    pub fn new(memory: &'a Memory) -> Self {
        Self::within(memory, 0..u64::MAX, Some(0..u64::MAX))
    }

    /// Searches a part of the memory for records that start in it, but not for banners. An end of
    /// [`u64::MAX`] is the end of the address space. `regions` is the part that pstore regions lie
    /// in; without it, they are not searched for.
    pub fn within(memory: &'a Memory, within: Range<u64>, regions: Option<Range<u64>>) -> Self {
        Self::of_kinds(memory, within, regions, &KINDS[..BANNERS])
    }

    /// Searches like [`within`](Self::within), and for banners.
    pub fn with_banners(
        memory: &'a Memory,
        within: Range<u64>,
        regions: Option<Range<u64>>,
    ) -> Self {
        Self::of_kinds(memory, within, regions, &KINDS)
    }

    fn of_kinds(
        memory: &'a Memory,
        within: Range<u64>,
        regions: Option<Range<u64>>,
        kinds: &[&Finder],
    ) -> Self {
        let container = memory.container();
        let (detection, found) = match regions {
            Some(regions) if regions == within => scan_and_detect(container, within.clone(), kinds),
            Some(regions) => (
                memory.detect_within(regions),
                scan(container, within.clone(), kinds),
            ),
            None => (Detection::default(), scan(container, within.clone(), kinds)),
        };
        Self {
            memory,
            within,
            detection,
            found,
        }
    }

    /// Returns the pstore regions.
    pub const fn detection(&self) -> &Detection {
        &self.detection
    }

    /// Returns the traces of nostall-trace outside `besides`, by address. One inside another is
    /// skipped, because it may be a logged copy.
    pub fn traces(&self, besides: &[Range<u64>]) -> Vec<TraceRegion<'a>> {
        trace_region::open_all(self.memory, &self.found[TRACES], besides)
    }

    /// Returns the log rings of nostall-console outside `besides`, by address, at most
    /// [`MOST_LOG_RINGS`]. One inside another is skipped, because it may be logged text.
    pub fn log_rings(&self, besides: &[Range<u64>]) -> Vec<FoundRing<'a>> {
        let found = &self.found[LOG_RINGS];
        log_ring::open(self.memory, found, besides, MOST_LOG_RINGS)
    }

    /// Returns Linux's banners outside `besides`, by address. None without
    /// [`with_banners`](Self::with_banners).
    pub fn banners(&self, besides: &[Range<u64>]) -> Vec<Banner> {
        let found = self.found.get(BANNERS).map_or(&[][..], Vec::as_slice);
        banner::open(self.memory, found, besides)
    }

    /// Returns Linux's persistent ring buffers outside `besides`, by address.
    pub fn ring_buffers(&self, besides: &[Range<u64>]) -> Vec<RingBuffer> {
        let found = &self.found[RING_BUFFERS];
        let mut buffers = RingBuffer::open_all(self.memory, found, self.within.start);
        buffers.retain(|buffer| !besides.iter().any(|range| range.contains(&buffer.address)));
        buffers
    }
}
