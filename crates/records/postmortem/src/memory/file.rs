//! Access to a file's bytes: mapped if possible, otherwise read.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::error::Error;
use super::extents;
use super::flattened::Flattened;
use super::mapped::Mapped;

/// Size limit for a file that cannot be mapped: a pipe, a device, some files of /proc.
pub const MAX_READ: usize = 256 << 20;

/// Number of bytes per read.
const CHUNK: usize = 64 << 10;

/// Time limits for a pipe without data.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// Limit before the first byte.
    first: Duration,
    /// Limit before each later byte.
    next: Duration,
}

const PATIENCE: Patience = Patience {
    first: Duration::from_secs(10),
    next: Duration::from_secs(60),
};

/// Number of mapped bytes after which the system may take the pages back.
const STEP: u64 = 1 << 20;

/// Number of bytes that Linux maps around a byte that is read (`fault_around_bytes` in mm/memory.c).
const WINDOW: u64 = 64 << 10;

/// Number of windows that are remembered.
const WINDOWS: usize = (STEP / WINDOW) as usize;

/// The file of a dump.
#[derive(Debug)]
pub(super) struct DumpFile {
    pub bytes: Bytes,
    /// Ranges that are not holes, in order.
    pub extents: Vec<Range<u64>>,
    /// Order of the contents, if the file is flattened.
    pub flattened: Option<Flattened>,
    /// Number of bytes loaded for reads in parts.
    used: AtomicU64,
    /// Windows that are counted, by their number modulo [`WINDOWS`]: one more than their number.
    windows: [AtomicU64; WINDOWS],
}

impl DumpFile {
    /// Maps or reads an open file.
    pub(super) fn open(file: File) -> Result<Self, Error> {
        Self::new(Bytes::of(file)?)
    }

