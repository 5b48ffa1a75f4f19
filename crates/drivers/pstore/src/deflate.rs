//! Deflate without allocation, for a crashing kernel: one pass, fixed codes, a window of 2 KiB (RFC
//! 1951, section 3.2.6).
//!
//! A kernel's log shrinks to less than half; zlib shrinks it to a third. Less compression is
//! enough, because Linux can read back at most 1.7 to 2.2 times the size of the zone's data. The
//! factor depends on that size ([`longest_deflated`](crate::longest_deflated)).

/// Longest distance of a match: Linux's window for its own records (`crypto/deflate.c`,
/// `DEFLATE_DEF_WINBITS`).
const WINDOW: usize = 1 << 11;

/// Lengths of the shortest and the longest match.
const SHORTEST: usize = 3;
const LONGEST: usize = 258;

const HASH_BITS: u32 = 10;

/// Hash table of the positions for matches: 2 KiB, allocated before the crash.
#[derive(Clone, Debug)]
pub struct Matches([u16; 1 << HASH_BITS]);

impl Default for Matches {
    fn default() -> Self {
        Self::new()
    }
}

impl Matches {
    /// Creates an empty table.
    pub const fn new() -> Self {
        Self([0; 1 << HASH_BITS])
    }

    /// Returns the last position of three bytes with the same hash as those at `at`, if it is
    /// within the window. Stores the new one. The caller compares the bytes.
    fn replace(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let &[a, b, c] = text.get(at..)?.first_chunk()?;
        let hash = u32::from_le_bytes([a, b, c, 0]).wrapping_mul(0x9e37_79b1);
        let slot = self.0.get_mut((hash >> (32 - HASH_BITS)) as usize)?;
        let distance = (at as u16).wrapping_sub(*slot);
        *slot = at as u16;
        let from = at.checked_sub(distance.into())?;
        (1..=WINDOW).contains(&distance.into()).then_some(from)
    }
}

/// Compresses `title` and then `text` into `out`, as one stream without a zlib header. Returns its
/// length; `None` if `out` is too small.
pub(crate) fn deflate(
    title: &[u8],
    text: &[u8],
    matches: &mut Matches,
    out: &mut [u8],
) -> Option<usize> {
    let mut bits = Bits {
        out,
        len: 0,
        held: 0,
        count: 0,
    };
    // An empty block comes first. Otherwise a `P` would make the stream start with white space for
    // Linux, which skips it after the header line.
    bits.push(0b010, 3)?;
    bits.literal(END)?;
    // Last block, with fixed codes.
    bits.push(0b011, 3)?;
    for &byte in title {
        bits.literal(byte.into())?;
    }
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let from = matches.replace(text, at);
        let len = from.map_or(0, |from| common(&text[from..], &text[at..]));
        match from {
            Some(from) if len >= SHORTEST => {
                bits.repeat(len, at - from)?;
                for skipped in at + 1..at + len {
                    matches.replace(text, skipped);
                }
                at += len;
            }
            _ => {
                bits.literal(byte.into())?;
                at += 1;
            }
        }
    }
    bits.literal(END)?;
    bits.push(0, 7)?;
    Some(bits.len)
}

fn common(a: &[u8], b: &[u8]) -> usize {
    let pairs = a.iter().zip(b).take(LONGEST);
    pairs.take_while(|(a, b)| a == b).count()
}

/// Code at the end of a block.
const END: u16 = 256;

struct Bits<'a> {
    out: &'a mut [u8],
    len: usize,
    /// Bits of an incomplete byte, lowest first.
    held: u32,
    count: u32,
}

