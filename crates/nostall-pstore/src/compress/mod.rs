//! Compression of dmesg bodies, for writers with an allocator: what comes out, Linux reads back.
//!
//! Linux reads only what the *reading* kernel is set to (`pstore.compress=`, deflate if nothing is
//! said, and deflate alone since 6.6), so deflate is the one to use where nothing is known of the
//! next kernel. And it must fit: see [`longest_deflated`](crate::longest_deflated).

mod zlib;

use alloc::vec::Vec;

use ruzstd::encoding::CompressionLevel;
pub use zlib::{DEFLATE_WINDOW_BITS, deflate_raw};

/// One LZ4 block, without a frame or a size: Linux's `lz4`.
pub fn lz4(text: &[u8]) -> Vec<u8> {
    lz4_flex::block::compress(text)
}

/// One Zstandard frame: Linux's `zstd`.
///
/// The encoder is pure Rust and has one level, about zstd's level 1; Linux uses level 3 and gets
/// smaller records.
pub fn zstd(text: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text, CompressionLevel::Fastest)
}
