//! Memory shared with the host's kernel or with the guest.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// Unit of KVM's mappings in bytes.
pub const PAGE: usize = 4096;

/// Whole pages with concurrent users; all access is atomic.
pub struct SharedMemory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: only this value owns the memory, and all access is atomic.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Maps one page of the file `of`, `page` pages from its start.
    pub fn of(of: &impl AsFd, page: u64) -> io::Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let offset = page * PAGE as u64;
        // SAFETY: a new mapping at an address that the system chooses.
        let start = unsafe { mmap(ptr::null_mut(), PAGE, rights, MapFlags::SHARED, of, offset)? };
        Self::at(start.cast(), PAGE)
    }

    /// Allocates memory of `len` bytes in whole pages, each byte with the value `value`.
    pub fn filled(len: usize, value: u8) -> io::Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the system chooses.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, rights, MapFlags::PRIVATE)? };
        let start: *mut u8 = start.cast();
        // SAFETY: the memory was just mapped and is not shared yet.
        unsafe { start.write_bytes(value, len) };
        Self::at(start, len)
    }

    /// Maps the first `len` bytes of the file `of`, in whole pages, as a private copy.
    ///
    /// Only written pages occupy memory.
    pub fn over(of: &impl AsFd, len: usize) -> io::Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the system chooses.
        let start = unsafe { mmap(ptr::null_mut(), len, rights, MapFlags::PRIVATE, of, 0)? };
        Self::at(start.cast(), len)
    }

    /// Restores the file's contents in whole pages from `offset` on, and frees their memory. The
    /// memory must be mapped [`over`](Self::over) the file.
    pub fn forget(&self, offset: usize, len: usize) -> io::Result<()> {
        if offset > self.len || len > self.len - offset {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the range is inside the mapping, which lives as long as `self`. All access is
        // atomic and reads the file's bytes from then on.
        let discarded = unsafe {
            let start = self.start.add(offset);
            madvise(start.as_ptr().cast(), len, Advice::LinuxDontNeed)
        };
        Ok(discarded?)
    }

    fn at(start: *mut u8, len: usize) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { start, len })
    }

    /// Stores `bytes` at `offset` in whole words. Offset and length are multiples of 4. Words
    /// outside the memory are ignored.
    pub fn store(&self, offset: usize, bytes: &[u8]) {
        for (n, word) in bytes.as_chunks().0.iter().enumerate() {
            if let Some(to) = self.word(offset + 4 * n) {
                to.store(u32::from_ne_bytes(*word), Ordering::Release);
            }
        }
    }

    /// Returns the start address in this process.
    pub fn address(&self) -> u64 {
        self.start.addr().get() as u64
    }

    /// Returns the byte at `offset`; `None` outside the memory.
    pub fn byte(&self, offset: usize) -> Option<&AtomicU8> {
        // SAFETY: the byte is inside the mapping, which lives as long as `self`.
        (offset < self.len).then(|| unsafe { self.start.add(offset).cast().as_ref() })
    }

    /// Returns the 32-bit word at `offset`; `None` outside the memory or unaligned.
    pub fn word(&self, offset: usize) -> Option<&AtomicU32> {
        let inside = offset <= self.len - 4 && offset.is_multiple_of(4);
        // SAFETY: the word is inside the mapping, which lives as long as `self`. It is aligned,
        // because the pages are.
        inside.then(|| unsafe { self.start.add(offset).cast().as_ref() })
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: this value mapped the memory, and no reference into it remains. The call only
        // fails for an address that is not page-aligned.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
