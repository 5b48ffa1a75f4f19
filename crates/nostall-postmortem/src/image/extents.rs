//! Which parts of a file are data and which are holes.

use std::fs::File;
use std::ops::Range;

/// The most runs of data that are distinguished; the rest of a file beyond them counts as data.
const MAX_EXTENTS: usize = 1 << 22;

/// A file without holes.
pub(super) fn all(len: u64) -> Vec<Range<u64>> {
    std::iter::once(0..len).collect()
}

/// The runs of data in a file, in order. Where the system does not report them, all of it.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(super) fn of(file: &File, len: u64) -> Vec<Range<u64>> {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;

    let mut extents = Vec::new();
    let mut at = 0;
    while at < len {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) if extents.len() < MAX_EXTENTS => start.max(at),
            // Nothing but a hole from here on.
            Err(Errno::NXIO) => break,
            _ => at,
        };
        let end = match seek(file, SeekFrom::Hole(start)) {
            Ok(end) if end > start && extents.len() < MAX_EXTENTS => end.min(len),
            _ => len,
        };
        if start < end {
            extents.push(start..end);
        }
        at = end.max(start);
    }
    extents
}

/// The runs of data in a file: all of it, as this system does not report them.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(super) fn of(_file: &File, len: u64) -> Vec<Range<u64>> {
    let _ = MAX_EXTENTS;
    all(len)
}
