//! Mapped files that another process may truncate.
//!
//! An access behind the new end raises SIGBUS, as does an error of the disk. The signal's handler
//! puts zeros in the place of the lost pages and marks the mapping, so that the image reports an
//! error.

use std::fs::File;
use std::io;
use std::ops::Deref;

use memmap2::Mmap;

/// A mapped file.
#[derive(Debug)]
pub(crate) struct Mapped {
    // Dropped before the mapping, whose addresses may then be those of another one.
    #[cfg(unix)]
    watch: Option<watch::Watch>,
    map: Mmap,
    file: File,
}

impl Mapped {
    /// Maps a file.
    pub(super) fn new(file: File) -> io::Result<Self> {
        // SAFETY: the mapping is only read, as bytes, for which every value is valid. memmap2
        // requires that the file stays unchanged while mapped, which no program can enforce.
        // The documentation of `memory` describes the consequences.
        let map = unsafe { Mmap::map(&file) }?;
        Ok(Self {
            #[cfg(unix)]
            watch: watch::Watch::new(&map),
            map,
            file,
        })
    }

    /// Returns whether a part of the file is gone, including parts that were not read.
    pub(super) fn has_shrunk(&self) -> bool {
        let len = self.file.metadata().map(|meta| meta.len());
        self.has_lost() || len.is_ok_and(|len| len < self.map.len() as u64)
    }

    /// Returns whether zeros were read for bytes that the file had lost.
    pub(super) fn has_lost(&self) -> bool {
        #[cfg(unix)]
        let has_lost = self.watch.as_ref().is_some_and(watch::Watch::has_lost);
        #[cfg(not(unix))]
        let has_lost = false;
        has_lost
    }

    /// Returns the file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Advises the system about accesses to a part of the mapping. An error only costs time.
    #[cfg(unix)]
    pub(super) fn advise(&self, advice: memmap2::Advice, offset: usize, len: usize) {
        let _ = self.map.advise_range(advice, offset, len);
    }

    /// Lets the system take back the mapping's pages. An error only costs memory.
    #[cfg(unix)]
    pub(super) fn release(&self) {
        // SAFETY: the mapping is shared and only read, so the system reads the same bytes again from
        // the file. Pages that the signal's handler replaced stay zeros.
        let _ = unsafe {
            self.map
                .unchecked_advise(memmap2::UncheckedAdvice::DontNeed)
        };
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

#[cfg(unix)]
mod watch {
    use std::ffi::c_void;
    use std::mem;
    use std::ptr;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use libc::{c_int, siginfo_t};

    /// Maximum number of watched mappings. Truncation of another one ends the process.
    const MOST: usize = 1024;

    /// Address and length of a watched mapping, and whether pages were lost. A length of 0 is
    /// free.
    #[derive(Debug)]
    struct Slot {
        start: AtomicUsize,
        len: AtomicUsize,
        has_lost: AtomicBool,
    }

    static SLOTS: [Slot; MOST] = [const {
        Slot {
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            has_lost: AtomicBool::new(false),
        }
    }; MOST];

    /// The process's handler before this one.
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

    /// A watched mapping.
    #[derive(Debug)]
    pub(super) struct Watch(&'static Slot);

    impl Watch {
        /// Watches a mapping until the watch is dropped; `None` if there are too many.
        pub(super) fn new(map: &[u8]) -> Option<Self> {
            BEFORE.get_or_init(install);
            let is_free = |slot: &&Slot| {
                let exchange =
                    slot.len
                        .compare_exchange(0, map.len(), Ordering::AcqRel, Ordering::Relaxed);
                exchange.is_ok()
            };
            let slot = SLOTS.iter().find(is_free)?;
            slot.has_lost.store(false, Ordering::Relaxed);
            let start = map.as_ptr().expose_provenance();
            slot.start.store(start, Ordering::Release);
            Some(Self(slot))
        }

        /// Returns whether pages of the mapping were lost.
        pub(super) fn has_lost(&self) -> bool {
            self.0.has_lost.load(Ordering::Relaxed)
        }
    }

    impl Drop for Watch {
        fn drop(&mut self) {
            self.0.start.store(0, Ordering::Release);
            self.0.len.store(0, Ordering::Release);
        }
    }

    /// Installs the handler, and returns the previous one.
    fn install() -> libc::sigaction {
        // SAFETY: all bits 0 are valid for these structures of C.
        let (mut action, mut before): (libc::sigaction, libc::sigaction) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        action.sa_sigaction =
            on_bus_error as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both pointers are valid, and the handler calls only functions that a handler may.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) };
        before
    }

    extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
        // SAFETY: the system passes a valid structure.
        let address = unsafe { (*info).si_addr() }.addr();
        if SLOTS.iter().any(|slot| slot.replace(address)) {
            return;
        }
        // The address is in another mapping. The access is repeated, with the previous handler.
        let before = BEFORE.get().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the pointer is null or valid.
        unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
    }

    impl Slot {
        /// Puts zeros in the place of the page at an address and of all later ones, if they are of
        /// this mapping. Returns whether they are.
        fn replace(&self, address: usize) -> bool {
            let start = self.start.load(Ordering::Acquire);
            let len = self.len.load(Ordering::Acquire);
            let Some(at) = address
                .checked_sub(start)
                .filter(|at| start != 0 && *at < len)
            else {
                return false;
            };
            self.has_lost.store(true, Ordering::Relaxed);
            // SAFETY: has no preconditions.
            let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
            let at = at / page * page;
            let place = ptr::with_exposed_provenance_mut(start + at);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            // SAFETY: these pages are of a mapping that is only read, until its watch is dropped.
            let zeros = unsafe { libc::mmap(place, len - at, libc::PROT_READ, flags, -1, 0) };
            zeros != libc::MAP_FAILED
        }
    }
}
