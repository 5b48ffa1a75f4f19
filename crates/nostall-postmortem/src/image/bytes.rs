//! A file's bytes: mapped where it can be, read where it must be.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use memmap2::Mmap;

use super::Error;

/// Most bytes read into memory of a file that cannot be mapped: a pipe, a device, some of /proc.
pub const MAX_READ: usize = 256 << 20;

/// Bytes read at a time.
const CHUNK: usize = 64 << 10;

/// How long a pipe may be without bytes and without an end.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// Before the first byte.
    first: Duration,
    /// Before each later one.
    next: Duration,
}

const PATIENCE: Patience = Patience {
    first: Duration::from_secs(10),
    next: Duration::from_secs(60),
};

#[derive(Debug)]
pub(crate) enum Bytes {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl Bytes {
    /// Opens a file and maps or reads it. No wait is longer than a minute.
    pub(crate) fn open(path: &Path) -> Result<(File, Self), Error> {
        let file = open_file(path)?;
        let meta = file.metadata()?;
        // Files in /proc say 0 and have something.
        if meta.is_file() && meta.len() > 0 {
            // SAFETY: the mapping is only ever read, as bytes, for which every value is valid.
            // memmap2 asks that the file be left alone while it is mapped. No program can force
            // that on others; the documentation of `image` describes the consequences.
            if let Ok(map) = unsafe { Mmap::map(&file) } {
                return Ok((file, Self::Mapped(map)));
            }
        }
        let bytes = drain(&file, PATIENCE, MAX_READ)?;
        Ok((file, Self::Read(bytes)))
    }
}

impl Bytes {
    /// Reads no holes around the data: the system reads megabytes around each page of
    /// a mapped file otherwise.
    pub(super) fn look_in_places(&self) {
        #[cfg(unix)]
        if let Self::Mapped(map) = self {
            // Without it, all is as it was, and slower.
            let _ = map.advise(memmap2::Advice::Random);
        }
    }

    /// Starts to read these bytes of the file, which will be read next.
    pub(super) fn prefetch(&self, offset: usize, len: usize) {
        #[cfg(unix)]
        if let Self::Mapped(map) = self {
            let _ = map.advise_range(memmap2::Advice::WillNeed, offset, len);
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
        // A pipe opens before a program writes to it.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    }
    options.open(path)
}

/// Reads an open file, pipe or device to its end, with the time limits of
/// [`Image::open`](super::Image::open).
///
/// # Errors
///
/// [`Error::TooLarge`] if there are more than `most` bytes, [`Error::Silent`] if none come and
/// no end either, or the system's.
pub fn read_to_end(file: &File, most: usize) -> Result<Vec<u8>, Error> {
    drain(file, PATIENCE, most)
}

/// All bytes up to the end, if they are no more than `most`.
fn drain(mut file: &File, patience: Patience, most: usize) -> Result<Vec<u8>, Error> {
    // A pipe or device has a length of 0.
    if file.metadata()?.len() > most as u64 {
        return Err(Error::TooLarge(most));
    }
    let mut all = Vec::new();
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

/// Waits until there are bytes, an end or an error to read. Returns whether there are.
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

/// Returns at once: on this system, reading itself waits.
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
    use std::io::Write;
    use std::os::fd::OwnedFd;

    const SHORT: Patience = Patience {
        first: Duration::from_millis(20),
        next: Duration::from_millis(30),
    };

    #[test]
    fn a_pipe_that_falls_silent_is_given_up_and_one_with_too_much_refused() {
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
