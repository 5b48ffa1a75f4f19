//! Compression of dmesg bodies that Linux can read, for writers with an allocator.
//!
//! Linux decompresses only the method of the *reading* kernel: `pstore.compress=`, by default
//! deflate, and only deflate since 6.6. So use deflate if the next kernel is unknown. The result
//! must also fit: see [`longest_deflated`](crate::longest_deflated).

use alloc::vec::Vec;

use ruzstd::encoding::CompressionLevel;
use zlib_rs::{Deflate, DeflateFlush, Status};

/// log2 of deflate's window in Linux before 6.6 (`DEFLATE_DEF_WINBITS`, crypto/deflate.c).
pub const DEFLATE_WINDOW_BITS: u8 = 11;

/// Default compression level of zlib and Linux.
const LEVEL: i32 = -1;

/// Compresses with deflate, without a zlib header, with no match farther back than 2 KiB.
///
/// Linux's own records have this window before 6.6, and its reader is set up for it. (The reader of
/// 6.1 in fact accepts longer distances, because it keeps all its output. From 6.6 the window is 32
/// KiB.) The short window costs little, because nearby log lines are similar.
pub fn deflate_raw(text: &[u8]) -> Vec<u8> {
    let body = deflate(text, DEFLATE_WINDOW_BITS);
    match body.first() {
        // An empty stored block prevents a start that Linux would skip as white space. (A short
        // text that starts with `P` has such a start.)
        Some(9..=13 | 32 | 160) => [&[0, 0, 0, 0xff, 0xff], &body[..]].concat(),
        _ => body,
    }
}

fn deflate(text: &[u8], window_bits: u8) -> Vec<u8> {
    let mut deflate = Deflate::new(LEVEL, false, window_bits);
    let mut out = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let (read, wrote) = (deflate.total_in() as usize, deflate.total_out());
        let status = deflate.compress(&text[read..], &mut chunk, DeflateFlush::Finish);
        out.extend_from_slice(&chunk[..(deflate.total_out() - wrote) as usize]);
        // It only fails for a wrong set-up or use, which does not occur here.
        if !matches!(status, Ok(Status::Ok | Status::BufError)) {
            return out;
        }
    }
}

/// Compresses to one LZ4 block without frame or size: Linux's `lz4`.
pub fn lz4(text: &[u8]) -> Vec<u8> {
    lz4_flex::block::compress(text)
}

/// Compresses to one Zstandard frame: Linux's `zstd`.
///
/// The encoder is pure Rust and has one level, about zstd's level 1. Linux uses level 3 and gets
/// smaller records.
pub fn zstd(text: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text, CompressionLevel::Fastest)
}

#[cfg(test)]
mod tests {
    use miniz_oxide::inflate::TINFLStatus;
    use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
    use proptest::prelude::*;

    use super::*;

    /// Inflates with a ring of the window's size, in which a match from farther back fails.
    fn inflate_in_window(body: &[u8]) -> Option<Vec<u8>> {
        let mut state = DecompressorOxide::new();
        let mut ring = [0; 1 << DEFLATE_WINDOW_BITS];
        let (mut read, mut out) = (0, Vec::new());
        loop {
            let at = out.len() % ring.len();
            let (status, took, gave) = decompress(&mut state, &body[read..], &mut ring, at, 0);
            read += took;
            out.extend_from_slice(&ring[at..at + gave]);
            match status {
                TINFLStatus::Done => return Some(out),
                TINFLStatus::HasMoreOutput => {}
                _ => return None,
            }
        }
    }

    /// Returns a text that repeats after `distance` bytes of noise.
    fn repeats_after(distance: usize) -> Vec<u8> {
        let mut state = 1u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let once: Vec<u8> = (0..distance).map(|_| noise()).collect();
        [&once[..], &once[..]].concat()
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow, and no unsafe code of this crate")]
    fn the_check_of_the_window_sees_a_match_too_far_back() {
        let text = repeats_after(3000);
        assert!(inflate_in_window(&deflate(&text, 15)).as_ref() != Some(&text));
        assert!(inflate_in_window(&deflate_raw(&text)).as_ref() == Some(&text));
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            "<6>\\[ +[0-9]{1,5}\\.[0-9]{6}\\] [a-z ]{0,60}\n",
            Just("<6>[    0.000000] Command line: console=ttyS0 panic=-1\n".to_owned()),
        ];
        let log = prop::collection::vec(line, 0..200).prop_map(|lines| lines.concat().into_bytes());
        let noise = prop::collection::vec(any::<u8>(), 0..2000);
        let far = (0..6000usize).prop_map(repeats_after);
        prop_oneof![log, noise, far]
    }

    #[test]
    fn no_body_starts_with_white_space_for_linux() {
        let body = deflate_raw(b"Panic#1 Part1\nx\n");
        assert_eq!(body[..5], [0, 0, 0, 0xff, 0xff]);
        assert_eq!(inflate_in_window(&body).unwrap(), b"Panic#1 Part1\nx\n");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        #[cfg_attr(miri, ignore = "slow, and no unsafe code of this crate")]
        fn no_match_is_farther_back_than_two_kibibytes(text in text()) {
            prop_assert_eq!(inflate_in_window(&deflate_raw(&text)), Some(text));
        }
    }
}
