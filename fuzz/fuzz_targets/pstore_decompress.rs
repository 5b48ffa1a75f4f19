//! Decompresses arbitrary bodies of dmesg records with every compression: the result never
//! exceeds the limit. Compressed texts are restored.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nostall_postmortem::decompress::{Compression, Error, decompress, find};
use nostall_pstore::compress;

/// More than most zones hold, and quick to fill.
const LIMIT: usize = 1 << 16;

fuzz_target!(|body: &[u8]| {
    for compression in Compression::ALL {
        exactly_so_much_is_allowed(compression, body);
    }
    if let Some((compression, text)) = find(body, LIMIT) {
        assert_eq!(decompress(compression, body, LIMIT), Ok(text));
    }
    comes_back(body);
});

fn exactly_so_much_is_allowed(compression: Compression, body: &[u8]) {
    let Ok(text) = decompress(compression, body, LIMIT) else {
        return;
    };
    assert!(text.len() <= LIMIT);
    assert_eq!(
        decompress(compression, body, text.len()).as_ref(),
        Ok(&text)
    );
    if let Some(less) = text.len().checked_sub(1) {
        let refused = decompress(compression, body, less);
        assert_eq!(refused, Err(Error::TooLarge(less)), "{compression}");
    }
}

fn comes_back(text: &[u8]) {
    let packed = [
        (Compression::Deflate, compress::deflate_raw(text)),
        (Compression::Lz4, compress::lz4(text)),
        (Compression::Zstd, compress::zstd(text)),
    ];
    for (compression, body) in packed {
        let unpacked = decompress(compression, &body, text.len());
        assert_eq!(unpacked.as_deref(), Ok(text), "{compression}");
    }
}
