//! Every place in a dump that may be a zone's header.

use std::vec::Vec;

use crate::format::{ByteOrder, HEADER, Header, LinuxVersion, SIGNATURE};

/// Bytes looked at together.
const PIECE: usize = 64;

/// Most candidates kept: a dump with more was made to have them.
const MOST: usize = 1 << 20;

/// Of a zone that the dump's end cuts off, at least this part must be there.
pub(super) const CUT: usize = 16;

/// Bytes behind a pair that the look at it takes in: as far as the size's upper byte.
const BEHIND: usize = 8;

/// Contents of a zone are smaller. No text has a size below this where a header has
/// it, and memory is full of text.
const LARGEST: u32 = 128 << 20;

/// Largest minor version taken for one (Linux has stayed below 21 since 3.0).
const MOST_MINOR: u32 = 31;

/// What may be a zone's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Where it lies.
    pub(super) at: usize,
    /// In which byte order it is one.
    pub(super) order: ByteOrder,
    /// What it says.
    pub(super) header: Header,
}

impl Candidate {
    /// In byte order `order`, at `at`; `None` if there is none.
    fn read(bytes: &[u8], at: usize, order: ByteOrder) -> Option<Self> {
        let header = Header::decode(*bytes.get(at..)?.first_chunk()?, order);
        let room = bytes.len() - at - HEADER;
        let fits = header.size as usize / CUT <= room;
        let version = header.signature ^ SIGNATURE;
        let plausible = version == 0 || is_version(version);
        let sound = header.start <= header.size && header.size < LARGEST;
        (plausible && sound && fits).then_some(Self { at, order, header })
    }

    /// The kernel's version, if it is a trace zone's header.
    pub(super) fn version(&self) -> Option<LinuxVersion> {
        let version = self.header.signature ^ SIGNATURE;
        (version != 0).then_some(LinuxVersion(version))
    }
}

/// Whether it may be the version of a Linux that has trace zones: 3 to 9.
const fn is_version(code: u32) -> bool {
    matches!(code >> 16, 3..=9) && code >> 8 & 0xff <= MOST_MINOR
}

/// All candidates, in the order of their offsets, which are even.
pub(super) fn search(bytes: &[u8]) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(piece) = bytes.get(at..).and_then(<[u8]>::first_chunk)
        && found.len() < MOST
    {
        if is_interesting(piece) {
            look_closely(bytes, at, &piece[..PIECE], &mut found);
        }
        at += PIECE;
    }
    look_closely(bytes, at, bytes.get(at..).unwrap_or_default(), &mut found);
    found.truncate(MOST);
    // A pair of bytes is the first half of one header and the second of another.
    found.sort_unstable_by_key(|candidate| candidate.at);
    found
}

/// Whether any even pair of bytes may be the upper half of a signature, before a size
/// that is not too large: no branch, so that the compiler looks at a vector of them at
/// once.
fn is_interesting(piece: &[u8; PIECE + BEHIND]) -> bool {
    let (pairs, _) = piece.as_chunks::<2>();
    let sizes = pairs[BEHIND / 2..].iter();
    let hits = pairs.iter().zip(sizes).fold(0, |hits, (pair, size)| {
        let size = u16::from_le_bytes(*size);
        let little = is_upper_little(*pair) & (size & 0xf800 == 0);
        let big = is_upper_big(*pair) & (size & 0x00f8 == 0);
        hits | u16::from(little) | u16::from(big)
    });
    hits != 0
}

/// 0x43, and 0x47 XORed with a major version below 16, little-endian.
const fn is_upper_little(pair: [u8; 2]) -> bool {
    u16::from_le_bytes(pair) & 0xfff0 == 0x4340
}

/// The same, big-endian.
const fn is_upper_big(pair: [u8; 2]) -> bool {
    u16::from_le_bytes(pair) & 0xf0ff == 0x4043
}

fn look_closely(bytes: &[u8], start: usize, piece: &[u8], found: &mut Vec<Candidate>) {
    let (pairs, _) = piece.as_chunks::<2>();
    for (pair, at) in pairs.iter().zip((start..).step_by(2)) {
        if is_upper_little(*pair)
            && let Some(at) = at.checked_sub(2)
        {
            found.extend(Candidate::read(bytes, at, ByteOrder::Little));
        }
        if is_upper_big(*pair) {
            found.extend(Candidate::read(bytes, at, ByteOrder::Big));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    proptest! {
        #[test]
        fn a_header_is_found_at_every_even_offset_in_either_order(
            half in 0usize..600,
            after in 0usize..600,
            big in any::<bool>(),
            version in prop::sample::select(&[0, 0x03_0000, 0x06_01c0, 0x05_0a_ff, 0x09_1f_00][..]),
        ) {
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let header = Header { signature: SIGNATURE ^ version, start: 3, size: 5 };
            let mut bytes = vec![0; 2 * half];
            bytes.extend(header.encode(order));
            bytes.extend(vec![0; 5 + after]);
            prop_assert_eq!(search(&bytes), [Candidate { at: 2 * half, order, header }]);
        }
    }

    #[test]
    fn what_cannot_be_a_header_is_none() {
        let little = |signature, start, size| {
            let mut bytes = vec![0; 64];
            bytes[2..14].copy_from_slice(
                &Header {
                    signature,
                    start,
                    size,
                }
                .encode(ByteOrder::Little),
            );
            search(&bytes).len()
        };
        assert_eq!(little(SIGNATURE, 0, 0), 1);
        assert_eq!(little(SIGNATURE, 9, 8), 0);
        assert_eq!(little(SIGNATURE, 0, 20_000), 0);
        assert_eq!(little(SIGNATURE ^ 0x0001_0203, 0, 0), 0);
        assert_eq!(search(&[]), []);
    }
}
