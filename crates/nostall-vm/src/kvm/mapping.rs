//! Memory that is shared with the host's kernel, or with the guest.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, AtomicU32};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// What KVM maps by.
pub const PAGE: usize = 4096;

/// A page that others write or read while we do: by atomics only, therefore.
pub struct SharedPage {
    start: NonNull<u8>,
}

// SAFETY: the page belongs to this value alone, and is reached by atomics only.
unsafe impl Send for SharedPage {}
// SAFETY: as above.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// A page of the file `of`, `page` pages from its start.
    pub fn of(of: &impl AsFd, page: u64) -> io::Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let offset = page * PAGE as u64;
        // SAFETY: a new mapping, where the system finds room.
        let start = unsafe { mmap(ptr::null_mut(), PAGE, rights, MapFlags::SHARED, of, offset)? };
        Self::at(start.cast())
    }

    /// A page of its own, every byte of it `value`.
    pub fn filled(value: u8) -> io::Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, where the system finds room.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), PAGE, rights, MapFlags::PRIVATE)? };
        let page = Self::at(start.cast())?;
        for offset in 0..PAGE {
            if let Some(byte) = page.byte(offset) {
                byte.store(value, std::sync::atomic::Ordering::Relaxed);
            }
        }
        Ok(page)
    }

    fn at(start: *mut u8) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { start })
    }

    /// Where it lies in this process.
    pub fn address(&self) -> u64 {
        self.start.addr().get() as u64
    }

    /// The byte at `offset`, if that is inside.
    pub fn byte(&self, offset: usize) -> Option<&AtomicU8> {
        // SAFETY: inside the page, which is mapped as long as `self` lives.
        (offset < PAGE).then(|| unsafe { self.start.add(offset).cast().as_ref() })
    }

    /// The 32 bits at `offset`, if they are inside and aligned.
    pub fn word(&self, offset: usize) -> Option<&AtomicU32> {
        let inside = offset <= PAGE - 4 && offset.is_multiple_of(4);
        // SAFETY: inside the page, which is mapped as long as `self` lives, and
        // aligned, since the page is.
        inside.then(|| unsafe { self.start.add(offset).cast().as_ref() })
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: mapped by us; nobody has a reference into it any more. It fails
        // only for an address that is not a page's.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), PAGE) };
    }
}