    pub(super) fn new(bytes: Bytes) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Err(Error::Empty);
        }
        let len = bytes.len() as u64;
        let extents = match &bytes {
            Bytes::Mapped(map) => extents::of(map.file(), len),
            Bytes::Read(_) => extents::all(len),
        };
        if extents.len() > 1 {
            bytes.look_in_places();
        }
        Ok(Self {
            bytes,
            extents,
            flattened: None,
            used: AtomicU64::new(0),
            windows: [const { AtomicU64::new(0) }; WINDOWS],
        })
    }

    /// Returns the number of bytes of the contents: of a flattened file, once it is put together.
    pub(super) fn len(&self) -> u64 {
        match &self.flattened {
            Some(flattened) => flattened.len(),
            None => self.bytes.len() as u64,
        }
    }

    /// Returns `len` bytes of the contents; `None` if the file lacks any of them.
    pub(super) fn read(&self, offset: u64, len: usize) -> Option<Cow<'_, [u8]>> {
        match &self.flattened {
            Some(flattened) => flattened.read(&self.bytes, offset, len),
            None => {
                let start = usize::try_from(offset).ok()?;
                let bytes = self.bytes.get(start..start.checked_add(len)?)?;
                Some(Cow::Borrowed(bytes))
            }
        }
    }

    /// Returns whether `len` bytes of the contents are in the file.
    pub(super) fn has(&self, offset: u64, len: u64) -> bool {
        match &self.flattened {
            Some(flattened) => flattened.has(offset, len),
            None => (offset.checked_add(len)).is_some_and(|end| end <= self.bytes.len() as u64),
        }
    }

    /// Returns the first bytes of the contents, or all. Bytes that a flattened file lacks are
    /// zeros, as in the file that is put together.
    pub(super) fn head(&self) -> Cow<'_, [u8]> {
        match &self.flattened {
            Some(flattened) => Cow::Owned(flattened.head(&self.bytes)),
            None => Cow::Borrowed(&self.bytes),
        }
    }

    /// Returns the first range of the contents inside of `within` that is not in a hole. A flattened
    /// file also has a hole where it lacks bytes.
    pub(super) fn next_data(&self, within: Range<u64>) -> Option<Range<u64>> {
        let Some(flattened) = &self.flattened else {
            return self.next_extent(within);
        };
        let mut places = flattened.places(within);
        places.find_map(|(start, place, len)| {
            let data = self.next_extent(place..place + len)?;
            Some(start + (data.start - place)..start + (data.end - place))
        })
    }

    /// Returns the first range of the file inside of `within` that is not in a hole.
    fn next_extent(&self, within: Range<u64>) -> Option<Range<u64>> {
        let next = self
            .extents
            .partition_point(|extent| extent.end <= within.start);
        let extent = self.extents.get(next)?;
        let data = extent.start.max(within.start)..extent.end.min(within.end);
        (!data.is_empty()).then_some(data)
    }

    /// Counts bytes of the mapped file that were loaded for a read. From time to time, the system
    /// takes the file's pages from this process, so that its memory does not grow with the file.
    pub(super) fn used(&self, len: u64) {
        let before = self.used.fetch_add(len, Ordering::Relaxed);
        if before / STEP != before.saturating_add(len) / STEP {
            self.bytes.release();
            for window in &self.windows {
                window.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Counts a read at an offset, as [`used`](Self::used). A window that is mapped already counts
    /// once: a release for every few reads would load the same pages again and again.
    pub(super) fn touched(&self, offset: u64, len: u64) {
        let windows = offset / WINDOW..offset.saturating_add(len).div_ceil(WINDOW);
        if windows.end - windows.start > WINDOWS as u64 {
            return self.used(len);
        }
        for window in windows {
            let place = &self.windows[window as usize % WINDOWS];
            if place.swap(window + 1, Ordering::Relaxed) != window + 1 {
                self.used(WINDOW);
            }
        }
    }
}

#[derive(Debug)]
pub(crate) enum Bytes {
    Mapped(Mapped),
    Read(Vec<u8>),
}

impl Bytes {
    /// Opens a file, and maps or reads it. No wait exceeds a minute.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        Self::of(open_file(path)?)
    }

    /// Maps or reads an open file. No wait exceeds a minute.
    pub(super) fn of(file: File) -> Result<Self, Error> {
        let meta = file.metadata()?;
        // Files in /proc report a size of 0 but have contents.
        if meta.is_file()
            && meta.len() > 0
            && let Ok(map) = Mapped::new(file.try_clone()?)
        {
            return Ok(Self::Mapped(map));
        }
        Ok(Self::Read(drain(&file, PATIENCE, MAX_READ)?))
    }

    /// Checks that no part of the file was lost after it was opened.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self {
            Self::Mapped(map) if map.has_shrunk() => Err(Error::Shrunk),
            _ => Ok(()),
        }
    }

    /// Returns whether zeros were read for bytes that the file had lost.
    pub(super) fn has_lost(&self) -> bool {
        matches!(self, Self::Mapped(map) if map.has_lost())
    }

    /// Disables read-ahead. Otherwise the system reads megabytes of holes around each page of a
    /// mapped file.
    pub(super) fn look_in_places(&self) {
        #[cfg(unix)]
        if let Self::Mapped(map) = self {
            map.advise(memmap2::Advice::Random, 0, map.len());
        }
    }

    /// Lets the system take back all pages of the mapped file. A later access reads them again.
    fn release(&self) {
        #[cfg(unix)]
        if let Self::Mapped(map) = self {
            map.release();
        }
    }

    /// Starts to read these bytes of the file, which are needed next.
    pub(super) fn prefetch(&self, offset: usize, len: usize) {
        #[cfg(unix)]
        if let Self::Mapped(map) = self {
            map.advise(memmap2::Advice::WillNeed, offset, len);
        }
    }
}

/// Opens a file, pipe or device for reading. Does not wait for a writer of the pipe.
///
/// # Errors
///
/// Returns the operating system's error.
pub fn open_file(path: impl AsRef<Path>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Opening a pipe then does not wait for a writer.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    }
    options.open(path)
}

/// Reads an open file, pipe or device to its end, with the time limits of
/// [`Memory::open`](super::Memory::open).
///
/// # Errors
///
/// [`Error::TooLarge`] for more than `most` bytes, [`Error::Silent`] if neither bytes nor an end
/// arrive, or the system's error.
pub fn read_to_end(file: &File, most: usize) -> Result<Vec<u8>, Error> {
    drain(file, PATIENCE, most)
}

