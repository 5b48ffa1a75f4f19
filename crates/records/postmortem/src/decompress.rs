//! Decompression of dmesg bodies, as Linux's pstore compresses them.
//!
//! A record states only that it is compressed, not how: [`find`] tries all compressions. It accepts
//! a text that starts with Linux's `Reason#N PartM` line and uses the whole body. The caller's
//! `limit` bounds the output for any body.
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
    /// All compressions; those least likely to accept data of others come first.
    pub const ALL: [Self; 4] = [Self::Zstd, Self::Deflate, Self::Lzo, Self::Lz4];
}

fn unknown(name: &str) -> UnknownCompression {
    match name {
        "842" => UnknownCompression::Unsupported842,
        _ => UnknownCompression::Unknown,
    }
}

/// Error: a name is no [`Compression`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownCompression {
    /// A compression of Linux that this crate does not support.
    #[error(
        "842 (IBM's, for POWER) is not supported; let the kernel that wrote the record read it back"
    )]
    Unsupported842,
    /// A name that neither Linux nor this crate has.
    #[error("not a compression of Linux's pstore; those are deflate, lz4, lz4hc, lzo and zstd")]
    Unknown,
}

/// Reason why a body could not be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The body has another compression, or is damaged.
    #[error("not valid {0}; the record is damaged or compressed in another way")]
    Invalid(Compression),
    /// The compressed data ends before the body does.
    #[error(
        "{compression} data ends {rest} bytes before the record does; it may be of another compression"
    )]
    Trailing {
        /// Compression that was tried.
        compression: Compression,
        /// Number of bytes after the end.
        rest: usize,
    },
    /// The text is larger than the caller's limit.
    #[error(
        "decompresses to more than {0} bytes; raise the limit if the record's zone is that large"
    )]
    TooLarge(usize),
}

/// Decompresses all of `body` to at most `limit` bytes.
///
/// # Errors
///
/// [`Error`] if the body is damaged, ends early, or exceeds `limit`.
pub fn decompress(compression: Compression, body: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    match compression {
        Compression::Deflate => inflate(body, limit),
        Compression::Lz4 => lz4(body, limit),
        Compression::Lzo => lzo(body, limit),
        Compression::Zstd => zstd(body, limit),
    }
}

/// Detects the compression of a dmesg body, and decompresses it to at most `limit` bytes.
///
/// It accepts only a compression that uses all of `body` and yields a text whose first line is
/// Linux's `Reason#N PartM`.
pub fn find(body: &[u8], limit: usize) -> Option<(Compression, Vec<u8>)> {
    Compression::ALL.into_iter().find_map(|compression| {
        let text = decompress(compression, body, limit).ok()?;
        starts_with_reason(&text).then_some((compression, text))
    })
}

/// Returns the number of text bytes that depend only on the first bytes of the body.
///
/// `head` is the verified start of a body. A text is decompressed from the whole body, and all
/// later text bytes may be wrong. For LZO and Zstandard the result is 0, because their
/// decompressors do not report how far each byte reaches.
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
        Compression::Deflate => until_damage(compression, head, limit).len(),
        Compression::Lz4 => lz4_len(head).min(limit),
        Compression::Lzo | Compression::Zstd => 0,
    }
}

/// Returns the text before the first invalid byte of a body, at most `limit` bytes. Some of its last
/// bytes may be wrong, because damage is not noticed at once. Only deflate has such a text.
pub(crate) fn until_damage(compression: Compression, body: &[u8], limit: usize) -> Vec<u8> {
    let mut text = Vec::new();
    if compression == Compression::Deflate {
        // A stream that is cut off, damaged or too long is expected here.
        let _ = drain_into(&mut Inflate::new(false, 15), body, limit, &mut text);
        text.truncate(limit);
    }
    text
}

/// Returns the text length for the start of an LZ4 block. Literals of the last sequence count; its
/// match counts if it is complete.
fn lz4_len(head: &[u8]) -> usize {
    let mut rest = head.iter().copied();
    let mut len: usize = 0;
    loop {
        let Some(token) = rest.next() else { return len };
        let Some(literals) = lz4_count(token >> 4, &mut rest) else {
            return len;
        };
        len = len.saturating_add(literals.min(rest.len()));
        // The two bytes of the match's offset follow the literals.
        if rest.nth(literals.saturating_add(1)).is_none() {
            return len;
        }
        let Some(more) = lz4_count(token & 15, &mut rest) else {
            return len;
        };
        len = len.saturating_add(more.saturating_add(4));
    }
}

/// Reads a count of the LZ4 block format: four bits, and further bytes while each is 255.
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
    // Reads no further than it has to: an image may have no end of a line.
    let skip = |text: &[u8], is_part: fn(&u8) -> bool| {
        text.iter().take_while(|byte| is_part(byte)).count()
    };
    let digits = |text: &[u8]| skip(text, u8::is_ascii_digit);
    let reason = skip(text, |byte| byte.is_ascii_alphabetic() || *byte == b' ');
    let is_reason = text.first().is_some_and(u8::is_ascii_alphabetic);
    let Some(count_part) = text[reason..].strip_prefix(b"#").filter(|_| is_reason) else {
        return false;
    };
    let count = digits(count_part);
    let Some(part) = count_part[count..]
        .strip_prefix(b" Part")
        .filter(|_| count > 0)
    else {
        return false;
    };
    let part_digits = digits(part);
    part_digits > 0 && part.get(part_digits) == Some(&b'\n')
}

/// Inflates raw deflate with any window: Linux uses 2 KiB before 6.6 and 32 KiB since.
fn inflate(body: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    let invalid = Error::Invalid(Compression::Deflate);
    let mut inflate = Inflate::new(false, 15);
    let (read, out) = drain(&mut inflate, body, limit).map_err(|error| error.unwrap_or(invalid))?;
    all_read(Compression::Deflate, body.len() - read, out)
}

/// Inflates until the stream ends; also returns the number of bytes read. `Err(None)` is invalid
/// data.
pub(crate) fn drain(
    inflate: &mut Inflate,
    body: &[u8],
    limit: usize,
) -> Result<(usize, Vec<u8>), Option<Error>> {
    let mut out = Vec::new();
    let read = drain_into(inflate, body, limit, &mut out)?;
    Ok((read, out))
}

/// Inflates like [`drain`]; on an error, `out` has the bytes before it.
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
            // Without progress, the stream is cut off.
            _ if (inflate.total_in(), inflate.total_out()) == (read, wrote) => return Err(None),
            _ => {}
        }
    }
}

/// Decompresses an LZ4 block. It has no end mark, so it is as long as the body.
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

/// Returns a buffer for any decompressed body. LZ4 and LZO produce at most 255 bytes from one (a
/// length byte of a match), and a few dozen from the first few.
fn room(body: &[u8], limit: usize) -> Vec<u8> {
    vec![0; limit.min(body.len().saturating_mul(255).saturating_add(64))]
}

fn zstd(body: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    /// Window size that every decoder should support (RFC 8878, section 3.1.1.1.2); allocated at
    /// once.
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
