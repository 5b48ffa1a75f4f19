//! Compressed dmesg bodies, compared with the texts that Linux recovered from them.
use std::fs;
use std::path::PathBuf;

use nostall_postmortem::decompress::{Compression, Error, UnknownCompression, decompress, find};
use nostall_pstore::compress;
use proptest::prelude::*;

const LIMIT: usize = 1 << 16;

/// Reads a file below this crate's folder of tests.
fn tests(path: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests");
    fs::read(folder.join(path)).unwrap()
}

/// Returns the compressed body of an image's first dmesg record, at the image's start.
fn body(folder: &str) -> Vec<u8> {
    let image = tests(&format!(
        "../../../drivers/pstore/tests/fixtures/{folder}/image.bin"
    ));
    let size = u32::from_le_bytes(*image[8..].first_chunk().unwrap()) as usize;
    let record = &image[12..][..size];
    let header = record.iter().position(|byte| *byte == b'\n').unwrap();
    assert!(record[..header].starts_with(b"====") && record[..header].ends_with(b"-C"));
    record[header + 1..].to_vec()
}

#[test]
fn a_body_compressed_by_linux_decompresses_to_linuxs_text() {
    for (folder, compression) in [
        ("plain", Compression::Deflate),
        ("armv7", Compression::Deflate),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
    ] {
        let text = tests(&format!(
            "../../../drivers/pstore/tests/fixtures/{folder}/pstore/dmesg-ramoops-0"
        ));
        assert_eq!(
            find(&body(folder), LIMIT),
            Some((compression, text.clone())),
            "{folder}"
        );
        assert_eq!(
            decompress(compression, &body(folder), text.len()),
            Ok(text.clone())
        );
        assert_eq!(
            decompress(compression, &body(folder), text.len() - 1),
            Err(Error::TooLarge(text.len() - 1))
        );
    }
}

#[test]
fn a_body_compressed_by_liblzo2_decompresses() {
    let text = tests("../../../drivers/pstore/tests/fixtures/plain/pstore/dmesg-ramoops-0");
    for (made, text) in [
        ("made/dmesg.lzo1x_1", &text[..8000]),
        ("made/dmesg.lzo1x_999", &text[..]),
    ] {
        assert_eq!(
            find(&tests(made), LIMIT),
            Some((Compression::Lzo, text.to_vec())),
            "{made}"
        );
        assert_eq!(
            decompress(Compression::Lzo, &tests(made), 100),
            Err(Error::TooLarge(100))
        );
    }
}

#[test]
fn a_body_that_is_cut_or_followed_by_bytes_is_not_accepted() {
    for body in [
        body("plain"),
        body("zstd"),
        body("lz4"),
        tests("made/dmesg.lzo1x_1"),
    ] {
        assert_eq!(find(&body[..body.len() - 1], LIMIT), None);
        assert_eq!(find(&[&body[..], &[0]].concat(), LIMIT), None);
        assert_eq!(find(&[&body[..], &body].concat(), LIMIT), None);
    }
}

#[test]
fn a_text_must_begin_as_linuxs_do() {
    let accepted = |text: &str| find(&compress::deflate_raw(text.as_bytes()), LIMIT).is_some();
    for text in [
        "Panic#1 Part1\n",
        "Oops#12 Part3\n<4>[",
        "Machine check#2 Part1\n",
        "Unknown#1 Part1\n\0",
    ] {
        assert!(accepted(text), "{text:?}");
    }
    for text in [
        "",
        "Panic",
        "Panic#1 Part1",
        "#1 Part1\n",
        "Panic#x Part1\n",
        "Panic#1 Part\n",
        "Pa\u{1}nic#1 Part1\n",
    ] {
        assert!(!accepted(text), "{text:?}");
    }
}

#[test]
fn compressions_have_linuxs_names() {
    for compression in Compression::ALL {
        assert_eq!(compression.to_string().parse(), Ok(compression));
    }
    assert_eq!("lz4hc".parse(), Ok(Compression::Lz4));
    assert_eq!(
        "842".parse::<Compression>(),
        Err(UnknownCompression::Unsupported842)
    );
    assert_eq!(
        "zip".parse::<Compression>(),
        Err(UnknownCompression::Unknown)
    );
}

/// Returns a zstd frame with one block: a zero, `len` times.
fn zstd_bomb(len: u32) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    for _ in 0..1000 {
        frame.extend(&(len << 3 | 0b010).to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}

#[test]
fn a_bomb_stops_at_the_limit() {
    let zeroes = vec![0; 1 << 20];
    assert_eq!(
        decompress(Compression::Deflate, &compress::deflate_raw(&zeroes), 1000),
        Err(Error::TooLarge(1000))
    );
    assert_eq!(
        decompress(Compression::Lz4, &compress::lz4(&zeroes), 1000),
        Err(Error::TooLarge(1000))
    );
    assert_eq!(
        decompress(Compression::Zstd, &zstd_bomb(1 << 17), 1000),
        Err(Error::TooLarge(1000))
    );
    assert_eq!(
        decompress(Compression::Zstd, &compress::zstd(&zeroes), usize::MAX),
        Ok(zeroes)
    );
}

fn compressed(compression: Compression, text: &[u8]) -> Vec<u8> {
    match compression {
        Compression::Deflate => compress::deflate_raw(text),
        Compression::Lz4 => compress::lz4(text),
        // liblzo2's result for an empty text. lzokay 2.0.1 adds an invalid byte before it.
        Compression::Lzo if text.is_empty() => vec![0x11, 0, 0],
        Compression::Lzo => lzokay::compress::compress(text).unwrap(),
        Compression::Zstd => compress::zstd(text),
    }
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let line = "<6>\\[ +[0-9]{1,5}\\.[0-9]{6}\\] [a-z ]{0,60}\n";
    let log = prop::collection::vec(line, 0..100).prop_map(|lines| lines.concat().into_bytes());
    prop_oneof![
        log,
        prop::collection::vec(any::<u8>(), 0..3000),
        prop::collection::vec(0..2u8, 0..3000)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_compressed_text_decompresses_unchanged(text in text(), compression in prop::sample::select(&Compression::ALL)) {
        let body = compressed(compression, &text);
        prop_assert_eq!(decompress(compression, &body, text.len()), Ok(text.clone()));
        let record = [b"Panic#1 Part1\n", &text[..]].concat();
        prop_assert_eq!(find(&compressed(compression, &record), LIMIT), Some((compression, record)));
    }

    #[test]
    fn any_bytes_are_handled_within_the_limit(
        head in prop::sample::select(vec![&b""[..], b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfd\x20\x40", b"\x11"]),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        limit in 0..5000usize,
    ) {
        let body = [head, &bytes].concat();
        for compression in Compression::ALL {
            if let Ok(text) = decompress(compression, &body, limit) {
                prop_assert!(text.len() <= limit);
            }
        }
        prop_assert_eq!(find(&body, limit), None);
    }

    #[test]
    fn a_damaged_body_is_handled_within_the_limit(
        text in text(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        limit in 0..5000usize,
    ) {
        for compression in Compression::ALL {
            let mut body = compressed(compression, &text);
            for (at, byte) in &damage {
                let at = at.index(body.len().max(1));
                if let Some(old) = body.get_mut(at) {
                    *old = *byte;
                }
            }
            if let Ok(text) = decompress(compression, &body, limit) {
                prop_assert!(text.len() <= limit);
            }
        }
    }
}
