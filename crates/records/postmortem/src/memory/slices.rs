//! Memory in slices, for a search without a file.

use std::borrow::Cow;

use super::container::{Chunk, Container, Facts, PhysicalRange, find};
use super::format::DumpFormat;

/// Slices with their addresses.
#[derive(Debug)]
pub(crate) struct Slices<'a> {
    facts: Facts,
    segments: Vec<PhysicalRange>,
    bytes: Vec<&'a [u8]>,
}

impl<'a> Slices<'a> {
    /// Creates the container of slices. If they overlap, the one that starts lower has the bytes.
    pub(crate) fn new(slices: impl IntoIterator<Item = (u64, &'a [u8])>) -> Self {
        let mut slices: Vec<(u64, &[u8])> = slices.into_iter().collect();
        slices.sort_by_key(|(address, _)| *address);
        let mut end = 0u64;
        let apart = slices.into_iter().filter_map(|(address, bytes)| {
            let known = usize::try_from(end.saturating_sub(address)).ok()?;
            let bytes = bytes.get(known..).filter(|bytes| !bytes.is_empty())?;
            let start = address + known as u64;
            end = start.saturating_add(bytes.len() as u64);
            let len = bytes.len() as u64;
            Some((PhysicalRange { start, len }, bytes))
        });
        let (segments, bytes) = apart.unzip();
        Self {
            facts: Facts::of(DumpFormat::RAW),
            segments,
            bytes,
        }
    }
}

impl Container for Slices<'_> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn segments(&self) -> &[PhysicalRange] {
        &self.segments
    }

    fn chunk(&self, at: u64, most: usize) -> Chunk<'_> {
        match find(&self.segments, at) {
            Ok(index) => {
                let rest = &self.bytes[index][(at - self.segments[index].start) as usize..];
                Chunk::Bytes(Cow::Borrowed(&rest[..rest.len().min(most)]))
            }
            Err(missing) => Chunk::Missing(missing),
        }
    }

    fn data(&self) -> Box<dyn Iterator<Item = PhysicalRange> + '_> {
        Box::new(self.segments.iter().copied())
    }
}
