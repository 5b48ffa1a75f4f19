//! The banner of Linux in the memory of a machine: the kernel's release, its builder and its build.

use std::ops::Range;

use crate::memory::Memory;
use crate::memory::container::{Chunk, Container};
use crate::scan::{Finder, Signature};

/// Maximum number of banners: memory may be filled with them on purpose.
pub const MOST: usize = 64;

/// Maximum length of a banner. Linux prints at most about as much in one line of its log.
const LONGEST: usize = 1024;

const START: &[u8] = b"Linux version ";

/// Finds banners by their first words.
pub(crate) const FINDER: Finder = Finder {
    signatures: &[Signature::Anywhere(START)],
    is_start: |memory, at| text(memory, at).is_some(),
    most: MOST,
};

/// A banner in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Banner {
    /// Physical address.
    pub address: u64,
    /// The text, without the end of the line.
    pub text: String,
}

/// Reads the banners at these addresses outside `besides`.
pub(crate) fn open(memory: &Memory, addresses: &[u64], besides: &[Range<u64>]) -> Vec<Banner> {
    let addresses = addresses.iter().copied();
    let apart = addresses.filter(|at| !besides.iter().any(|range| range.contains(at)));
    let banners = apart.filter_map(|address| {
        let text = text(memory.container(), address)?;
        Some(Banner { address, text })
    });
    banners.collect()
}

/// Returns the banner at an address; `None` if there is none. In the kernel's constants it is a line
/// with a zero behind it. Formats of programs are others, and so are most lines of a log.
fn text(memory: &dyn Container, at: u64) -> Option<String> {
    let mut line = Vec::new();
    loop {
        let next = at.checked_add(line.len() as u64)?;
        let Chunk::Bytes(bytes) = memory.chunk(next, LONGEST + 2 - line.len()) else {
            return None;
        };
        line.extend_from_slice(&bytes);
        let end = line.iter().position(|byte| !matches!(byte, b' '..=b'~'));
        match end.and_then(|end| line.get(end..end + 2)) {
            Some(b"\n\0") => line.truncate(end?),
            None if line.len() < LONGEST + 2 && end.is_none_or(|end| line[end] == b'\n') => {
                continue;
            }
            _ => return None,
        }
        let line = String::from_utf8(line).ok()?;
        return (line.contains(" (") && line.contains(" #")).then_some(line);
    }
}
