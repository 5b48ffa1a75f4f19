//! Search for possible zone headers in a dump.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use crate::memory::run::Run;
use nostall_pstore::{ByteOrder, HEADER, LinuxVersion, SIGNATURE, ZoneHeader};

/// Number of candidates from which on a search waits for others of this process. Their memory, up to
/// hundreds of bytes for each candidate, thus does not add up.
const FEW: usize = 1 << 14;

/// Lock of the search with more than [`FEW`] candidates.
static MANY: Mutex<()> = Mutex::new(());

/// Number of bytes checked at once.
const PIECE: usize = 256;

/// Maximum number of candidates of each [sort](Candidate::sort). Data with more contains them on
/// purpose.
const MOST: usize = 1 << 18;

/// If the end of the dump cuts off a zone, at least one part in this many of it must be available.
pub(super) const CUT: usize = 16;

/// Number of bytes around a piece that its check reads: one before it, and those up to the upper
/// byte of the size.
const AROUND: usize = 9;

/// Limit for the contents of a zone. No text has a size field below it, and memory is full of text.
const LARGEST: u32 = 128 << 20;

/// Largest plausible minor version. Linux has stayed below 21 since 3.0.
const MOST_MINOR: u32 = 31;

/// Possible header of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Position in the run.
    pub(super) at: usize,
    /// Byte order of the header.
    pub(super) order: ByteOrder,
    /// Decoded header.
    pub(super) header: ZoneHeader,
}

impl Candidate {
    /// Reads a header at `at` in this byte order; `None` if there is none.
    pub(super) fn read(run: &Run<'_>, at: usize, order: ByteOrder) -> Option<Self> {
        let header = ZoneHeader::decode(run.array(at)?, order);
        let room = run.len() - at - HEADER;
        let fits = header.size as usize / CUT <= room;
        let version = header.signature ^ SIGNATURE;
        let plausible = version == 0 || is_version(version);
        let sound = header.start <= header.size && header.size < LARGEST;
        (plausible && sound && fits).then_some(Self { at, order, header })
    }

    /// Returns the kernel version in a trace zone's header.
    pub(super) fn version(&self) -> Option<LinuxVersion> {
        let version = self.header.signature ^ SIGNATURE;
        (version != 0).then_some(LinuxVersion(version))
    }

    /// Returns one of [`SORTS`] sorts. A flood of one sort does not displace others.
    fn sort(&self) -> usize {
        usize::from(self.order == ByteOrder::Big)
            | usize::from(self.version().is_some()) << 1
            | usize::from(self.header.size == 0) << 2
            | (self.at & 1) << 3
    }
}

const SORTS: usize = 16;

/// Returns whether the code is a Linux version with trace zones: 3 to 9.
const fn is_version(code: u32) -> bool {
    matches!(code >> 16, 3..=9) && code >> 8 & 0xff <= MOST_MINOR
}

/// Search of several runs, which share one limit.
#[derive(Debug, Default)]
pub(super) struct Search {
    counts: [usize; SORTS],
    /// Held until the candidates are examined.
    many: Option<MutexGuard<'static, ()>>,
    /// Number of bytes searched.
    searched: u64,
    /// Whether candidates were dropped.
    pub(super) is_cut_short: bool,
}

