//! Errors of reading an image.

use std::io;
use std::time::Duration;

use super::format::{DumpFormat, MAX_SEGMENTS, MAX_UNPACKED};

/// Reason why a file is not a readable memory image, with advice to the user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened or read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is empty.
    #[error("the file is empty; was the dump cut off, or the disk full?")]
    Empty,
    /// A pipe, device or file that must be read into memory is larger than this, or endless.
    #[error(
        "more than {} MiB, or without an end: too much to be read into memory; \
         copy the part with the region to a file of its own",
        .0 >> 20
    )]
    TooLarge(usize),
    /// A pipe or device sent neither data nor an end in time.
    #[error(
        "nothing has come from this pipe or device in {} s, and not its end; \
         no program writes to it, or that program waits",
        .0.as_secs()
    )]
    Silent(Duration),
    /// The file lost bytes while it was read.
    #[error(
        "the file was truncated while it was read, or its disk failed; copy it, and read the copy"
    )]
    Shrunk,
    /// A known format that cannot be read.
    #[error("this is {format}; {advice}")]
    Unsupported {
        /// Format of the file.
        format: &'static str,
        /// Advice to make the file readable.
        advice: &'static str,
    },
    /// A file that is compressed as a whole cannot be unpacked into memory.
    #[error(
        "this is {format}, and {}; open NEW",
        match .is_too_large {
            true => format!(
                "unpacks to more than {} MiB, the limit in memory; \
                 unpack it with `{command} < FILE > NEW`",
                MAX_UNPACKED >> 20
            ),
            false => format!(
                "damaged or cut off: none of it could be unpacked here; \
                 `{command} < FILE > NEW` fails, but may write a part"
            ),
        }
    )]
    Packed {
        /// Compression of the file.
        format: &'static str,
        /// Whether the contents exceed [`MAX_UNPACKED`]. Otherwise, the file is damaged.
        is_too_large: bool,
        /// Command that unpacks a file.
        command: &'static str,
    },
    /// The file has too many segments.
    #[error(
        "a {kind} file with more than {} segments is not read; \
         read it as raw memory, by file offset",
        MAX_SEGMENTS
    )]
    TooManySegments {
        /// Format of the file.
        kind: DumpFormat,
    },
    /// The file's headers are invalid.
    #[error(
        "a damaged {kind} file: {problem}; copy it again, or read it as raw memory, by file offset"
    )]
    Damaged {
        /// Format according to its header.
        kind: DumpFormat,
        /// Description of the damage.
        problem: &'static str,
    },
}
