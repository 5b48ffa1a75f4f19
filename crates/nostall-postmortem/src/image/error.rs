//! Errors of reading an image.

use std::io;
use std::time::Duration;

use super::segment::{DumpFormat, MAX_SEGMENTS};

/// Reason why a file is no memory image to us, and advice to the user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened or read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// There is nothing in it.
    #[error("the file is empty; was the dump cut off, or the disk full?")]
    Empty,
    /// A pipe, device or file that must be read into memory has more than so many bytes, or no end.
    #[error(
        "more than {} MiB, or without an end: too much to be read into memory; \
         copy the part with the region to a file of its own",
        .0 >> 20
    )]
    TooLarge(usize),
    /// A pipe or device has no more bytes, and no end.
    #[error(
        "nothing has come from this pipe or device in {} s, and not its end; \
         no program writes to it, or that program waits",
        .0.as_secs()
    )]
    Silent(Duration),
    /// A format that we know but cannot read.
    #[error("this is {format}; {advice}")]
    Unsupported {
        /// Format of the file.
        format: &'static str,
        /// Advice that makes it, or its like, readable.
        advice: &'static str,
    },
    /// It has more segments than are read.
    #[error(
        "a {kind} file with more than {} segments is not read; \
         read it as raw memory, by file offset",
        MAX_SEGMENTS
    )]
    TooManySegments {
        /// The sort of file.
        kind: DumpFormat,
    },
    /// Its headers make no sense.
    #[error(
        "a damaged {kind} file: {problem}; copy it again, or read it as raw memory, by file offset"
    )]
    Damaged {
        /// Format that its header gives.
        kind: DumpFormat,
        /// Description of the damage.
        problem: &'static str,
    },
}
