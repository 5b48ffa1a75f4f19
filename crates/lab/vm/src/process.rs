//! A child process that cannot outlive its parent, and files in memory.

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

/// A file in memory that a child process can open by name. It disappears with the last process that
/// holds it open, even after a crash.
#[derive(Debug)]
pub struct MemoryFile(File);

impl MemoryFile {
    /// Creates a file with `content`.
    ///
    /// # Errors
    ///
    /// Returns the operating system's error.
    pub fn new(content: &[u8]) -> io::Result<Self> {
        let mut file = File::from(rustix::fs::memfd_create("nostall", MemfdFlags::CLOEXEC)?);
        file.write_all(content)?;
        Ok(Self(file))
    }

    /// Returns the size in bytes.
    ///
    /// # Errors
    ///
    /// Returns the operating system's error.
    #[allow(clippy::len_without_is_empty, reason = "no user needs it")]
    pub fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    /// Sets the size to `len` bytes; new bytes are zeros.
    ///
    /// # Errors
    ///
    /// Returns the operating system's error.
    pub fn resize(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    /// Returns the contents from `start` to the end, at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// Returns the operating system's error.
    pub fn read_from(&self, start: u64, limit: u64) -> io::Result<Vec<u8>> {
        let len = self.len()?.saturating_sub(start).min(limit);
        let mut content = vec![0; usize::try_from(len).map_err(io::Error::other)?];
        self.0.read_exact_at(&mut content, start)?;
        Ok(content)
    }

    /// Returns the last bytes, at most `limit`.
    ///
    /// # Errors
    ///
    /// Returns the operating system's error.
    pub fn read_last(&self, limit: u64) -> io::Result<Vec<u8>> {
        self.read_from(self.len()?.saturating_sub(limit), limit)
    }

    /// Returns a handle to the same file, for mapping.
    ///
    /// # Errors
    ///
    /// Returns the operating system's error.
    pub fn share(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// Returns a handle to the same file, for a child's standard streams.
    ///
    /// # Errors
    ///
    /// Returns the operating system's error.
    pub fn to_stdio(&self) -> io::Result<Stdio> {
        Ok(self.0.try_clone()?.into())
    }
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A running child process; dropping it kills the child.
#[derive(Debug)]
pub struct Running(Mutex<Child>);

impl Running {
    /// Returns the exit status if the child has ended.
    ///
    /// # Errors
    ///
    /// Returns the operating system's error.
    pub fn ended(&self) -> io::Result<Option<ExitStatus>> {
        self.child().try_wait()
    }

    /// Kills the child, unless it has ended.
    pub fn kill(&self) {
        // An error means that the child has ended and been waited for.
        let _ = self.child().kill();
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        // An error means that the child has been waited for.
        let _ = self.child().wait();
    }
}

/// Returns the path with which a child opens its inherited descriptor `number`.
pub fn name(number: RawFd) -> String {
    format!("/proc/self/fd/{number}")
}

/// Starts `command` with each of `files` as the descriptor beside it. The kernel kills the child
/// when the calling thread ends for any reason.
///
/// # Errors
///
/// The system's error; `NotFound` if the program does not exist.
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
            // If the parent ended before that call, no signal is sent.
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
    fn the_last_bytes_of_a_file_are_read() {
        let file = MemoryFile::new(b"abcdef").unwrap();
        assert_eq!(file.read_last(2).unwrap(), b"ef");
        assert_eq!(file.read_last(100).unwrap(), b"abcdef");
    }
}
