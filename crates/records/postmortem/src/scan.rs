//! One pass over memory for the signatures of several kinds of records.

use std::ops::Range;

use memchr::memmem;

use crate::detect::{self, Detection};
use crate::memory::container::Container;
use crate::memory::run::Run;

/// Alignment of records with a [`Signature::Line`].
const LINE: usize = 64;

/// Bytes with which a record starts.
#[derive(Debug)]
pub(crate) enum Signature {
    /// At a multiple of 64 bytes.
    Line([u8; 8]),
    /// At any address.
    Anywhere(&'static [u8]),
}

/// Search for the records of one kind.
#[derive(Debug)]
pub(crate) struct Finder {
    /// Signatures of the records.
    pub signatures: &'static [Signature],
    /// Returns whether a record may start at an address with a signature.
    pub is_start: fn(&dyn Container, u64) -> bool,
    /// Maximum number of addresses: memory may be filled with signatures on purpose.
    pub most: usize,
    /// Whether the kind is searched for on request only, because its search costs much.
    pub on_request: bool,
}

/// Searches memory for the records of several kinds. Returns the addresses of each kind, in order.
pub(crate) fn scan(
    memory: &dyn Container,
    within: Range<u64>,
    finders: &[&Finder],
) -> Vec<Vec<u64>> {
    let mut scan = Scan::new(memory, finders);
    for run in Run::all(memory, within) {
        run.search(|at, bytes| scan.look(&run, at, bytes));
    }
    scan.finish()
}

/// Searches memory like [`scan`], and for pstore regions in the same pass.
pub(crate) fn scan_and_detect(
    memory: &dyn Container,
    within: Range<u64>,
    finders: &[&Finder],
) -> (Detection, Vec<Vec<u64>>) {
    let mut scan = Scan::new(memory, finders);
    let detection = detect::beside(memory, within, &mut |run, at, bytes| {
        scan.look(run, at, bytes);
    });
    (detection, scan.finish())
}

struct Scan<'a> {
    memory: &'a dyn Container,
    finders: &'a [&'a Finder],
    /// First bytes of lines, each with its finder's index.
    lines: Vec<([u8; 8], usize)>,
    /// Whether a line with a signature may start with this byte.
    starts: [bool; 256],
    anywhere: Vec<(memmem::Finder<'static>, usize)>,
    /// Number of bytes of the longest signature.
    longest: usize,
    found: Vec<Vec<u64>>,
}

impl<'a> Scan<'a> {
    fn new(memory: &'a dyn Container, finders: &'a [&'a Finder]) -> Self {
        let mut scan = Self {
            memory,
            finders,
            lines: Vec::new(),
            starts: [false; 256],
            anywhere: Vec::new(),
            longest: 1,
            found: vec![Vec::new(); finders.len()],
        };
        for (index, finder) in finders.iter().enumerate() {
            for signature in finder.signatures {
                match signature {
                    Signature::Line(line) => {
                        scan.starts[usize::from(line[0])] = true;
                        scan.lines.push((*line, index));
                    }
                    Signature::Anywhere(bytes) => {
                        scan.longest = scan.longest.max(bytes.len());
                        scan.anywhere.push((memmem::Finder::new(bytes), index));
                    }
                }
            }
        }
        scan
    }

    /// Looks at a piece of a run.
    fn look(&mut self, run: &Run<'_>, at: usize, bytes: &[u8]) {
        let start = run.address(at);
        let skip = start.wrapping_neg() as usize % LINE;
        let mut found = Vec::new();
        let lines = bytes.get(skip..).unwrap_or_default().chunks(LINE);
        for (number, line) in lines.enumerate() {
            if self.starts[usize::from(line[0])] {
                let known = self.lines.iter();
                let known = known.filter(|(signature, _)| line.starts_with(signature));
                let address = start + (skip + number * LINE) as u64;
                found.extend(known.map(|(_, index)| (address, *index)));
            }
        }
        // A signature may begin in the piece before.
        let before = at.min(self.longest - 1);
        let seam = run.get(at - before, before + bytes.len().min(self.longest - 1));
        let seam = seam.filter(|_| before > 0);
        for (finder, index) in &self.anywhere {
            let here = finder.find_iter(bytes).map(|at| start + at as u64);
            let seam = seam.iter().flat_map(|seam| finder.find_iter(seam));
            let cut = seam.filter(|place| *place < before);
            let cut = cut.map(|place| start - (before - place) as u64);
            found.extend(here.chain(cut).map(|address| (address, *index)));
        }
        for (address, index) in found {
            self.hit(index, address);
        }
    }

    fn hit(&mut self, finder: usize, address: u64) {
        let Finder { is_start, most, .. } = self.finders[finder];
        let found = &mut self.found[finder];
        if found.len() < *most && is_start(self.memory, address) {
            found.push(address);
        }
    }

    fn finish(mut self) -> Vec<Vec<u64>> {
        for found in &mut self.found {
            found.sort_unstable();
            found.dedup();
        }
        self.found
    }
}
