//! A child process that cannot outlive us, and files that leave no trace.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use command_fds::{CommandFdExt, FdMapping};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// A file in memory that a child can open by name. It is gone with the last
/// process that holds it, however that one ends.
#[derive(Debug)]
pub struct MemoryFile(File);

impl MemoryFile {
    /// One that holds `content`.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn new(content: &[u8]) -> io::Result<Self> {
        let mut file = File::from(rustix::fs::memfd_create("nostall", MemfdFlags::CLOEXEC)?);
        file.write_all(content)?;
        Ok(Self(file))
    }

    /// How many bytes are in it.
    ///
    /// # Errors
    ///
    /// What the system says.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    /// Makes it `len` bytes long; what is new is zeros.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn resize(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    /// What lies from `start` to its end, but at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn read_from(&self, start: u64, limit: u64) -> io::Result<Vec<u8>> {
        let len = self.len()?.saturating_sub(start).min(limit);
        let mut content = vec![0; usize::try_from(len).map_err(io::Error::other)?];
        self.0.read_exact_at(&mut content, start)?;
        Ok(content)
    }

    /// What lies before its end, but at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn read_last(&self, limit: u64) -> io::Result<Vec<u8>> {
        self.read_from(self.len()?.saturating_sub(limit), limit)
    }

    /// The same file, to be mapped.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn share(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// The same file, for a child's standard streams.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn to_stdio(&self) -> io::Result<Stdio> {
        Ok(self.0.try_clone()?.into())
    }
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A running child; killed when dropped.
#[derive(Debug)]
pub struct Running(Mutex<Child>);

impl Running {
    /// How it ended, if it has.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn ended(&self) -> io::Result<Option<ExitStatus>> {
        self.child().try_wait()
    }

    /// Kills it, if it has not ended.
    pub fn kill(&self) {
        // It fails only if the child has ended and been waited for.
        let _ = self.child().kill();
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        // As above.
        let _ = self.child().wait();
    }
}

/// The name by which a child opens a file that it was given as `number`.
pub fn name(number: RawFd) -> String {
    format!("/proc/self/fd/{number}")
}

/// Starts `command`, gives it `files` under the numbers beside them, and has the
/// kernel kill it when the calling thread ends, in whatever way.
///
/// # Errors
///
/// What the system says, `NotFound` if there is no such program.
pub fn spawn<F: AsFd>(mut command: Command, files: &[(F, RawFd)]) -> io::Result<Running> {
    let mut mappings = Vec::new();
    for (file, child_fd) in files {
        mappings.push(FdMapping {
            parent_fd: file.as_fd().try_clone_to_owned()?,
            child_fd: *child_fd,
        });
    }
    command.fd_mappings(mappings).map_err(io::Error::other)?;
    let parent = getpid();
    // SAFETY: two system calls, which are allowed between fork and exec.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // Of a death before that, no signal comes.
            match getppid() {
                Some(now) if now == parent => Ok(()),
                _ => Err(Errno::SRCH.into()),
            }
        });
    }
    Ok(Running(Mutex::new(command.spawn()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_file_is_read() {
        let file = MemoryFile::new(b"abcdef").unwrap();
        assert_eq!(file.read_last(2).unwrap(), b"ef");
        assert_eq!(file.read_last(100).unwrap(), b"abcdef");
    }
}
