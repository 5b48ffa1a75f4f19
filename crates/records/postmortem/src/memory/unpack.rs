//! Files that are compressed as a whole, with gzip, Zstandard, xz or lz4: unpacked into memory.

use std::io::{self, ErrorKind, Read};

use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use zlib_rs::{Inflate, InflateFlush, Status};

use super::error::Error;
use super::format::MAX_UNPACKED;

/// Number of bytes that are unpacked at once.
const PIECE: usize = 64 << 10;

/// Takes unpacked pieces.
type Sink<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

/// Compression of a file.
#[derive(Clone, Copy, Debug)]
struct Packing {
    magic: &'static [u8],
    name: &'static str,
    /// Command that unpacks a file.
    command: &'static str,
    /// Passes each unpacked piece on.
    unpack: fn(&[u8], &mut Sink<'_>) -> io::Result<()>,
}

const PACKINGS: [Packing; 4] = [
    Packing {
        magic: b"\x1f\x8b",
        name: "gzip-compressed",
        command: "gunzip",
        unpack: |bytes, each| gunzip(bytes, each),
    },
    Packing {
        magic: b"\x28\xb5\x2f\xfd",
        name: "zstd-compressed",
        command: "unzstd",
        unpack: |bytes, each| unzstd(bytes, each),
    },
    Packing {
        magic: b"\xfd7zXZ\0",
        name: "xz-compressed",
        command: "unxz",
        unpack: |bytes, each| {
            /// Limit for xz's own memory in KiB. `xz -9` needs 65 MiB.
            const MOST: u32 = 256 << 10;

            copy(XzReader::new_mem_limit(bytes, true, MOST), each)
        },
    },
    Packing {
        magic: b"\x04\x22\x4d\x18",
        name: "lz4-compressed",
        command: "unlz4",
        unpack: |bytes, each| unlz4(bytes, each),
    },
];

/// Returns the contents of a compressed file, and whether they are whole. If the file is damaged or
/// cut off, they end there. `None` if it is not compressed, or in another way.
///
/// # Errors
///
/// [`Error::Packed`] if nothing could be unpacked, or more than [`MAX_UNPACKED`] bytes.
pub(super) fn unpack(file: &[u8]) -> Result<Option<(Vec<u8>, bool)>, Error> {
    at_most(MAX_UNPACKED, file)
}

fn at_most(most: usize, file: &[u8]) -> Result<Option<(Vec<u8>, bool)>, Error> {
    let Some(packing) = PACKINGS
        .into_iter()
        .find(|packing| file.starts_with(packing.magic))
    else {
        return Ok(None);
    };
    let mut all = Vec::new();
    let mut is_too_large = false;
    let unpacked = (packing.unpack)(file, &mut |piece| {
        if piece.len() > most - all.len() {
            is_too_large = true;
            return Err(ErrorKind::OutOfMemory.into());
        }
        all.extend_from_slice(piece);
        Ok(())
    });
    match unpacked {
        Ok(()) => Ok(Some((all, true))),
        Err(_) if !is_too_large && !all.is_empty() => Ok(Some((all, false))),
        Err(_) => Err(Error::Packed {
            format: packing.name,
            is_too_large,
            command: packing.command,
        }),
    }
}

/// Passes all bytes of a reader on.
fn copy(mut from: impl Read, each: &mut Sink<'_>) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(len) => each(&piece[..len])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn invalid() -> io::Error {
    ErrorKind::InvalidData.into()
}

/// Unpacks all members of a gzip file.
fn gunzip(mut rest: &[u8], each: &mut Sink<'_>) -> io::Result<()> {
    /// zlib's value for "gzip, with any window".
    const GZIP: u8 = 16 + 15;

    let mut piece = vec![0; PIECE];
    loop {
        let mut inflate = Inflate::new(true, GZIP);
        loop {
            let before = (inflate.total_in(), inflate.total_out());
            let status = inflate
                .decompress(rest, &mut piece, InflateFlush::NoFlush)
                .map_err(|_| invalid())?;
            let read = (inflate.total_in() - before.0) as usize;
            let wrote = (inflate.total_out() - before.1) as usize;
            rest = &rest[read..];
            each(&piece[..wrote])?;
            match status {
                Status::StreamEnd => break,
                // The file is cut off.
                _ if read == 0 && wrote == 0 => return Err(invalid()),
                _ => {}
            }
        }
        // Tapes have zeros at the end.
        if rest.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
    }
}

/// Unpacks all frames of a Zstandard file.
fn unzstd(mut rest: &[u8], each: &mut Sink<'_>) -> io::Result<()> {
    /// Largest window, that of `zstd --long`.
    const WINDOW: u64 = 128 << 20;

    while !rest.is_empty() {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW);
        let mut stream = match StreamingDecoder::new_with_decoder(rest, decoder) {
            Ok(stream) => stream,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let skip = (length as usize).checked_add(8).ok_or_else(invalid)?;
                rest = rest.get(skip..).ok_or_else(invalid)?;
                continue;
            }
            Err(_) => return Err(invalid()),
        };
        copy(&mut stream, each)?;
        let (next, decoder) = stream.into_parts();
        rest = next;
        if let Some(sum) = decoder.get_checksum_from_data()
            && decoder.get_calculated_checksum() != Some(sum)
        {
            return Err(invalid());
        }
    }
    Ok(())
}

