//! Discovery of all records in the memory of a crashed machine, in one pass over it.
//!
//! Each kind's own file adds the function that returns its records. The table of kinds is in
//! `kinds.rs`.

use std::cell::Cell;
use std::ops::Range;

use crate::detect::{self, Detection};
use crate::memory::{MAX_COPY, Memory, Partial};
use crate::scan::{Finder, scan, scan_and_detect};

/// Records that were found in memory.
///
/// ```
/// use nostall_postmortem::discovery::Discovery;
/// use nostall_postmortem::memory::Memory;
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../drivers/pstore/tests/fixtures/plain/image.bin");
/// let memory = Memory::open(path)?;
/// let discovery = Discovery::new(&memory);
/// let region = &discovery.detection.convincing()[0];
/// let decoded = [region.start..region.start + region.len as u64];
/// assert!(discovery.log_rings(&decoded).is_empty());
/// # Ok::<(), nostall_postmortem::memory::Error>(())
/// ```
#[derive(Debug)]
pub struct Discovery<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) within: Range<u64>,
    /// The pstore regions.
    pub detection: Detection,
    /// Addresses of the records of each kind that was searched for.
    found: Vec<(&'static Finder, Vec<u64>)>,
    /// Number of bytes that were copied together.
    copied: Cell<usize>,
    is_cut_short: Cell<bool>,
}

impl<'a> Discovery<'a> {
    pub(crate) fn of_kinds(
        memory: &'a Memory,
        within: Range<u64>,
        regions: Option<Range<u64>>,
        finders: &[&'static Finder],
    ) -> Self {
        let container = memory.container();
        let (detection, found) = match regions {
            Some(regions) if regions == within => {
                scan_and_detect(container, within.clone(), finders)
            }
            Some(regions) => (
                detect::in_container(container, regions),
                scan(container, within.clone(), finders),
            ),
            None => (
                Detection::default(),
                scan(container, within.clone(), finders),
            ),
        };
        Self {
            memory,
            within,
            detection,
            found: finders.iter().copied().zip(found).collect(),
            copied: Cell::new(0),
            is_cut_short: Cell::new(false),
        }
    }

    /// Searches nothing: only the dump's header leads to records.
    pub fn of_header(memory: &'a Memory) -> Self {
        Self::of_kinds(memory, 0..0, None, &[])
    }

    /// Returns text about records that were left out so far, if any were. Scattered ones are copied,
    /// but no more once the copies have over [`MAX_COPY`] bytes.
    pub fn doubt(&self) -> Option<String> {
        let doubt = "rings or traces in many parts of the file take more than 256 MiB, so some are \
                     left out: --offset selects one";
        self.is_cut_short.get().then(|| doubt.to_owned())
    }

    /// Reads a record like [`Memory::read_partly`]; `None` also if too much was copied.
    pub(crate) fn read_partly(&self, at: u64, len: usize) -> Option<Partial<'a>> {
        if self.copied.get() > MAX_COPY && !self.memory.is_contiguous(at, len) {
            self.is_cut_short.set(true);
            return None;
        }
        let bytes = self.memory.read_partly(at, len)?;
        if !bytes.is_borrowed() {
            let copied = self.copied.get() + bytes.len() - bytes.missing_bytes();
            self.copied.set(copied);
        }
        Some(bytes)
    }

    /// Returns the addresses outside `besides` at which records of a kind may start, in order. None
    /// if the kind was not searched for.
    pub(crate) fn addresses(
        &self,
        finder: &'static Finder,
        besides: &[Range<u64>],
    ) -> impl Iterator<Item = u64> {
        let mut found = self.found.iter();
        let found = found.find(|(kind, _)| std::ptr::eq(*kind, finder));
        let addresses = found.into_iter().flat_map(|(_, addresses)| addresses);
        addresses.copied().filter(|at| is_apart(besides, *at))
    }
}

/// Returns whether an address is outside all ranges.
pub(crate) fn is_apart(ranges: &[Range<u64>], at: u64) -> bool {
    !ranges.iter().any(|range| range.contains(&at))
}
