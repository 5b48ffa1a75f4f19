//! Decompression of dmesg bodies, as Linux's pstore compresses them.
//!
//! A record says only that it is compressed, not how: [`find`] tries all. It accepts a text that
//! ends exactly where the body does and begins with Linux's `Reason#N PartM` line. Output is
//! bounded by the caller's `limit`, for any body.
//!
//! ```
//! use nostall_pstore::compress::deflate_raw;
//! use nostall_postmortem::decompress::{Compression, find};
//!
//! let body = deflate_raw(b"Panic#1 Part1\n<0>[    1.234567] Kernel panic - not syncing\n");
//! let (compression, text) = find(&body, 1 << 16).unwrap();
//! assert_eq!(compression, Compression::Deflate);
//! assert!(text.starts_with(b"Panic#1 Part1\n"));
//! ```

use std::io::Read;

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use zlib_rs::{Inflate, InflateFlush, Status};

/// A compression that Linux's pstore supports, with the name that `pstore.compress=` has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownCompression, parse_err_fn = unknown)]
pub enum Compression {
    /// `deflate`: raw deflate, no zlib header. Linux's default.
    Deflate,
    /// `lz4`, and `lz4hc`, whose output is the same format: one block, no frame, no size.
    #[strum(to_string = "lz4", serialize = "lz4hc")]
    Lz4,
    /// `lzo`: an LZO1X stream.
    Lzo,
    /// `zstd`: one Zstandard frame.
    Zstd,
}

impl Compression {
    /// All of them, first those that are the least likely to accept data of others.
    pub const ALL: [Self; 4] = [Self::Zstd, Self::Deflate, Self::Lzo, Self::Lz4];
}

fn unknown(name: &str) -> UnknownCompression {
    match name {
        "842" => UnknownCompression::Unsupported842,
        _ => UnknownCompression::Unknown,
    }
}

/// A name that is no [`Compression`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownCompression {
    /// A compression of Linux that is not supported here.
    #[error(
        "842 (IBM's, for POWER) is not supported; let the kernel that wrote the record read it back"
    )]
    Unsupported842,
    /// Neither Linux nor this crate has it.
    #[error("not a compression of Linux's pstore; those are deflate, lz4, lz4hc, lzo and zstd")]
    Unknown,
}

/// Why a body could not be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not of this compression, or damaged.
    #[error("not valid {0}; the record is damaged or compressed in another way")]
    Invalid(Compression),
    /// It ends early, and more bytes follow.
    #[error(
        "{compression} data ends {rest} bytes before the record does; it may be of another compression"
    )]
    Trailing {
        /// Compression that was tried.
        compression: Compression,
        /// How many bytes follow the end.
        rest: usize,
    },
    /// It is larger than the caller allows.
    #[error(
        "decompresses to more than {0} bytes; raise the limit if the record's zone is that large"
    )]
    TooLarge(usize),
}

/// Decompresses all of `body` to at most `limit` bytes.
///
/// # Errors
///
/// If the body is damaged, ends early, or is larger than `limit`: see [`Error`].
pub fn decompress(compression: Compression, body: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    match compression {
        Compression::Deflate => inflate(body, limit),
        Compression::Lz4 => lz4(body, limit),
        Compression::Lzo => lzo(body, limit),
        Compression::Zstd => zstd(body, limit),
    }
}

/// Finds out how a dmesg body is compressed, and decompresses it to at most `limit` bytes.
///
/// Accepts only a compression that uses all of `body` and yields a text whose first line is Linux's
/// `Reason#N PartM`.
pub fn find(body: &[u8], limit: usize) -> Option<(Compression, Vec<u8>)> {
    Compression::ALL.into_iter().find_map(|compression| {
        let text = decompress(compression, body, limit).ok()?;
        starts_with_reason(&text).then_some((compression, text))
    })
}

/// Returns how many bytes at the start of the text depend on the first bytes of its body alone.
///
/// `head` is the start of a body, as far as it is known to be right. A text is decompressed from
/// the whole body, and everything in it behind these bytes may have been invented. Of LZO and
/// Zstandard this is nothing: their decompressors do not report how far each byte reaches.
///
/// ```
/// use nostall_pstore::compress::deflate_raw;
/// use nostall_postmortem::decompress::{Compression, settled};
///
/// let body = deflate_raw(b"Panic#1 Part1\n<0>[    1.234567] Kernel panic - not syncing\n");
/// let bytes = settled(Compression::Deflate, &body[..body.len() / 2], 1 << 16);
/// assert!((14..50).contains(&bytes), "{bytes}");
/// ```
pub fn settled(compression: Compression, head: &[u8], limit: usize) -> usize {
    match compression {
        Compression::Deflate => {
            let mut text = Vec::new();
            // The stream is cut off, or goes on: both are expected.
            let _ = drain_into(&mut Inflate::new(false, 15), head, limit, &mut text);
            text.len().min(limit)
        }
        Compression::Lz4 => lz4_len(head).min(limit),
        Compression::Lzo | Compression::Zstd => 0,
    }
}

/// Returns how many bytes of text the start of an LZ4 block stands for. Of the last sequence the
/// literals count; its match does if all of its bytes are there.
fn lz4_len(head: &[u8]) -> usize {
    let mut rest = head.iter().copied();
    let mut len: usize = 0;
    loop {
        let Some(token) = rest.next() else { return len };
        let Some(literals) = lz4_count(token >> 4, &mut rest) else {
            return len;
        };
        len = len.saturating_add(literals.min(rest.len()));
        // Behind the literals, the two bytes of the match's offset.
        if rest.nth(literals.saturating_add(1)).is_none() {
            return len;
        }
        let Some(more) = lz4_count(token & 15, &mut rest) else {
            return len;
        };
        len = len.saturating_add(more.saturating_add(4));
    }
}