impl Search {
    /// Returns all candidates of a run by position. Passes each piece to `also`, too.
    pub(super) fn run(
        &mut self,
        run: &Run<'_>,
        also: &mut dyn FnMut(&Run<'_>, usize, &[u8]),
    ) -> Vec<Candidate> {
        let mut found = Vec::new();
        let mut last_end = None;
        run.search(|start, bytes| {
            let mut look = |at: usize, order| {
                if let Some(candidate) = Candidate::read(run, at, order)
                    && self.takes(candidate)
                {
                    found.push(candidate);
                }
            };
            // A header may begin before the part, or end after it.
            let end = start + bytes.len();
            for edge in [start, end] {
                if last_end != Some(edge) {
                    look_around(run, edge, &mut look);
                }
            }
            within(bytes, |at, order| look(start + at, order));
            last_end = Some(end);
            also(run, start, bytes);
            self.searched += bytes.len() as u64;
        });
        found.sort_unstable_by_key(|candidate| (candidate.at, candidate.order == ByteOrder::Big));
        found.dedup();
        found
    }

    /// Counts a candidate, and returns whether it is within the limits.
    fn takes(&mut self, candidate: Candidate) -> bool {
        if self.many.is_none() && self.counts.iter().sum::<usize>() >= FEW {
            self.many = Some(MANY.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let count = &mut self.counts[candidate.sort()];
        *count += 1;
        self.is_cut_short |= *count > MOST;
        *count <= MOST
    }

    /// Returns the number of bytes searched.
    pub(super) const fn searched(&self) -> u64 {
        self.searched
    }
}

/// Calls `look` for each position of a run that may be a header with bytes on both sides of `edge`.
fn look_around(run: &Run<'_>, edge: usize, look: &mut impl FnMut(usize, ByteOrder)) {
    let start = edge.saturating_sub(HEADER - 1);
    let end = run.len().min(edge + HEADER - 1);
    let bytes = run.get(start, end - start).unwrap_or_default();
    look_closely(&bytes, 0..bytes.len(), &mut |at, order| {
        let at = start + at;
        if at < edge && edge < at + HEADER {
            look(at, order);
        }
    });
}

/// Calls `look` for each position in `bytes` that may be a header.
fn within(bytes: &[u8], mut look: impl FnMut(usize, ByteOrder)) {
    // A piece needs a preceding byte.
    let mut at = 1;
    look_closely(bytes, 0..1, &mut look);
    while let Some(piece) = bytes.get(at - 1..).and_then(<[u8]>::first_chunk) {
        if has_letter(piece) && is_interesting(piece) {
            look_closely(bytes, at..at + PIECE, &mut look);
        }
        at += PIECE;
    }
    look_closely(bytes, at..bytes.len(), &mut look);
}

/// Highest byte of every signature: a trace zone's version only changes lower bytes.
const HIGHEST: u8 = 0x43;

/// Highest upper byte of a size.
const SIZE: u8 = (LARGEST >> 24) as u8 - 1;

/// Returns whether any byte may be the highest of a signature, followed by a possible size. The
/// size's highest byte is the eighth after it in both byte orders. The code has no branch, so that
/// the compiler compares whole vectors.
fn has_letter(piece: &[u8; PIECE + AROUND]) -> bool {
    let sizes = &piece[AROUND..];
    let pairs = piece[1..=PIECE].iter().zip(sizes);
    let hit = |letter: u8, size: u8| u8::from((letter == HIGHEST) & (size <= SIZE));
    pairs.fold(0, |hits, (letter, size)| hits | hit(*letter, *size)) != 0
}

/// Returns whether any of these bytes is also beside the next lower byte of a signature.
fn is_interesting(piece: &[u8; PIECE + AROUND]) -> bool {
    let hits = (1..=PIECE).fold(0, |hits, at| {
        let is_beside = is_version_byte(piece[at - 1]) | is_version_byte(piece[at + 1]);
        hits | u8::from((piece[at] == HIGHEST) & (piece[at + 8] <= SIZE) & is_beside)
    });
    hits != 0
}

/// Returns whether the byte is 0x47 XORed with a major version below 16.
const fn is_version_byte(byte: u8) -> bool {
    byte & 0xf0 == 0x40
}

/// Checks headers whose signature has its highest byte in `places`.
fn look_closely(bytes: &[u8], places: Range<usize>, look: &mut impl FnMut(usize, ByteOrder)) {
    let is_version = |at: usize| bytes.get(at).is_some_and(|byte| is_version_byte(*byte));
    for at in places {
        if bytes.get(at) != Some(&HIGHEST) {
            continue;
        }
        if let Some(start) = at.checked_sub(3)
            && is_version(at - 1)
            && start + HEADER <= bytes.len()
        {
            look(start, ByteOrder::Little);
        }
        if is_version(at + 1) && at + HEADER <= bytes.len() {
            look(at, ByteOrder::Big);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::slices::Slices;
    use proptest::prelude::*;
    use std::vec;

    fn candidates(bytes: &[u8]) -> Vec<Candidate> {
        let memory = Slices::new([(0, bytes)]);
        let mut search = Search::default();
        let runs = Run::all(&memory, 0..u64::MAX);
        runs.flat_map(|run| search.run(&run, &mut |_, _, _| {}))
            .collect()
    }

    proptest! {
        #[test]
        fn a_header_is_found_at_every_offset_in_either_order_over_any_boundary(
            before in 0usize..600,
            after in 0usize..600,
            big in any::<bool>(),
            version in prop::sample::select(&[0, 0x03_0000, 0x06_01c0, 0x05_0a_ff, 0x09_1f_00][..]),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let header = ZoneHeader { signature: SIGNATURE ^ version, start: 3, size: 5 };
            let mut bytes = vec![0; before];
            bytes.extend(header.encode(order));
            bytes.extend(vec![0; 5 + after]);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|cut| (cut[0] as u64, &bytes[cut[0]..cut[1]]));
            let memory = Slices::new(pieces);
            let runs: Vec<_> = Run::all(&memory, 0..u64::MAX).collect();
            prop_assert_eq!(runs.len(), 1);
            let mut search = Search::default();
            prop_assert_eq!(search.run(&runs[0], &mut |_, _, _| {}), [Candidate { at: before, order, header }]);
            prop_assert_eq!(search.searched(), bytes.len() as u64);
        }
    }

    #[test]
    fn bytes_that_cannot_be_a_header_are_none() {
        let little = |signature, start, size| {
            let mut bytes = vec![0; 64];
            bytes[2..14].copy_from_slice(
                &ZoneHeader {
                    signature,
                    start,
                    size,
                }
                .encode(ByteOrder::Little),
            );
            candidates(&bytes).len()
        };
        assert_eq!(little(SIGNATURE, 0, 0), 1);
        assert_eq!(little(SIGNATURE, 9, 8), 0);
        assert_eq!(little(SIGNATURE, 0, 20_000), 0);
        assert_eq!(little(SIGNATURE ^ 0x0001_0203, 0, 0), 0);
        assert_eq!(candidates(&[]), []);
    }
}