impl Bits<'_> {
    fn push(&mut self, bits: u32, count: u32) -> Option<()> {
        self.held |= bits << self.count;
        self.count += count;
        while self.count >= 8 {
            *self.out.get_mut(self.len)? = self.held as u8;
            self.len += 1;
            self.held >>= 8;
            self.count -= 8;
        }
        Some(())
    }

    /// Appends a code, highest bit first.
    fn code(&mut self, code: u16, count: u32) -> Option<()> {
        self.push(u32::from(code.reverse_bits() >> (16 - count)), count)
    }

    fn literal(&mut self, symbol: u16) -> Option<()> {
        match symbol {
            0..=143 => self.code(0x30 + symbol, 8),
            144..=255 => self.code(0x190 + symbol - 144, 9),
            256..=279 => self.code(symbol - 256, 7),
            _ => self.code(0xc0 + symbol - 280, 8),
        }
    }

    /// Appends a match of `len` bytes at `distance`.
    fn repeat(&mut self, len: usize, distance: usize) -> Option<()> {
        let (symbol, extra, bits) = match len {
            LONGEST => (285, 0, 0),
            _ => {
                let (group, extra, bits) = grouped(len - SHORTEST, 2);
                (257 + group, extra, bits)
            }
        };
        self.literal(symbol)?;
        self.push(extra, bits)?;
        let (group, extra, bits) = grouped(distance - 1, 1);
        self.code(group, 5)?;
        self.push(extra, bits)
    }
}

/// Returns the group that contains `value`, its offset in the group, and the number of bits of the
/// offset. Each group size is used `1 << per_size` times (the first one twice as often), and then
/// doubles.
const fn grouped(value: usize, per_size: u32) -> (u16, u32, u32) {
    let Some(log) = value.checked_ilog2() else {
        return (0, 0, 0);
    };
    let bits = log.saturating_sub(per_size);
    let group = (value >> bits) + ((bits as usize) << per_size);
    (group as u16, (value & ((1 << bits) - 1)) as u32, bits)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use miniz_oxide::inflate::decompress_to_vec;
    use proptest::prelude::*;
    use std::vec;

    fn deflated(title: &[u8], text: &[u8]) -> std::vec::Vec<u8> {
        let mut out = vec![0; 64 + 9 * (title.len() + text.len()) / 8];
        let len = deflate(title, text, &mut Matches::new(), &mut out).unwrap();
        out.truncate(len);
        out
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow, and no unsafe code")]
    fn every_length_and_distance_is_encoded() {
        let edges = (0..=11).flat_map(|bits| [0, 1, 2, 3].map(|part| (4 + part) << bits >> 2));
        for distance in edges.flat_map(|edge| [edge, edge + 1, edge + 2]) {
            let text: vec::Vec<u8> = (0..distance + 300)
                .map(|i| {
                    if i % distance == 0 {
                        0xff
                    } else {
                        (i % distance % 251) as u8
                    }
                })
                .collect();
            assert_eq!(decompress_to_vec(&deflated(b"", &text)).unwrap(), text);
        }
        for len in 0..600 {
            let text = vec![b'='; len];
            assert_eq!(decompress_to_vec(&deflated(b"", &text)).unwrap(), text);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow, and no unsafe code")]
    fn a_log_shrinks_to_less_than_half() {
        let log = include_bytes!("../tests/fixtures/nocompress/pstore/dmesg-ramoops-0");
        let packed = deflated(b"Panic#1 Part1\n", log);
        assert!(
            2 * packed.len() < log.len(),
            "{} of {}",
            packed.len(),
            log.len()
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        #[cfg_attr(miri, ignore = "slow, and no unsafe code")]
        fn a_deflated_text_inflates_to_itself(
            title in "[A-Z][a-z]{0,9}#1 Part1\n",
            text in "[ab\u{0}-\u{ff}]{0,40}([a-d]{5}[ab]{9}){0,400}",
        ) {
            let (title, text) = (title.as_bytes(), text.as_bytes());
            let both = [title, text].concat();
            prop_assert_eq!(decompress_to_vec(&deflated(title, text)).unwrap(), both);
        }

        #[test]
        fn too_little_room_causes_no_panic(text in prop::collection::vec(any::<u8>(), 0..500), room in 0usize..400) {
            let mut out = vec![0; room];
            if let Some(len) = deflate(b"", &text, &mut Matches::new(), &mut out) {
                prop_assert_eq!(decompress_to_vec(&out[..len]).unwrap(), text);
            }
        }
    }
}
