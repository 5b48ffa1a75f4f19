//! Memory that is shared with the host's kernel, or with the guest.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// What KVM maps by.
pub const PAGE: usize = 4096;

/// Whole pages that others write or read while we do: by atomics only, therefore.
pub struct SharedMemory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to this value alone, and is reached by atomics only.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// A page of the file `of`, `page` pages from its start.
    pub fn of(of: &impl AsFd, page: u64) -> io::Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let offset = page * PAGE as u64;
        // SAFETY: a new mapping, where the system finds room.
        let start = unsafe { mmap(ptr::null_mut(), PAGE, rights, MapFlags::SHARED, of, offset)? };
        Self::at(start.cast(), PAGE)
    }

    /// Memory of its own, `len` bytes in whole pages, every byte `value`.
    pub fn filled(len: usize, value: u8) -> io::Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, where the system finds room.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, rights, MapFlags::PRIVATE)? };
        let start: *mut u8 = start.cast();
        // SAFETY: just mapped, and nobody else knows of it yet.
        unsafe { start.write_bytes(value, len) };
        Self::at(start, len)
    }

    /// Memory that shows the first `len` bytes of the file `of`, in whole pages.
    ///
    /// Only pages that are stored to take memory of their own.
    pub fn over(of: &impl AsFd, len: usize) -> io::Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, where the system finds room.
        let start = unsafe { mmap(ptr::null_mut(), len, rights, MapFlags::PRIVATE, of, 0)? };
        Self::at(start.cast(), len)
    }

    /// Shows the file again that this memory is [`over`](Self::over), in `len` bytes from
    /// `offset` on, and gives their memory back. Both are whole pages.
    pub fn forget(&self, offset: usize, len: usize) -> io::Result<()> {
        if offset > self.len || len > self.len - offset {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: inside, which is mapped as long as `self` lives. All access is by atomics,
        // which read the file's bytes from then on.
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

    /// Stores `bytes` at `offset`, word by word, each whole: both are multiples of 4.
    /// What is outside is left out.
    pub fn store(&self, offset: usize, bytes: &[u8]) {
        for (n, word) in bytes.as_chunks().0.iter().enumerate() {
            if let Some(to) = self.word(offset + 4 * n) {
                to.store(u32::from_ne_bytes(*word), Ordering::Release);
            }
        }
    }

    /// Where it lies in this process.
    pub fn address(&self) -> u64 {
        self.start.addr().get() as u64
    }

    /// The byte at `offset`, if that is inside.
    pub fn byte(&self, offset: usize) -> Option<&AtomicU8> {
        // SAFETY: inside, which is mapped as long as `self` lives.
        (offset < self.len).then(|| unsafe { self.start.add(offset).cast().as_ref() })
    }

    /// The 32 bits at `offset`, if they are inside and aligned.
    pub fn word(&self, offset: usize) -> Option<&AtomicU32> {
        let inside = offset <= self.len - 4 && offset.is_multiple_of(4);
        // SAFETY: inside, which is mapped as long as `self` lives, and
        // aligned, since the page is.
        inside.then(|| unsafe { self.start.add(offset).cast().as_ref() })
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped by us; nobody has a reference into it any more. It fails
        // only for an address that is not a page's.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