/// Unpacks all frames of an lz4 file.
fn unlz4(mut rest: &[u8], each: &mut Sink<'_>) -> io::Result<()> {
    while !rest.is_empty() {
        // The library takes a cut before any block for the end.
        let frame = lz4_frame(rest).and_then(|len| rest.split_at_checked(len));
        let Some((frame, next)) = frame else {
            copy(lz4_flex::frame::FrameDecoder::new(rest), each)?;
            return Err(invalid());
        };
        copy(lz4_flex::frame::FrameDecoder::new(frame), each)?;
        rest = next;
    }
    Ok(())
}

/// Returns the number of bytes of the frame at the start of an lz4 file; `None` if it has no end.
/// Source: `lz4_Frame_format.md`.
fn lz4_frame(file: &[u8]) -> Option<usize> {
    let flags = *file.get(4)?;
    let has = |bit: u8, bytes: usize| if flags >> bit & 1 == 1 { bytes } else { 0 };
    // Magic, flags, block size, content size, dictionary, checksum of the header.
    let mut at = 4 + 2 + has(3, 8) + has(0, 4) + 1;
    loop {
        let size = u32::from_le_bytes(*file.get(at..)?.first_chunk()?);
        at += 4;
        if size == 0 {
            // Checksum of the contents.
            return Some(at + has(2, 4));
        }
        // The highest bit marks a stored block. A checksum may follow it.
        at = at.checked_add((size & 0x7fff_ffff) as usize + has(4, 4))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a recorded file, in each compression.
    fn recorded() -> impl Iterator<Item = Vec<u8>> {
        ["gz", "xz", "zst", "lz4"].into_iter().map(|extension| {
            let folder = env!("CARGO_MANIFEST_DIR");
            let path = format!("{folder}/tests/fixtures/kdump/qemu-z.{extension}");
            std::fs::read(path).unwrap()
        })
    }

    #[test]
    fn files_of_each_tool_are_unpacked_up_to_the_limit() {
        /// Size of the file that was compressed.
        const LEN: usize = 285_602;

        let mut before = None;
        for file in recorded() {
            let (unpacked, is_whole) = at_most(LEN, &file).unwrap().unwrap();
            assert!(is_whole);
            assert!(unpacked.len() == LEN && unpacked.starts_with(b"makedumpfile"));
            let before = before.get_or_insert(unpacked.clone());
            assert!(*before == unpacked);
            // Tools append files.
            let twice = at_most(2 * LEN, &file.repeat(2)).unwrap().unwrap();
            assert!(twice == (unpacked.repeat(2), true));
            let error = at_most(LEN - 1, &file).unwrap_err();
            assert!(matches!(
                error,
                Error::Packed {
                    is_too_large: true,
                    ..
                }
            ));
        }
    }

    #[test]
    fn of_a_damaged_or_cut_off_file_the_part_before_is_unpacked() {
        const MOST: usize = 1 << 20;

        for file in recorded() {
            let (whole, _) = at_most(MOST, &file).unwrap().unwrap();
            for len in [8, 100, file.len() / 2, file.len() - 5, file.len() - 1] {
                match at_most(MOST, &file[..len]) {
                    Ok(unpacked) => {
                        let (part, is_whole) = unpacked.unwrap();
                        assert!(whole.starts_with(&part) && !is_whole && !part.is_empty());
                    }
                    Err(Error::Packed { is_too_large, .. }) => {
                        assert!(!is_too_large);
                        // Others lose a block or a window, which may have all.
                        assert!(len <= 100 || !file.starts_with(PACKINGS[0].magic), "{len}");
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            let mut damaged = file.clone();
            damaged[file.len() / 2] ^= 0x10;
            let unpacked = at_most(MOST, &damaged);
            let is_whole = unpacked.is_ok_and(|unpacked| unpacked.is_some_and(|it| it.1));
            assert!(!is_whole, "{:x?}", &file[..4]);
        }
    }
}
