//! Ranges of a file, compressed or not.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, PoisonError};

use super::fields::Fields;
use crate::linux::Order;
use crate::model::ReadError;

/// A file shared by several readers.
pub(super) struct Shared<R>(Arc<Mutex<R>>);

impl<R> Clone for Shared<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R> fmt::Debug for Shared<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl<R: Read + Seek> Shared<R> {
    pub(super) fn new(input: R) -> Self {
        Self(Arc::new(Mutex::new(input)))
    }

    /// Returns the number of bytes in the file.
    pub(super) fn len(&self) -> io::Result<u64> {
        self.lock().seek(SeekFrom::End(0))
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut input = self.lock();
        input.seek(SeekFrom::Start(at))?;
        input.read(into)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, R> {
        // A seek precedes each read, so a panic leaves no invalid state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A range of a file, read sequentially.
#[derive(Debug)]
pub(super) struct Span<R> {
    input: Shared<R>,
    at: u64,
    left: u64,
    done: u64,
}

impl<R> Span<R> {
    /// Creates a reader for the `len` bytes at `at`, as far as they exist.
    pub(super) fn new(input: &Shared<R>, at: u64, len: u64) -> Self {
        Self {
            input: input.clone(),
            at,
            left: len.min(u64::MAX - at),
            done: 0,
        }
    }

    /// Returns the number of bytes read.
    pub(super) fn done(&self) -> u64 {
        self.done
    }
}

impl<R: Read + Seek> Read for Span<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let read = self.input.read_at(self.at, &mut into[..most])?;
        self.at += read as u64;
        self.left -= read as u64;
        self.done += read as u64;
        Ok(read)
    }
}

/// Compression of a file's sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Zstd,
    Zlib,
}

impl Compression {
    /// Returns the compression with a name.
    pub(super) fn named(name: &str) -> Result<Self, ReadError> {
        match name {
            "none" => Ok(Self::None),
            "zstd" => Ok(Self::Zstd),
            "zlib" => Ok(Self::Zlib),
            other => Err(ReadError::new(format!(
                "the file is compressed with {other:?}: nostall reads zstd and zlib"
            ))),
        }
    }

    /// Unpacks `bytes`; the result should have `len` bytes, at most `most`.
    pub(super) fn unpack(self, bytes: &[u8], len: u64, most: u64) -> Result<Vec<u8>, ReadError> {
        if len > most {
            return Err(ReadError::new(format!(
                "a compressed part has {len} bytes, too many to be true"
            )));
        }
        let bad = || ReadError::new("a compressed part cannot be unpacked");
        let unpacked = match self {
            Self::None => bytes.to_vec(),
            Self::Zlib => {
                miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(bytes, len as usize)
                    .map_err(|_| bad())?
            }
            Self::Zstd => {
                let mut unpacked = Vec::new();
                ruzstd::decoding::StreamingDecoder::new(bytes)
                    .map_err(|_| bad())?
                    .take(len)
                    .read_to_end(&mut unpacked)
                    .map_err(|_| bad())?;
                unpacked
            }
        };
        if unpacked.len() as u64 == len {
            Ok(unpacked)
        } else {
            Err(bad())
        }
    }
}

/// Data of a CPU: plain or in compressed chunks.
#[derive(Debug)]
pub(super) enum Data<R> {
    Plain(Span<R>),
    Chunks(Chunks<R>),
}

/// Compressed chunks, one of them in memory.
#[derive(Debug)]
pub(super) struct Chunks<R> {
    span: Span<R>,
    order: Order,
    compression: Compression,
    /// Size limit for an unpacked chunk.
    most: u64,
    /// Number of remaining chunks; `None` before the first.
    left: Option<u32>,
    chunk: Vec<u8>,
    used: usize,
}

impl<R: Read + Seek> Chunks<R> {
    pub(super) fn new(span: Span<R>, order: Order, compression: Compression, most: u64) -> Self {
        Self {
            span,
            order,
            compression,
            most,
            left: None,
            chunk: Vec::new(),
            used: 0,
        }
    }

    /// Unpacks the next chunk. Returns false at the end.
    fn advance(&mut self) -> Result<bool, ReadError> {
        let mut fields = Fields::new(&mut self.span, self.order);
        let left = match self.left {
            Some(left) => left,
            None => fields.u32()?,
        };
        self.left = Some(0);
        if left == 0 {
            return Ok(false);
        }
        let (packed, len) = (fields.u32()?, fields.u32()?);
        let packed = fields.bytes(packed.into())?;
        self.chunk = self.compression.unpack(&packed, len.into(), self.most)?;
        self.used = 0;
        self.left = Some(left - 1);
        Ok(true)
    }
}

impl<R> Data<R> {
    /// Returns the number of bytes of the file that were read.
    pub(super) fn done(&self) -> u64 {
        match self {
            Self::Plain(span) => span.done(),
            Self::Chunks(chunks) => chunks.span.done(),
        }
    }
}

impl<R: Read + Seek> Read for Data<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let chunks = match self {
            Self::Plain(span) => return span.read(into),
            Self::Chunks(chunks) => chunks,
        };
        while chunks.used == chunks.chunk.len() {
            if !chunks.advance().map_err(io::Error::other)? {
                return Ok(0);
            }
        }
        let rest = &chunks.chunk[chunks.used..];
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        chunks.used += len;
        Ok(len)
    }
}