/// Returns all bytes up to the end, at most `most`.
fn drain(mut file: &File, patience: Patience, most: usize) -> Result<Vec<u8>, Error> {
    // A pipe or device has a length of 0.
    let meta = file.metadata()?;
    if meta.len() > most as u64 {
        return Err(Error::TooLarge(most));
    }
    let mut all = Vec::new();
    // A regular file is always ready, so its bytes are read at once, and not copied.
    if meta.is_file() {
        all.reserve(meta.len() as usize);
        let end = (most as u64).saturating_add(1);
        file.take(end).read_to_end(&mut all)?;
        return match all.len() > most {
            true => Err(Error::TooLarge(most)),
            false => Ok(all),
        };
    }
    let mut chunk = vec![0; CHUNK];
    let mut limit = patience.first;
    loop {
        if !is_ready(file, limit)? {
            return Err(Error::Silent(limit));
        }
        match file.read(&mut chunk) {
            Ok(0) => return Ok(all),
            Ok(count) if count > most - all.len() => return Err(Error::TooLarge(most)),
            Ok(count) => {
                all.extend_from_slice(&chunk[..count]);
                limit = patience.next;
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits for data, an end or an error. Returns whether there is any.
#[cfg(unix)]
fn is_ready(file: &File, limit: Duration) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;

    let limit = Timespec {
        tv_sec: limit.as_secs() as _,
        tv_nsec: limit.subsec_nanos() as _,
    };
    loop {
        match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&limit)) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns at once: on this system, the read itself waits.
#[cfg(not(unix))]
fn is_ready(_: &File, _: Duration) -> io::Result<bool> {
    Ok(true)
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(read) => read,
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::OwnedFd;

    const SHORT: Patience = Patience {
        first: Duration::from_millis(20),
        next: Duration::from_millis(30),
    };

    #[test]
    fn the_holes_of_a_flattened_file_are_holes_of_its_contents() {
        /// Number of bytes of the only block, whose offset in the contents is 8192.
        const LEN: u64 = 8 << 30;
        const START: u64 = 8192;

        let mut sparse = tempfile::tempfile().unwrap();
        let mut header = b"makedumpfile\0\0\0\0".to_vec();
        header.extend([1u64.to_be_bytes(); 2].concat());
        header.resize(4096, 0);
        header.extend([START.to_be_bytes(), LEN.to_be_bytes()].concat());
        sparse.write_all(&header).unwrap();
        sparse.seek(SeekFrom::Current(1 << 30)).unwrap();
        sparse.write_all(b"data").unwrap();
        sparse.seek(SeekFrom::Start(4112 + LEN)).unwrap();
        sparse.write_all(&[0xff; 16]).unwrap();
        let mut file = DumpFile::open(sparse).unwrap();
        file.flattened = Flattened::parse(&file.bytes, |len| file.used(len)).unwrap();
        let mut ranges = Vec::new();
        let mut at = 0;
        while let Some(range) = file.next_data(at..u64::MAX) {
            at = range.end;
            ranges.push(range);
        }
        let sum: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        assert!(sum < 1 << 20, "{ranges:?}");
        let data = START + (1 << 30);
        assert!(ranges.iter().any(|range| range.contains(&data)));
        assert_eq!(file.next_data(data..data + 2), Some(data..data + 2));
        assert_eq!(file.next_data(0..START), None);
    }

    #[test]
    fn reads_of_a_mapped_window_count_once_until_its_pages_are_released() {
        let file = DumpFile::new(Bytes::Read(vec![0; 1])).unwrap();
        let used = || file.used.load(Ordering::Relaxed);
        for _ in 0..100 {
            file.touched(WINDOW - 1, 1);
            file.touched(WINDOW, 2);
        }
        assert_eq!(used(), 2 * WINDOW);
        file.touched(WINDOW - 1, 2);
        assert_eq!(used(), 2 * WINDOW);
        // Larger reads than all windows count as a whole, and release all pages.
        file.touched(0, 2 * STEP);
        file.touched(0, 1);
        assert_eq!(used(), 3 * WINDOW + 2 * STEP);
    }

    #[test]
    fn a_silent_pipe_is_given_up_and_an_oversized_one_is_refused() {
        let (reader, mut writer) = io::pipe().unwrap();
        let file = File::from(OwnedFd::from(reader));
        let drained = drain(&file, SHORT, 100);
        assert!(matches!(drained, Err(Error::Silent(limit)) if limit == SHORT.first));
        writer.write_all(b"abc").unwrap();
        let drained = drain(&file, SHORT, 100);
        assert!(matches!(drained, Err(Error::Silent(limit)) if limit == SHORT.next));
        writer.write_all(&[7; 100]).unwrap();
        assert!(matches!(drain(&file, SHORT, 99), Err(Error::TooLarge(99))));
        writer.write_all(&[7; 100]).unwrap();
        drop(writer);
        assert_eq!(drain(&file, SHORT, 100).unwrap(), [7; 100]);
    }
}
