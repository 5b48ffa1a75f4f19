//! Data and holes of a file.

use std::fs::File;
use std::ops::Range;

/// Maximum number of data ranges; beyond them, the rest of a file counts as data.
const MAX_EXTENTS: usize = 1 << 22;

/// Returns the data range of a file without holes.
pub(super) fn all(len: u64) -> Vec<Range<u64>> {
    std::iter::once(0..len).collect()
}

/// Returns the data ranges of a file, in order; the whole file if the system does not report them.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(super) fn of(file: &File, len: u64) -> Vec<Range<u64>> {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;

    let mut extents = Vec::new();
    let mut at = 0;
    while at < len {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) if extents.len() < MAX_EXTENTS => start.max(at),
            // Only a hole follows.
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

/// Returns the whole file, because this system does not report holes.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(super) fn of(_file: &File, len: u64) -> Vec<Range<u64>> {
    let _ = MAX_EXTENTS;
    all(len)
}
