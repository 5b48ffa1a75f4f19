//! Compression of a page.

use std::fmt;

use ruzstd::decoding::FrameDecoder;
use zlib_rs::{Inflate, InflateFlush, Status};

/// Compression of a page. The values are the flags of its descriptor (`DUMP_DH_COMPRESSED_*` in
/// makedumpfile's `diskdump_mod.h`). Only zlib has a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Stored = 0,
    Zlib = 1,
    Lzo = 2,
    Snappy = 4,
    Zstd = 0x20,
}

impl Packing {
    pub(super) const ALL: [Self; 5] = [
        Self::Stored,
        Self::Zlib,
        Self::Lzo,
        Self::Snappy,
        Self::Zstd,
    ];

    /// Returns the compression with these flags.
    pub(super) fn of(flags: u32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|packing| *packing as u32 == flags)
    }
}

/// Decompressors, which are used again for each page.
pub(super) struct Unpacker {
    inflate: Inflate,
    zstd: FrameDecoder,
    snappy: snap::raw::Decoder,
}

impl Unpacker {
    pub(super) fn new() -> Self {
        /// Window that every decoder should support (RFC 8878, section 3.1.1.1.2).
        const WINDOW: u64 = 8 << 20;

        let mut zstd = FrameDecoder::new();
        zstd.set_max_window_size(WINDOW);
        Self {
            inflate: Inflate::new(true, 15),
            zstd,
            snappy: snap::raw::Decoder::new(),
        }
    }

    /// Decompresses a page; `None` if the bytes are not exactly those of a page of this size.
    pub(super) fn unpack(&mut self, packing: Packing, bytes: &[u8], page: &mut [u8]) -> Option<()> {
        let len = match packing {
            Packing::Stored => {
                (bytes.len() == page.len()).then(|| page.copy_from_slice(bytes))?;
                page.len()
            }
            Packing::Zlib => {
                self.inflate.reset(true);
                let end = self.inflate.decompress(bytes, page, InflateFlush::Finish);
                let is_end = matches!(end, Ok(Status::StreamEnd));
                (is_end && self.inflate.total_in() == bytes.len() as u64)
                    .then(|| self.inflate.total_out() as usize)?
            }
            Packing::Lzo => lzokay::decompress::decompress(bytes, page).ok()?,
            Packing::Snappy => self.snappy.decompress(bytes, page).ok()?,
            Packing::Zstd => self.zstd.decode_all(bytes, page).ok()?,
        };
        (len == page.len()).then_some(())
    }
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacker").finish_non_exhaustive()
    }
}
