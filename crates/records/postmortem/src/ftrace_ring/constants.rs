//! The kernel's constants, if the image contains them: events may refer to strings in them.

use crate::memory::{Memory, PhysicalRange};
use crate::symbols::Symbols;

/// KASLR moves an x86-64 kernel by multiples of this.
pub(super) const ALIGN: u64 = 2 << 20;

/// Size limit for a kernel's constants in bytes.
const MOST: u64 = 64 << 20;

/// Start of the kernel's banner.
const BANNER: &[u8] = b"Linux version ";

/// The kernel's section of constants.
#[derive(Clone, Debug)]
pub(super) struct Constants {
    /// Virtual address.
    start: u64,
    bytes: Vec<u8>,
}

impl Constants {
    /// Finds the constants of a kernel with these symbols. Its banner gives the physical address:
    /// the kernel's code starts at a multiple of 2 MiB.
    pub fn find(image: &Memory, symbols: &Symbols) -> Option<Self> {
        let linked = |name| symbols.linked_address(name);
        let code = linked("_text")?;
        let banner = linked("linux_banner")?.checked_sub(code)?;
        let start = linked("__start_rodata")?;
        let len = linked("__end_rodata")?.checked_sub(start)?;
        let skip = start.checked_sub(code).filter(|_| len <= MOST)?;
        // Reading the holes of a sparse file would fill the page cache with zeros.
        let place = image
            .data_ranges()
            .find_map(|PhysicalRange { start, len }| {
                let first = start.saturating_sub(banner);
                let end = start.saturating_add(len).saturating_sub(banner);
                let first = first.checked_next_multiple_of(ALIGN).unwrap_or(end);
                let mut places = (first..end).step_by(ALIGN as usize);
                places.find(|place| {
                    let there = image.read(place + banner, BANNER.len());
                    there.is_some_and(|there| *there == *BANNER)
                })
            })?;
        let bytes = image.read(place.checked_add(skip)?, len as usize)?;
        Some(Self {
            start: start.wrapping_add(symbols.offset()),
            bytes: bytes.into_owned(),
        })
    }

    /// Returns the constants from an address on.
    pub fn from(&self, address: u64) -> Option<&[u8]> {
        let skip = address.checked_sub(self.start)?;
        let rest = self.bytes.get(usize::try_from(skip).ok()?..)?;
        (!rest.is_empty()).then_some(rest)
    }
}