/// A count of the LZ4 block format: four bits, and bytes behind them while they are full.
fn lz4_count(bits: u8, rest: &mut impl Iterator<Item = u8>) -> Option<usize> {
    let mut count = usize::from(bits);
    if bits == 15 {
        loop {
            let byte = rest.next()?;
            count = count.saturating_add(byte.into());
            if byte < u8::MAX {
                break;
            }
        }
    }
    Some(count)
}

/// Returns whether the first line is `Reason#N PartM`: `Panic#1 Part1` (fs/pstore/platform.c).
pub fn starts_with_reason(text: &[u8]) -> bool {
    let number = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Some(hash) = line.iter().position(|byte| *byte == b'#') else {
        return false;
    };
    let (reason, count_part) = (&line[..hash], &line[hash + 1..]);
    let Some(space) = count_part.iter().position(|byte| *byte == b' ') else {
        return false;
    };
    let (count, part) = (&count_part[..space], &count_part[space + 1..]);
    reason.first().is_some_and(u8::is_ascii_alphabetic)
        && reason
            .iter()
            .all(|byte| byte.is_ascii_alphabetic() || *byte == b' ')
        && number(count)
        && part.strip_prefix(b"Part").is_some_and(number)
        && text.len() > line.len()
}

/// Raw deflate with any window: Linux writes 2 KiB before 6.6 and 32 KiB since.
fn inflate(body: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    let invalid = Error::Invalid(Compression::Deflate);
    let mut inflate = Inflate::new(false, 15);
    let (read, out) = drain(&mut inflate, body, limit).map_err(|error| error.unwrap_or(invalid))?;
    all_read(Compression::Deflate, body.len() - read, out)
}

/// Inflates until the stream ends; also returns how much it read. An error of `None` is invalid data.
pub(crate) fn drain(
    inflate: &mut Inflate,
    body: &[u8],
    limit: usize,
) -> Result<(usize, Vec<u8>), Option<Error>> {
    let mut out = Vec::new();
    let read = drain_into(inflate, body, limit, &mut out)?;
    Ok((read, out))
}

/// The same, and the bytes before an error are in `out`.
fn drain_into(
    inflate: &mut Inflate,
    body: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<usize, Option<Error>> {
    let mut chunk = [0; 4096];
    loop {
        let (read, wrote) = (inflate.total_in(), inflate.total_out());
        let status = inflate
            .decompress(&body[read as usize..], &mut chunk, InflateFlush::NoFlush)
            .map_err(|_| None)?;
        out.extend_from_slice(&chunk[..(inflate.total_out() - wrote) as usize]);
        if out.len() > limit {
            return Err(Some(Error::TooLarge(limit)));
        }
        match status {
            Status::StreamEnd => return Ok(inflate.total_in() as usize),
            // Neither reads nor writes: the stream is cut off.
            _ if (inflate.total_in(), inflate.total_out()) == (read, wrote) => return Err(None),
            _ => {}
        }
    }
}

/// LZ4 has no end mark: the block is as long as the body.
fn lz4(body: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    use lz4_flex::block::{DecompressError, decompress_into};

    let mut out = room(body, limit);
    match decompress_into(body, &mut out) {
        Ok(len) => {
            out.truncate(len);
            Ok(out)
        }
        Err(DecompressError::OutputTooSmall { .. }) => Err(Error::TooLarge(limit)),
        Err(_) => Err(Error::Invalid(Compression::Lz4)),
    }
}

fn lzo(body: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    let mut out = room(body, limit);
    match lzokay::decompress::decompress(body, &mut out) {
        Ok(len) => {
            out.truncate(len);
            Ok(out)
        }
        Err(lzokay::Error::OutputOverrun) => Err(Error::TooLarge(limit)),
        Err(_) => Err(Error::Invalid(Compression::Lzo)),
    }
}

/// Returns a buffer that any decompressed body fits in. LZ4 and LZO make at most 255 bytes of one
/// (a length byte of a match). Of the first few, they make a few dozen.
fn room(body: &[u8], limit: usize) -> Vec<u8> {
    vec![0; limit.min(body.len().saturating_mul(255).saturating_add(64))]
}

fn zstd(body: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    /// A window that every decoder should support (RFC 8878, section 3.1.1.1.2); allocated at once.
    const WINDOW: u64 = 8 << 20;

    let invalid = Error::Invalid(Compression::Zstd);
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(WINDOW);
    let mut stream = StreamingDecoder::new_with_decoder(body, decoder).map_err(|_| invalid)?;
    let mut out = Vec::new();
    let bound = (limit as u64).saturating_add(1);
    (&mut stream)
        .take(bound)
        .read_to_end(&mut out)
        .map_err(|_| invalid)?;
    if out.len() > limit {
        return Err(Error::TooLarge(limit));
    }
    let (rest, decoder) = stream.into_parts();
    match decoder.get_checksum_from_data() {
        Some(sum) if decoder.get_calculated_checksum() != Some(sum) => Err(invalid),
        _ => all_read(Compression::Zstd, rest.len(), out),
    }
}

fn all_read(compression: Compression, rest: usize, out: Vec<u8>) -> Result<Vec<u8>, Error> {
    match rest {
        0 => Ok(out),
        rest => Err(Error::Trailing { compression, rest }),
    }
}
